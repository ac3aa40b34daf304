//! The status of each member: health, version, API enablements, nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ApiResource;
use apimachinery::meta::{Condition, Time};
use client::DiscoveryTags;
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use http::StatusCode;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{ApiEnablement, Cluster, ClusterStatus, EnabledResource, ResourceModel};
use karmada_api::constants::{conditions, finalizers};
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use propagation::cluster_status::{self, Probe};
use propagation::failover::brake::Sign;
use propagation::readiness::{self, Observation};
use propagation::resource_summary::{self, Pods};
use propagation::status::set_condition;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::context::Part;
use crate::error::{During, Result};
use crate::identity::{self, IdentityState};
use crate::members::Member;
use crate::{Context, MemberError};

/// By cluster, while this process runs.
#[derive(Default)]
struct Remembered {
    observation: Option<Observation>,
    summed: Option<Summed>,
    discovered: Option<Discovered>,
    pods: Pods,
}

/// The last complete discovery: of an unchanged one, a member sends nothing but its tag.
struct Discovered {
    tags: DiscoveryTags,
    /// Of the API enablements that it has. The cluster's may have been changed since.
    digest: u64,
}

/// What was summed up last.
struct Summed {
    /// The states of the caches of nodes and pods.
    caches: [u64; 2],
    models: Vec<ResourceModel>,
}

type Observations = Mutex<HashMap<ClusterName, Remembered>>;

/// A member that does not answer holds its place for the client's time-out (32 s), and others wait for it: places for
/// all members of a large fleet, even if all are lost. One takes a few KiB.
const PROBED_TOGETHER: usize = 4096;

/// Members that answer and are read at once. Their discoveries are in memory together, some 100 KiB each.
const READ_TOGETHER: usize = 256;

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ClusterName>> = context.queue();
    context.definitions.recheck_with(queue.clone());
    let observations: Arc<Observations> = Arc::default();
    let (keys, forget, watched) = (queue.clone(), observations.clone(), context.clone());
    context.cluster_informer.subscribe(move |event| {
        let name = event.object().name();
        match event {
            Event::Deleted(_) => {
                forget.lock().remove(name);
                watched.metrics.forget(name);
                watched.brake.forget(name);
                watched.definitions.forget(name);
            }
            // A new cluster waits for the finalizer.
            Event::Updated { old, new } if old.finalizers() == new.finalizers() && !event.changes_generation() => {}
            _ => keys.add(ClusterName::from(name)),
        }
    });
    if !context.synced().await {
        return;
    }
    if let Some(cluster) = &context.agent_of {
        let (stop, renewing) = (context.stop.clone(), crate::lease::renew(context.clone(), cluster.clone()));
        tokio::spawn(async move { stop.run_until_cancelled(renewing).await });
    }
    let stop = context.stop.clone();
    let reading = Arc::new(Semaphore::new(READ_TOGETHER));
    run_workers(Controller::of_clusters("cluster-status-controller"), queue, PROBED_TOGETHER, stop, move |name| {
        let (context, observations, reading) = (context.clone(), observations.clone(), reading.clone());
        async move { reconcile(&context, &observations, &reading, &name).await }
    })
    .await;
}

async fn reconcile(
    context: &Context,
    observations: &Observations,
    reading: &Semaphore,
    name: &ClusterName,
) -> Result<Next> {
    let Some(cluster) = context.clusters.get(name) else { return Ok(Next::Done) };
    let has_finalizer = cluster.metadata.finalizers.iter().any(|finalizer| finalizer == finalizers::CLUSTER);
    if !context.serves(&cluster) || !has_finalizer {
        return Ok(Next::Done);
    }
    let started = tokio::time::Instant::now();
    let (probe, member) = match context.members.get(name).await {
        Ok(member) => (identified(context, &member, &cluster).await?, Some(member)),
        Err(MemberError::NoCluster(_)) => return Ok(Next::Done),
        Err(error) => (Probe::NoClient(error.to_string()), None),
    };
    let moment = context.world.moment();
    let now = Time::new(moment.now());
    let (ready, is_back) = {
        let mut observations = observations.lock();
        let remembered = observations.entry(name.clone()).or_default();
        let current = cluster.condition(conditions::READY);
        let before = remembered.observation.as_ref();
        let (condition, observation) =
            readiness::settle(&probe, current, before, context.settings.thresholds, (now, &|at| moment.since(at)));
        let is_back = observation.ready && before.is_some_and(|before| !before.ready);
        remembered.observation = Some(observation);
        (condition, is_back)
    };
    let sign = if probe == Probe::Healthy { Sign::Present } else { Sign::Missing };
    context.brake.note(context, name, sign);
    let (mut status, mut again) = (cluster.status.clone(), None);
    let collects = probe == Probe::Healthy && ready.status == "True";
    set_condition(&mut status.conditions, ready, now);
    if let Some(member) = member.as_ref().filter(|_| is_back) {
        member.try_again();
    }
    if let Some(member) = member.filter(|_| collects) {
        // Never closed.
        let _place = reading.acquire().await;
        collect(&member, &mut status, now, observations).await;
        again = context.definitions.again(name, &status.api_enablements, context.settings.status_frequency);
        // A newly served kind unblocks the Works that wait for it, as a reconnected member does.
        if status.api_enablements != cluster.status.api_enablements {
            member.try_again();
        }
        let models = if context.settings.gates.resource_models { cluster.spec.resource_models.as_slice() } else { &[] };
        if context.settings.sums {
            sum_up(&member, models, &mut status, observations).await;
        }
    }
    write(context, &cluster, status.clone()).await?;
    let seen = Cluster { status, ..Cluster::clone(&cluster) };
    context.metrics.cluster(&seen, started.elapsed());
    Ok(Next::After(again.unwrap_or(context.settings.status_frequency)))
}

/// The state of a member, and whether it is the cluster it should be.
async fn identified(context: &Context, member: &Member, cluster: &Cluster) -> Result<Probe> {
    let probe = probe(member).await;
    if probe != Probe::Healthy {
        member.identity.forget();
        return Ok(probe);
    }
    match identity::identity_state(context, member, cluster).await {
        Ok(IdentityState::Accepted) => Ok(probe),
        Ok(IdentityState::Unrecorded(uid)) => match identity::record(context, cluster, &uid).await {
            Ok(()) => Ok(probe),
            Err(error) if error.is_conflict() => Err(error).during(|| format!("recording the ID of {}", member.name)),
            Err(error) => Ok(Probe::Unrecorded(error.to_string())),
        },
        Err(MemberError::Refused { cluster, refusal }) => {
            // The endpoint may lead to the right cluster again, without a failed probe between.
            member.identity.forget();
            Ok(Probe::Refused { cluster: cluster.to_string(), refusal })
        }
        Err(error) => {
            tracing::debug!(cluster = &*member.name, %error, "probe failed");
            Ok(Probe::Offline)
        }
    }
}

/// `/readyz`; older servers have only `/healthz`.
async fn probe(member: &Member) -> Probe {
    let answer = match probe_path(member, "/readyz").await {
        Some(StatusCode::NOT_FOUND) => probe_path(member, "/healthz").await,
        other => other,
    };
    match answer {
        Some(StatusCode::OK) => Probe::Healthy,
        Some(code) if code.is_success() => Probe::Unhealthy,
        Some(code @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) => Probe::Denied(code.as_u16()),
        _ => Probe::Offline,
    }
}

/// The HTTP status of a member's endpoint; the body is not read.
async fn probe_path(member: &Member, path: &str) -> Option<StatusCode> {
    let request = http::Request::get(path).body(transport::empty()).expect("a path of our own");
    match tokio::time::timeout(client::DEFAULT_TIMEOUT, member.client.send(request)).await {
        Ok(Ok(response)) => {
            match response.status() {
                code if matches!(code.as_u16(), 502..=504) => {
                    let text = code.canonical_reason().unwrap_or_default();
                    member.probe.silent(&format!("the server answered {}: {text}", code.as_u16()));
                }
                _ => member.probe.succeeded(),
            }
            Some(response.status())
        }
        Ok(Err(error)) => {
            member.probe.failed(&error);
            None
        }
        Err(_) => {
            member.probe.silent(&format!("no answer within {} s", client::DEFAULT_TIMEOUT.as_secs()));
            None
        }
    }
}

/// Parts that cannot be read keep their last known values.
async fn collect(member: &Member, status: &mut ClusterStatus, now: Time, observations: &Observations) {
    if let Ok(version) = member.client.request(http::Method::GET, "/version", None).await
        && let Ok(version) = serde_json::from_slice::<Value>(&version)
        && let Some(version) = version["gitVersion"].as_str()
    {
        status.kubernetes_version = version.to_owned();
    }
    let mut tags = None;
    let (found, failed) = match member.client.discovery_if_changed(&known_tags(member, status, observations)).await {
        Ok(None) => (std::mem::take(&mut status.api_enablements), false),
        Ok(Some((discovery, new))) => {
            let failed = !discovery.failed.is_empty();
            tags = Some(new).filter(|_| !failed);
            let found = discovery.group_versions().into_iter().map(|(version, resources)| ApiEnablement {
                group_version: version.to_string(),
                resources: resources
                    .into_iter()
                    .map(|r| EnabledResource { name: r.resource.plural.clone(), kind: r.resource.kind.clone() })
                    .collect(),
            });
            (found.collect(), failed)
        }
        Err(error) => {
            tracing::debug!(cluster = &*member.name, err = %error, "Discovery failed");
            (std::mem::take(&mut status.api_enablements), true)
        }
    };
    let (enablements, condition) = cluster_status::api_enablements(found, failed);
    status.api_enablements = enablements;
    if let Some(tags) = tags
        && let Some(remembered) = observations.lock().get_mut(&member.name)
    {
        remembered.discovered = Some(Discovered { tags, digest: cluster_status::digest(&status.api_enablements) });
    }
    set_condition(&mut status.conditions, condition, now);
}

/// The tags of the discovery that the cluster's API enablements are of.
fn known_tags(member: &Member, status: &ClusterStatus, observations: &Observations) -> DiscoveryTags {
    let digest = cluster_status::digest(&status.api_enablements);
    let observations = observations.lock();
    let discovered = observations.get(&member.name).and_then(|remembered| remembered.discovered.as_ref());
    discovered.filter(|known| known.digest == digest).map(|known| known.tags.clone()).unwrap_or_default()
}

/// How long the first pass waits for complete caches; a partial count is worse than none.
const CACHE_WAIT: Duration = Duration::from_secs(2);

/// Counts nodes and sums up the requests of pods, when any of them or the models changed.
async fn sum_up(member: &Member, models: &[ResourceModel], status: &mut ClusterStatus, observations: &Observations) {
    let nodes = member.informers.informer(&ApiResource::cluster("", "v1", "Node", "nodes"));
    let pods = member.informers.informer(&ApiResource::namespaced("", "v1", "Pod", "pods"));
    let both = async { nodes.synced().await && pods.synced().await };
    if tokio::time::timeout(CACHE_WAIT, both).await != Ok(true) {
        return;
    }
    let caches = [nodes.cache().changes(), pods.cache().changes()];
    let name = &member.name;
    let is_known = observations
        .lock()
        .get(name)
        .and_then(|remembered| remembered.summed.as_ref())
        .is_some_and(|summed| summed.caches == caches && summed.models == models);
    if is_known && status.resource_summary.is_some() {
        return;
    }
    let nodes: Vec<Value> = nodes.cache().list(None).iter().filter_map(|object| object.to_tree().ok()).collect();
    status.node_summary = Some(cluster_status::node_summary(&nodes));
    // No other task works on this cluster, so the summary can be taken out of the map.
    let mut known = observations.lock().get_mut(name).map(|remembered| std::mem::take(&mut remembered.pods));
    let known = known.get_or_insert_default();
    let updated = known.update(&pods.cache().list(None));
    match updated.and_then(|()| resource_summary::summarize(&nodes, known, models)) {
        Ok(summary) => status.resource_summary = Some(summary),
        Err(err) => tracing::warn!(cluster = &**name, err, "Resource summary cannot be computed; the last one stands"),
    }
    if let Some(remembered) = observations.lock().get_mut(name) {
        remembered.summed = Some(Summed { caches, models: models.to_vec() });
        remembered.pods = std::mem::take(known);
    }
}

/// The conditions that are written here; others have others in the same list.
const OWN_CONDITIONS: [&str; 2] = [conditions::READY, conditions::COMPLETE_API_ENABLEMENTS];

/// Merges the collected status into the newest state: the collection takes time.
async fn write(context: &Context, cluster: &Cluster, found: ClusterStatus) -> Result<()> {
    let (resource, key) = (Cluster::api_resource(), cluster.key());
    let newest = context.clusters.get(key.name()).filter(|newest| newest.metadata.uid == cluster.metadata.uid);
    let Some(newest) = newest else { return Ok(()) };
    let known = newest.status.clone();
    let status = ClusterStatus {
        conditions: united(&known.conditions, found.conditions),
        remedy_actions: known.remedy_actions.clone(),
        ..found
    };
    if status == known {
        return Ok(());
    }
    let version = &newest.metadata.resource_version;
    let Some(object) = context.cluster_informer.cache().get(&key) else { return Ok(()) };
    let change = json!({"metadata": {"uid": cluster.metadata.uid, "resourceVersion": version}, "status": status});
    match context.change(&resource, &object, change, Part::Status).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(|_| ()).during(|| format!("writing the status of cluster {key}")),
    }
}

/// Writes all conditions of a Cluster, with their source version as precondition. False if the Cluster was deleted.
///
/// # Errors
/// Also a conflict: the conditions may not be derived from the newest version.
pub(crate) async fn write_conditions(
    context: &Context,
    cluster: &Cluster,
    conditions: &[Condition],
) -> client::Result<bool> {
    let Some(object) = context.cluster_informer.cache().get(&cluster.key()) else { return Ok(false) };
    let metadata = json!({"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version});
    let change = json!({"metadata": metadata, "status": {"conditions": conditions}});
    match context.change(&Cluster::api_resource(), &object, change, Part::Status).await {
        Err(error) if error.is_not_found() => Ok(false),
        other => other.map(|_| true),
    }
}

fn united(known: &[Condition], found: Vec<Condition>) -> Vec<Condition> {
    let is_own = |condition: &Condition| OWN_CONDITIONS.contains(&condition.type_.as_str());
    let mut all = known.to_vec();
    for condition in found.into_iter().filter(is_own) {
        match all.iter_mut().find(|it| it.type_ == condition.type_) {
            Some(it) => *it = condition,
            None => all.push(condition),
        }
    }
    all
}
