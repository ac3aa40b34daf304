//! ClusterTaintPolicies: taints by the conditions of a cluster.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::events;
use karmada_api::identity::ClusterName;
use karmada_api::policy::v1alpha1::ClusterTaintPolicy;
use propagation::taints;
use serde_json::json;

use crate::Context;
use crate::error::{During, Result, decode};
use crate::stores::Store;

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.failover {
        return;
    }
    let queue: Arc<WorkQueue<ClusterName>> = context.queue();
    let informer = context.control.informer(&ClusterTaintPolicy::api_resource());
    let policies = Store::follow(&[&informer], decode);
    let (keys, clusters) = (queue.clone(), context.clusters.clone());
    informer.subscribe(move |event| {
        // Taints of a deleted policy stay.
        if event.changes_generation() && !matches!(event, Event::Deleted(_)) {
            clusters.all().iter().for_each(|cluster| keys.add(ClusterName::of(cluster)));
        }
    });
    let (keys, clusters) = (queue.clone(), context.clusters.clone());
    context.control.informer(&Cluster::api_resource()).subscribe(move |event| {
        let conditions = |object: &Object| Cluster::from_object(object).ok().map(|cluster| cluster.status.conditions);
        let changed = match event {
            Event::Deleted(_) => false,
            Event::Added { .. } => true,
            Event::Updated { old, new } => {
                // The store has the new one already.
                let new = clusters.get(new.name()).map(|cluster| cluster.status.conditions.clone());
                new.is_none() || new != conditions(old)
            }
        };
        if changed {
            keys.add(ClusterName::from(event.object().name()));
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers(Controller::of_clusters("cluster-taint-policy-controller"), queue, 4, stop, move |name| {
        let (context, policies) = (context.clone(), policies.clone());
        async move { reconcile(&context, &policies, &name).await }
    })
    .await;
}

async fn reconcile(context: &Context, policies: &Store<ClusterTaintPolicy>, name: &ClusterName) -> Result<Next> {
    let key = ObjectKey::cluster(name.as_str());
    let Some(object) = context.control.informer(&Cluster::api_resource()).cache().get(&key) else {
        return Ok(Next::Done);
    };
    let Some(cluster) = context.clusters.get(name).filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Ok(Next::Done);
    };
    let all = policies.all();
    let Some(taints) = taints::by_policies(&cluster, all.iter().map(|policy| &**policy), context.now()) else {
        return Ok(Next::Done);
    };
    let version = &cluster.metadata.resource_version;
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}));
    let recorder = context.recorder.for_component("cluster-taint-policy-controller");
    match context.client.patch(&Cluster::api_resource(), &key, &patch, &PatchOptions::default()).await {
        Ok(_) => {
            recorder.normal(&*object, events::TAINT_CLUSTER_SUCCEED, taints::message_of_policies(name, &taints));
            Ok(Next::Done)
        }
        Err(error) if error.is_not_found() => Ok(Next::Done),
        // Another pass processes the newer state.
        Err(error) if error.is_conflict() => Err(error).during(|| format!("tainting cluster {name}")),
        Err(error) => {
            recorder.warning(&*object, events::TAINT_CLUSTER_FAILED, error.to_string());
            Err(error).during(|| format!("tainting cluster {name}"))
        }
    }
}
