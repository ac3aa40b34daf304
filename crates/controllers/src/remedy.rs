//! Remedies: writes the remedy actions that match a cluster's conditions into its status.

use std::sync::Arc;

use apimachinery::ObjectKey;
use client::{Patch, PatchOptions};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::ClusterName;
use karmada_api::remedy::v1alpha1::Remedy;
use propagation::remedies;
use serde_json::json;

use crate::Context;
use crate::error::{During, Result, decode};
use crate::stores::Store;

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ClusterName>> = context.queue();
    let informer = context.control.informer(&Remedy::api_resource());
    let remedies = Store::follow(&[&informer], decode);
    let (keys, clusters) = (queue.clone(), context.clusters.clone());
    informer.subscribe(move |event| {
        if event.changes_generation() {
            clusters.all().iter().for_each(|cluster| keys.add(ClusterName::of(cluster)));
        }
    });
    let (keys, clusters) = (queue.clone(), context.control.informer(&Cluster::api_resource()));
    clusters.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) {
            keys.add(ClusterName::from(event.object().name()));
        }
    });
    // Before all are known, an action that is due would be taken back.
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers(Controller::of_clusters("remedy-controller"), queue, 4, stop, move |name| {
        let (context, remedies) = (context.clone(), remedies.clone());
        async move { reconcile(&context, &remedies, &name).await }
    })
    .await;
}

async fn reconcile(context: &Context, remedies: &Store<Remedy>, name: &ClusterName) -> Result<Next> {
    let key = ObjectKey::cluster(name.as_str());
    let Some(cluster) = context.clusters.get(name) else { return Ok(Next::Done) };
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Done);
    }
    let all = remedies.all();
    let live = all.iter().filter(|remedy| remedy.metadata.deletion_timestamp.is_none());
    let actions = remedies::actions(&cluster, live.map(|remedy| &**remedy));
    if actions == cluster.status.remedy_actions {
        return Ok(Next::Done);
    }
    let actions = (!actions.is_empty()).then_some(actions);
    let version = &cluster.metadata.resource_version;
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": {"remedyActions": actions}}));
    let written = context.client.patch(&Cluster::api_resource(), &key, &patch, &PatchOptions::status()).await;
    match written {
        Err(error) if error.is_not_found() => Ok(Next::Done),
        other => other.map(|_| Next::Done).during(|| format!("writing the remedies of cluster {key}")),
    }
}
