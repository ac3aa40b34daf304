//! Ends eviction tasks: when the copies that take over are healthy, or when the grace period is over. The controllers
//! of bindings then delete the old copy.

use std::sync::Arc;

use apimachinery::Object;
use controller_runtime::{Controller, Next, WorkQueue, run_workers};
use karmada_api::constants::events;
use karmada_api::identity::{BindingKey, ClusterName};
use karmada_api::scope::{Binding, Scope};
use propagation::failover::graceful::{Circumstances, assess};

use super::{follow, has, is_ready, record_failed, subjects, write};
use crate::Context;
use crate::error::Result;

const WORKERS: usize = 16;

fn component(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => "resource-binding-graceful-eviction-controller",
        Scope::Cluster => "cluster-resource-binding-graceful-eviction-controller",
    }
}

fn is_evicting(binding: &Object) -> bool {
    has(binding, &["gracefulEvictionTasks"])
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<BindingKey>> = context.queue();
    follow(&context, &queue, is_evicting);
    if !context.synced().await {
        return;
    }
    let (stop, controller) = (context.stop.clone(), Controller::of_bindings(component(Scope::Namespaced)));
    let recording = super::history::run(context.clone());
    let ending = run_workers(controller, queue, WORKERS, stop, move |key| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    });
    futures::join!(ending, recording);
}

async fn reconcile(context: &Context, key: &BindingKey) -> Result<Next> {
    let scope = key.scope();
    let cached = context.bindings(scope).cache().get(key);
    let Some(object) = cached.filter(|it| !it.is_deleting()) else { return Ok(Next::Done) };
    let binding = Binding::decode(&object)?;
    let (moment, grace) = (context.world.moment(), context.settings.eviction.grace);
    let since = |at| moment.since(at);
    let assessment = assess(
        &binding,
        Circumstances { now: moment.now(), since: &since, grace, is_ready: &|cluster| is_ready(context, cluster) },
    );
    if let Some(tasks) = assessment.tasks {
        let mut spec = binding.spec.clone();
        spec.graceful_eviction_tasks = tasks;
        match write(context, &binding, &spec).await {
            Ok(()) => {
                context.history.ended(&binding, &assessment.ended, context.now());
                record_ended(context, &object, &binding, assessment.ended.iter().map(|(cluster, _)| cluster));
            }
            Err(error) if error.is_not_found() => return Ok(Next::Done),
            Err(error) => {
                // A conflict is resolved by the next pass.
                for (cluster, _) in assessment.ended.iter().filter(|_| !error.is_conflict()) {
                    record_failed(context, component(scope), subjects(&object, &binding), cluster, &error);
                }
                return Err(error);
            }
        }
    }
    Ok(assessment.next.map_or(Next::Done, Next::After))
}

fn record_ended<'a>(
    context: &Context,
    object: &Object,
    binding: &Binding,
    clusters: impl Iterator<Item = &'a ClusterName>,
) {
    let recorder = context.recorder.for_component(component(binding.scope));
    for cluster in clusters {
        for subject in subjects(object, binding) {
            let message = format!("Evict from cluster {cluster} succeed.");
            recorder.normal(subject, events::EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, message);
        }
    }
}
