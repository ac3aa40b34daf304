//! The descheduler: at intervals it requests unschedulable replicas from the estimators and removes them from the
//! result. `scheduling::descheduling` decides which; the scheduler places them again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apimachinery::Object;
use client::Client;
use controller_runtime::metrics::Steps;
use controller_runtime::{EventRecorder, Failures, Informer, InformerSet};
use estimator::wire::ObjectReference;
use estimator::{Answer, Estimators, Query, Target};
use futures::future::BoxFuture;
use karmada_api::constants::events;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use metrics::Registry;
use scheduling::descheduling::{self, Moved};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::shared::involved;

const COMPONENT: &str = "karmada-descheduler";

#[derive(Clone, Debug)]
pub struct DeschedulerOptions {
    pub interval: Duration,
    /// Pods that no node took for this long are moved.
    pub threshold: Duration,
    /// Replicas that may move in one interval, over all bindings: a lost zone must not empty a fleet at once.
    pub budget: i64,
    /// The registry of the descheduler's metrics.
    pub metrics: Registry,
}

impl Default for DeschedulerOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(120),
            threshold: Duration::from_secs(300),
            budget: 1000,
            metrics: Registry::default(),
        }
    }
}

/// Runs until `stop`, the first time at once.
pub fn deschedule<'a>(
    informers: &'a InformerSet,
    client: &'a Client,
    world: World,
    estimators: Estimators,
    options: DeschedulerOptions,
    stop: CancellationToken,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let bindings = informers.informer(&Binding::api_resource(Scope::Namespaced));
        let recorder = EventRecorder::start(client.clone(), world, COMPONENT, stop.clone());
        let failures = Failures::lasting(Duration::ZERO);
        if !bindings.synced().await {
            return;
        }
        let mut ticks = tokio::time::interval(options.interval.max(Duration::from_secs(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The bindings of a round are its queue.
        let waiting: Arc<AtomicUsize> = Arc::default();
        let depth = Arc::downgrade(&waiting);
        let steps = Steps::new(&options.metrics, "descheduler", move || Some(depth.upgrade()?.load(Ordering::Relaxed)));
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let (began, mut left) = (Instant::now(), options.budget);
            let round: Vec<(Arc<Object>, Binding)> = concerned(&bindings);
            waiting.store(round.len(), Ordering::Relaxed);
            round.iter().for_each(|_| steps.added());
            for (object, binding) in round {
                waiting.fetch_sub(1, Ordering::Relaxed);
                let _turn = Turn(&steps, steps.begin(began.elapsed()));
                if left <= 0 {
                    continue;
                }
                let Some(moved) = plan(&binding, &estimators, &options, left).await else { continue };
                let written = write(client, &binding, &moved).await;
                let total: i64 = moved.taken.iter().map(|(_, count)| count).sum();
                left -= if written.is_ok() { total } else { 0 };
                log(&failures, &binding, &moved, &written);
                for involved in involved(&object, &binding) {
                    match &written {
                        Ok(()) => {
                            recorder.normal(involved, events::DESCHEDULE_BINDING_SUCCEED, descheduling::event(&moved));
                        }
                        Err(error) => recorder.warning(involved, events::DESCHEDULE_BINDING_FAILED, error.to_string()),
                    }
                }
            }
        }
    })
}

/// Each eviction, and a write that fails once.
fn log(failures: &Failures<BindingKey>, binding: &Binding, moved: &Moved, written: &Result<(), client::Error>) {
    let key = binding.key();
    match written {
        Ok(()) => {
            failures.forget(&key);
            for (cluster, replicas) in &moved.taken {
                let reason = "pods that no node takes";
                tracing::info!(binding = %key, cluster, replicas, reason, "Descheduled replicas; they are scheduled again");
            }
        }
        // Another client changed the binding; the next round reads it again.
        Err(error) if error.is_conflict() || error.is_not_found() => {}
        Err(error) => {
            let err = error.to_string();
            if failures.failed(&key, &err) {
                tracing::warn!(binding = %key, err, "Replicas cannot be descheduled; the next round tries again");
            }
        }
    }
}

/// Ends a step of the queue when it is dropped.
struct Turn<'a>(&'a Steps, u64);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// The bindings that may have replicas to take back.
fn concerned(bindings: &Informer) -> Vec<(Arc<Object>, Binding)> {
    let decoded = bindings.cache().list(None).into_iter().filter_map(|object| {
        let binding = Binding::decode(&object).ok()?;
        Some((object, binding))
    });
    let may = |binding: &Binding| descheduling::is_eligible(binding) && descheduling::is_settled(binding);
    decoded.filter(|(_, binding)| may(binding)).collect()
}

/// The replicas to take back, according to the estimators.
async fn plan(binding: &Binding, estimators: &Estimators, options: &DeschedulerOptions, budget: i64) -> Option<Moved> {
    let resource = &binding.spec.resource;
    let about = |cluster| Target::from(cluster).about(&resource.kind, &resource.namespace, &resource.name);
    let targets: Vec<Target> = descheduling::with_unready_replicas(binding).into_iter().map(about).collect();
    if targets.is_empty() {
        return None;
    }
    let resource = ObjectReference {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
    };
    let query = Query::Unschedulable { resource, threshold: options.threshold };
    let answers: BTreeMap<String, Answer> = estimators.query(targets, &query).await;
    let known = |cluster: &str| match answers.get(cluster) {
        Some(Answer::Known(count)) => Some(*count),
        Some(Answer::Unknown(why)) => {
            tracing::debug!(cluster, reason = why, "Number of unschedulable pods is unknown");
            None
        }
        None => None,
    };
    descheduling::plan(binding, known, budget)
}

/// With the version that was read as precondition: a result that changed meanwhile is kept.
async fn write(client: &Client, binding: &Binding, moved: &Moved) -> Result<(), client::Error> {
    let patch = json!({
        "metadata": {"resourceVersion": binding.metadata.resource_version, "uid": binding.metadata.uid},
        "spec": {"clusters": moved.clusters},
    });
    let (resource, key) = (Binding::api_resource(binding.scope), binding.key());
    let options = client::PatchOptions::default();
    client.patch(&resource, &key, &client::Patch::Merge(patch), &options).await.map(|_: Arc<apimachinery::Object>| ())
}
