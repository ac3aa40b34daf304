//! What is known of each member: whether it answers, its version, what it serves, its nodes.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::{ApiResource, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{ApiEnablement, Cluster, ClusterStatus, EnabledResource, SyncMode};
use karmada_api::constants::finalizers;
use parking_lot::Mutex;
use propagation::cluster_status::{self, Observation, Probe};
use propagation::status::set_condition;
use serde_json::{Value, json};

use crate::error::{During, Result};
use crate::members::Member;
use crate::{Context, MemberError};

type Observations = Mutex<HashMap<String, Observation>>;

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<String>> = Arc::new(WorkQueue::new());
    let observations: Arc<Observations> = Arc::default();
    let (keys, forget) = (queue.clone(), observations.clone());
    context.control.informer(&Cluster::api_resource()).subscribe(move |event| {
        let name = event.object().name();
        match event {
            Event::Deleted(_) => {
                forget.lock().remove(name);
            }
            // The finalizer is what a new cluster waits for.
            Event::Updated { old, new } if old.finalizers() == new.finalizers() && !event.changes_generation() => {}
            _ => keys.add(name.to_owned()),
        }
    });
    if !context.synced().await {
        return;
    }
    let stop = context.stop.clone();
    // A member that does not answer holds its place for the client's time-out (32 s): enough places for all of some
    // hundreds of members, of which half are lost.
    run_workers("clusterStatus", queue, 256, stop, move |name| {
        let (context, observations) = (context.clone(), observations.clone());
        async move { reconcile(&context, &observations, &name).await }
    })
    .await;
}

async fn reconcile(context: &Context, observations: &Observations, name: &str) -> Result<Next> {
    let Some(cluster) = context.clusters.get(&ObjectKey::cluster(name)) else { return Ok(Next::Done) };
    let has_finalizer = cluster.metadata.finalizers.iter().any(|finalizer| finalizer == finalizers::CLUSTER);
    if cluster.spec.sync_mode == SyncMode::Pull || !has_finalizer {
        return Ok(Next::Done);
    }
    let (probe, member) = match context.members.get(name).await {
        Ok(member) => (probe(&member).await, Some(member)),
        Err(MemberError::NoCluster(_)) => return Ok(Next::Done),
        Err(error) => (Probe::NoClient(error.to_string()), None),
    };
    let now = context.now();
    let ready = {
        let mut observations = observations.lock();
        let current = cluster.condition(karmada_api::constants::conditions::READY);
        let (condition, observation) =
            cluster_status::settle(&probe, current, observations.get(name), context.settings.thresholds, now);
        observations.insert(name.to_owned(), observation);
        condition
    };
    let mut status = cluster.status.clone();
    let collects = probe == Probe::Healthy && ready.status == "True";
    set_condition(&mut status.conditions, ready, now);
    if let Some(member) = member.filter(|_| collects) {
        collect(&member, &mut status, now).await;
    }
    write(context, &cluster, &status).await?;
    Ok(Next::After(context.settings.status_frequency))
}

/// `/readyz`; older servers know only `/healthz`.
async fn probe(member: &Member) -> Probe {
    let ask = |path: &'static str| member.client.request(http::Method::GET, path, None);
    let answer = match ask("/readyz").await {
        Err(error) if error.is_not_found() => ask("/healthz").await,
        other => other,
    };
    match answer {
        Ok(_) => Probe::Healthy,
        Err(error) => {
            tracing::debug!(cluster = member.name, %error, "probe failed");
            Probe::Offline
        }
    }
}

/// Parts that cannot be read keep what was known of them.
async fn collect(member: &Member, status: &mut ClusterStatus, now: Time) {
    if let Ok(version) = member.client.request(http::Method::GET, "/version", None).await
        && let Ok(version) = serde_json::from_slice::<Value>(&version)
    {
        status.kubernetes_version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
    }
    match member.client.discovery().await {
        Ok(discovery) => {
            let failed = !discovery.failed.is_empty();
            let found = discovery.group_versions().into_iter().map(|(version, resources)| ApiEnablement {
                group_version: version.to_string(),
                resources: resources
                    .into_iter()
                    .map(|r| EnabledResource { name: r.resource.plural.clone(), kind: r.resource.kind.clone() })
                    .collect(),
            });
            let (enablements, condition) = cluster_status::api_enablements(found.collect(), failed);
            status.api_enablements = enablements;
            set_condition(&mut status.conditions, condition, now);
        }
        Err(error) => tracing::debug!(cluster = member.name, %error, "discovery failed"),
    }
    let nodes = member.informers.informer(&ApiResource::cluster("", "v1", "Node", "nodes"));
    // The first look may come before the cache is complete; a partial count is worse than the last one.
    let synced = tokio::time::timeout(std::time::Duration::from_secs(2), nodes.synced()).await;
    if synced == Ok(true) {
        let trees: Vec<Value> = nodes.cache().list(None).iter().filter_map(|node| node.to_value().ok()).collect();
        status.node_summary = Some(cluster_status::node_summary(&trees));
    }
}

async fn write(context: &Context, cluster: &Cluster, status: &ClusterStatus) -> Result<()> {
    if *status == cluster.status {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": cluster.metadata.uid}, "status": status});
    let (resource, key) = (Cluster::api_resource(), cluster.key());
    match context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::status()).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(|_| ()).during(|| format!("writing the status of cluster {key}")),
    }
}
