//! WorkloadRebalancers: the bindings of the listed workloads are scheduled afresh.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::{DeleteOptions, Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use futures::stream::{self, StreamExt as _};
use karmada_api::ApiType;
use karmada_api::apps::v1alpha1::{ObservedWorkload, WorkloadRebalancer, WorkloadReference};
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use propagation::rebalance::{self, Expiry, Request, Trigger};
use serde_json::json;

use crate::Context;
use crate::absence::certain;
use crate::error::{During, Error, Result, decoded};

/// Bindings of one rebalancer that are written at once.
const AT_ONCE: usize = 16;
const WORKERS: usize = 4;

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&WorkloadRebalancer::api_resource());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        if event.changes_generation() && !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().key());
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers("workload-rebalancer", queue, WORKERS, stop, move |key| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let resource = WorkloadRebalancer::api_resource();
    // From the server: in a cached state workloads may lack results that were written, and would be triggered twice.
    let live = certain(&context.client, &resource, key).await?;
    let Some(object) = live.filter(|it| !it.is_deleting()) else { return Ok(Next::Done) };
    let rebalancer = decoded(key, WorkloadRebalancer::from_object(&object))?;
    let pass = trigger_all(context, &rebalancer).await;
    let written = write_status(context, &object, &rebalancer, pass.observed).await?;
    if !pass.errors.is_empty() {
        let (count, why) = (pass.errors.len(), pass.errors.join("; "));
        return Err(Error::Wait(format!("{count} resource reschedule triggered failed and need retry: {why}")));
    }
    if let Some(after) = pass.after {
        return Ok(Next::After(after));
    }
    let Some(object) = written else { return Ok(Next::Done) };
    expire(context, &object).await
}

/// The result of a pass over the workloads.
struct Pass {
    observed: Vec<ObservedWorkload>,
    errors: Vec<String>,
    /// When some of them can be triggered.
    after: Option<std::time::Duration>,
}

async fn trigger_all(context: &Context, rebalancer: &WorkloadRebalancer) -> Pass {
    let observed = rebalance::observed(rebalancer);
    let passes = observed.into_iter().map(|item| async {
        if !item.result.is_empty() {
            return (item, Ok(None));
        }
        match trigger(context, rebalancer, &item.workload).await {
            Ok(Triggered::Finished { found }) => (rebalance::outcome(&item.workload, found), Ok(None)),
            Ok(Triggered::After(after)) => (item, Ok(Some(after))),
            Err(error) => (item, Err(error.to_string())),
        }
    });
    let mut pass = Pass { observed: Vec::new(), errors: Vec::new(), after: None };
    let mut passes = stream::iter(passes).buffered(AT_ONCE);
    while let Some((item, outcome)) = passes.next().await {
        pass.observed.push(item);
        match outcome {
            Ok(after) => pass.after = pass.after.max(after),
            Err(error) => pass.errors.push(error),
        }
    }
    pass
}

enum Triggered {
    Finished { found: bool },
    After(std::time::Duration),
}

async fn trigger(
    context: &Context,
    rebalancer: &WorkloadRebalancer,
    workload: &WorkloadReference,
) -> Result<Triggered> {
    let scope = if workload.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced };
    let key = ObjectKey::namespaced(workload.namespace.as_str(), names::binding_name(&workload.kind, &workload.name));
    let resource = Binding::api_resource(scope);
    // From the server: a binding that is missing is not tried again.
    let live = certain(&context.client, &resource, &key).await?;
    let Some(object) = live else { return Ok(Triggered::Finished { found: false }) };
    let binding = Binding::decode(&object)?;
    let now = context.now();
    let metadata = &rebalancer.metadata;
    let request =
        Request { created: metadata.creation_timestamp.unwrap_or(now), is_later: metadata.generation > 1, now };
    let at = match rebalance::trigger(request, &binding.spec, &binding.status) {
        Trigger::At(at) => at,
        Trigger::Unneeded => return Ok(Triggered::Finished { found: true }),
        Trigger::After(after) => return Ok(Triggered::After(after)),
    };
    let metadata = json!({"uid": object.uid(), "resourceVersion": object.resource_version()});
    let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"rescheduleTriggeredAt": at}}));
    match context.client.patch(&resource, &key, &patch, &PatchOptions::default()).await {
        Ok(_) => Ok(Triggered::Finished { found: true }),
        Err(error) if error.is_not_found() => Ok(Triggered::Finished { found: false }),
        Err(error) => Err(error).during(|| format!("triggering {} {key}", resource.kind)),
    }
}

/// Writes the results; returns the rebalancer with them, `None` if it was deleted.
async fn write_status(
    context: &Context,
    object: &Arc<Object>,
    rebalancer: &WorkloadRebalancer,
    observed: Vec<ObservedWorkload>,
) -> Result<Option<Arc<Object>>> {
    let Some(status) = rebalance::status(rebalancer, observed, context.now()) else {
        return Ok(Some(Arc::clone(object)));
    };
    let (resource, key) = (WorkloadRebalancer::api_resource(), object.key());
    let metadata = json!({"uid": object.uid(), "resourceVersion": object.resource_version()});
    let status = json!({"finishTime": status.finish_time, "observedGeneration": status.observed_generation,
        "observedWorkloads": status.observed_workloads});
    let patch = Patch::Merge(json!({"metadata": metadata, "status": status}));
    match context.client.patch(&resource, &key, &patch, &PatchOptions::status()).await {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error).during(|| format!("writing the status of {} {key}", resource.kind)),
    }
}

/// Deletes a rebalancer that finished long enough ago, in the very state that was read.
async fn expire(context: &Context, object: &Object) -> Result<Next> {
    let rebalancer = decoded(object.key(), WorkloadRebalancer::from_object(object))?;
    let moment = context.world.moment();
    match rebalance::expiry(&rebalancer, &|at| moment.since(at)) {
        Expiry::Never => return Ok(Next::Done),
        Expiry::After(left) => return Ok(Next::After(left)),
        Expiry::Now => {}
    }
    let (resource, key) = (WorkloadRebalancer::api_resource(), object.key());
    let options = DeleteOptions::background().only_version(object.uid(), object.resource_version());
    match context.client.delete(&resource, &key, &options).await {
        Err(error) if error.is_not_found() => Ok(Next::Done),
        other => other.map(|()| Next::Done).during(|| format!("deleting {} {key}, which has expired", resource.kind)),
    }
}
