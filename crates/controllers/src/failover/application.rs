//! Moves workloads that stay unhealthy in a cluster, as `failover.application` of their policy requires.
//!
//! The time since when a copy is unhealthy is kept in memory: a restart restarts the toleration.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::Object;
use controller_runtime::{Controller, Next, WorkQueue, run_workers};
use interpreter::Operation;
use karmada_api::constants::evictions;
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use parking_lot::Mutex;
use propagation::failover::application::{self, Options, Sightings};

use super::{follow, has, is_ready, record_failed, subjects, write};
use crate::Context;
use crate::error::Result;

const WORKERS: usize = 16;

/// By binding; only those with unhealthy copies are here.
type Seen = Arc<Mutex<BTreeMap<BindingKey, Sightings>>>;

fn moves(binding: &Object) -> bool {
    has(binding, &["failover", "application"])
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<BindingKey>> = context.queue();
    follow(&context, &queue, moves);
    if !context.synced().await {
        return;
    }
    let (stop, seen) = (context.stop.clone(), Seen::default());
    run_workers(Controller::of_bindings(evictions::BY_BINDING_FAILOVER), queue, WORKERS, stop, move |key| {
        let (context, seen) = (context.clone(), seen.clone());
        async move { reconcile(&context, &seen, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, seen: &Seen, key: &BindingKey) -> Result<Next> {
    let before = seen.lock().remove(key).unwrap_or_default();
    let cached = context.bindings(key.scope()).cache().get(key);
    let Some(object) = cached.filter(|it| !it.is_deleting()) else { return Ok(Next::Done) };
    let binding = Binding::decode(&object)?;
    let Some(behavior) = application::behavior(&binding) else { return Ok(Next::Done) };
    let template = &binding.spec.resource;
    let has_health = context
        .interpreting
        .decide(|interpreter| interpreter.enabled(&template.api_version, &template.kind, Operation::InterpretHealth));
    if !has_health.await {
        return Ok(Next::Done);
    }
    let moment = context.world.moment();
    let (now, since) = (moment.now(), |at| moment.since(at));
    let is_ready = |cluster: &str| is_ready(context, cluster);
    let decision = application::decide(&binding, behavior, &before, now, &since, &is_ready);
    if !decision.seen.is_empty() {
        seen.lock().insert(key.clone(), decision.seen.clone());
    }
    let next = decision.next.map_or(Next::Done, Next::After);
    if decision.due.is_empty() {
        return Ok(next);
    }
    let refused = |why: &dyn std::fmt::Display| {
        for cluster in &decision.due {
            let component = application::producer(binding.scope);
            record_failed(context, component, subjects(&object, &binding), cluster, why);
        }
    };
    let gates = &context.settings.gates;
    let options = Options { gracefully: gates.graceful_eviction, keeps_state: gates.stateful_failover };
    let spec = match application::evicted(&binding, behavior, &decision, now, options) {
        Ok(spec) => spec,
        Err(refusal) => {
            // A new report or another policy brings the binding back here.
            refused(&refusal);
            return Ok(next);
        }
    };
    match write(context, &binding, &spec).await {
        Ok(()) => Ok(next),
        Err(error) if error.is_not_found() => Ok(Next::Done),
        Err(error) => {
            if !error.is_conflict() {
                refused(&error);
            }
            Err(error)
        }
    }
}
