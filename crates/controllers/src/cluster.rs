//! The life of a Cluster: its execution namespace, its finalizer, its taints, and the order in which it ends.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{DeleteOptions, ListOptions, Patch, PatchOptions};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{Cluster, SyncMode};
use karmada_api::constants::{events, finalizers, labels};
use karmada_api::identity::ClusterName;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use propagation::taints;
use serde_json::{Value, json};

use crate::Context;
use crate::absence::certain;
use crate::error::{During, Result};

/// The interval of checks whether a leaving Cluster can be removed (upstream's period).
const LEAVE_POLL: Duration = Duration::from_secs(10);

/// The first checks are sooner, because usually everything is deleted quickly.
const FIRST_LEAVE_POLL: Duration = Duration::from_millis(500);

fn namespaces() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ClusterName>> = context.queue();
    let keys = queue.clone();
    context.control.informer(&Cluster::api_resource()).subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) {
            keys.add(ClusterName::from(event.object().name()));
        }
    });
    let keys = queue.clone();
    context.control.informer(&namespaces()).subscribe(move |event| {
        if let Event::Deleted(namespace) = event
            && let Some(cluster) = names::cluster_of_namespace(namespace.name())
        {
            keys.add(ClusterName::from(cluster));
        }
    });
    if !context.synced().await {
        return;
    }
    let known = context.clusters.all();
    let ready = known.iter().filter(|cluster| cluster.is_ready()).count();
    tracing::info!(clusters = known.len(), ready, "Controllers started");
    let (stop, monitoring) = (context.stop.clone(), crate::lease::monitor(context.clone()));
    tokio::spawn(async move { stop.run_until_cancelled(monitoring).await });
    let stop = context.stop.clone();
    run_workers(Controller::of_clusters("cluster-controller"), queue, 16, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &name).await }
    })
    .await;
}

async fn reconcile(context: &Context, name: &ClusterName) -> Result<Next> {
    let key = ObjectKey::cluster(name.as_str());
    let Some(object) = context.control.informer(&Cluster::api_resource()).cache().get(&key) else {
        return Ok(Next::Done);
    };
    let Some(cluster) = context.clusters.get(name) else { return Ok(Next::Done) };
    if object.is_deleting() {
        return leave(context, &cluster, &object).await;
    }
    ensure_namespace(context, name, &object).await?;
    set_taints_and_finalizer(context, &cluster, &object).await?;
    Ok(Next::Done)
}

async fn ensure_namespace(context: &Context, cluster: &ClusterName, object: &Object) -> Result<()> {
    let name = cluster.execution_namespace();
    if context.control.informer(&namespaces()).cache().get(&ObjectKey::cluster(name.as_str())).is_some() {
        return Ok(());
    }
    // A cache that is behind has clusters that are leaving: objects created for them are deleted again, which this
    // process would treat as a missing namespace.
    if context.live(&Cluster::api_resource(), object).await?.is_none_or(|live| live.is_deleting()) {
        return Ok(());
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {labels::SYSTEM: "true"}},
    });
    let recorder = context.recorder.for_component("cluster-controller");
    match context.client.create(&namespaces(), &namespace).await {
        Ok(_) => {
            let message = format!("Created execution space({name}) for cluster({cluster}).");
            recorder.normal(object, events::CREATE_EXECUTION_SPACE_SUCCEED, message);
            Ok(())
        }
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => {
            recorder.warning(object, events::CREATE_EXECUTION_SPACE_FAILED, error.to_string());
            Err(error).during(|| format!("creating namespace {name}"))
        }
    }
}

/// Both in one write.
async fn set_taints_and_finalizer(context: &Context, cluster: &Cluster, object: &Object) -> Result<()> {
    let taints = taints::by_readiness(cluster, context.now());
    let mut present = cluster.metadata.finalizers.clone();
    let own_finalizer = finalizers::CLUSTER.to_owned();
    let lacks_finalizer = !present.contains(&own_finalizer);
    if taints.is_none() && !lacks_finalizer {
        return Ok(());
    }
    let mut patch = json!({"metadata": {"resourceVersion": object.resource_version()}});
    if lacks_finalizer {
        present.push(own_finalizer);
        patch["metadata"]["finalizers"] = json!(present);
    }
    if let Some(taints) = &taints {
        patch["spec"] = json!({"taints": taints});
    }
    let written = write(context, cluster, patch).await;
    if let Some(taints) = &taints {
        let recorder = context.recorder.for_component("cluster-controller");
        match &written {
            Ok(()) => recorder.normal(object, events::TAINT_CLUSTER_SUCCEED, taints::message(taints)),
            // Another pass processes the newer state.
            Err(error) if error.is_conflict() => {}
            Err(error) => recorder.warning(object, events::TAINT_CLUSTER_FAILED, error.to_string()),
        }
    }
    written
}

async fn write(context: &Context, cluster: &Cluster, patch: Value) -> Result<()> {
    let (resource, key) = (Cluster::api_resource(), cluster.key());
    let written = context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await;
    written.map(|_| ()).during(|| format!("writing cluster {key}"))
}

/// Deletes the Works and their namespace (for a ready agent one after the other), then waits for the bindings to drop the
/// cluster, then removes the finalizer.
async fn leave(context: &Context, cluster: &Cluster, object: &Object) -> Result<Next> {
    if !cluster.metadata.finalizers.iter().any(|finalizer| finalizer == finalizers::CLUSTER) {
        return Ok(Next::Done);
    }
    let name = cluster.metadata.name.as_str();
    if cluster.spec.sync_mode == SyncMode::Pull {
        match cluster.is_ready() {
            true if end_works(context, name, object).await? => return Ok(Next::After(FIRST_LEAVE_POLL)),
            true => {}
            false => release_works(context, name).await?,
        }
    }
    let namespace = ObjectKey::cluster(names::execution_namespace(name));
    let recorder = context.recorder.for_component("cluster-controller");
    match certain(&context.client, &namespaces(), &namespace).await? {
        Some(existing) => {
            if !existing.is_deleting() {
                // A cluster that has joined under this name since has another namespace: a namespace that was read
                // before the leaving Cluster was confirmed is not that one.
                let live = context.live(&Cluster::api_resource(), object).await?;
                if !live.is_some_and(|live| live.is_deleting()) {
                    return Ok(Next::Done);
                }
                let options = DeleteOptions::default().only_uid(existing.uid());
                let deleted = context.client.delete(&namespaces(), &namespace, &options).await;
                if let Err(error) = deleted
                    && !error.is_not_found()
                {
                    recorder.warning(object, events::REMOVE_EXECUTION_SPACE_FAILED, error.to_string());
                    return Err(error).during(|| format!("deleting namespace {namespace}"));
                }
                let message = format!("Removed execution space for cluster({name}).");
                recorder.normal(object, events::REMOVE_EXECUTION_SPACE_SUCCEED, message);
                return Ok(Next::After(FIRST_LEAVE_POLL));
            }
            return Ok(Next::After(LEAVE_POLL));
        }
        None if is_targeted(context, name) => return Ok(Next::After(FIRST_LEAVE_POLL)),
        None => {}
    }
    let present = &cluster.metadata.finalizers;
    let left: Vec<_> = present.iter().filter(|finalizer| *finalizer != finalizers::CLUSTER).collect();
    let patch = json!({"metadata": {"finalizers": left, "resourceVersion": object.resource_version()}});
    write(context, cluster, patch).await?;
    Ok(Next::Done)
}

/// Deletes the Works of a cluster whose agent works; returns whether any is left. The agent's rights are in the
/// namespace of the Works: deleted together with the Works, they would leave Works that the agent cannot end.
async fn end_works(context: &Context, cluster: &str, object: &Object) -> Result<bool> {
    let (resource, namespace) = (Work::api_resource(), names::execution_namespace(cluster));
    let listed = context.client.list(&resource, Some(&namespace), &ListOptions::default()).await;
    let works = listed.during(|| format!("listing works in {namespace}"))?.items;
    let present: Vec<_> = works.iter().filter(|work| !work.is_deleting()).collect();
    // As with the namespace: a cluster that has joined under this name since keeps its Works.
    if !present.is_empty() && !context.live(&Cluster::api_resource(), object).await?.is_some_and(|it| it.is_deleting())
    {
        return Ok(true);
    }
    for work in present {
        let (key, options) = (work.key(), DeleteOptions::default().only_uid(work.uid()));
        match context.client.delete(&resource, &key, &options).await {
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            other => other.map(|_| ()).during(|| format!("deleting work {key}"))?,
        }
    }
    Ok(!works.is_empty())
}

/// Whether any binding still targets the cluster; the scheduler removes a leaving cluster from bindings.
fn is_targeted(context: &Context, cluster: &str) -> bool {
    let bindings = Scope::ALL.into_iter().flat_map(|scope| context.bindings(scope).cache().list(None));
    bindings
        .filter_map(|object| Binding::decode(&object).ok())
        .any(|binding| binding.spec.clusters.iter().any(|target| target.name == cluster))
}

/// The agent that would finish these Works was removed, and its objects stay in the member.
async fn release_works(context: &Context, cluster: &str) -> Result<()> {
    for work in context.works.cache().list(Some(&names::execution_namespace(cluster))) {
        let present = work.finalizers();
        if !present.iter().any(|finalizer| &**finalizer == finalizers::EXECUTION) {
            continue;
        }
        let left: Vec<_> = present.iter().filter(|finalizer| &***finalizer != finalizers::EXECUTION).collect();
        let patch = json!({"metadata": {"finalizers": left, "resourceVersion": work.resource_version()}});
        let (resource, key) = (Work::api_resource(), work.key());
        match context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await {
            Err(error) if error.is_not_found() => {}
            other => other.map(|_| ()).during(|| format!("releasing work {key}"))?,
        }
    }
    Ok(())
}
