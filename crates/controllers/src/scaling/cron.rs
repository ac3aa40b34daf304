//! CronFederatedHPA: runs due rules, and records their histories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, ObjectKey};
use autoscaling::cron::rules::{self, Applied, Due, Jobs, Run};
use client::{Patch, PatchOptions};
use controller_runtime::{EventRecorder, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::{
    CronFederatedHPA, CronFederatedHPAStatus, CrossVersionObjectReference, FederatedHPA,
};
use parking_lot::Mutex;
use serde_json::json;

use super::metrics::OfCron;
use super::target::Target;
use crate::error::{During, Result, decoded};
use crate::{Context, metrics};

/// The name of the controller, and the source of its events.
const NAME: &str = "cronfederatedhpa-controller";
const WORKERS: usize = 16;
/// Attempts of a run whose target changes meanwhile.
const ATTEMPTS: usize = 5;
/// A timer runs by the machine's monotonic clock, schedules by its wall clock: they are compared at least this often.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

struct Controller {
    context: Context,
    objects: Mutex<BTreeMap<ObjectKey, State>>,
    recorder: EventRecorder,
    metrics: OfCron,
}

/// The state of one object.
#[derive(Clone, Default)]
struct State {
    uid: String,
    jobs: Jobs,
    /// Runs that the status does not have yet.
    runs: Vec<Run>,
    /// The status as it was written: a cache may lag behind it.
    status: Option<CronFederatedHPAStatus>,
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&CronFederatedHPA::api_resource());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        if event.changes_generation() {
            keys.add(event.object().key());
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let controller = Arc::new(Controller {
        objects: Mutex::default(),
        recorder: context.recorder.for_component(NAME),
        metrics: OfCron::new(&context.metrics.registry),
        context: context.clone(),
    });
    let stop = context.stop.clone();
    run_workers(NAME, queue, WORKERS, stop, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Next> {
        let started = self.context.world.now();
        let result = self.pass(key).await;
        let took = self.context.world.now().duration_since(started).unsigned_abs();
        self.metrics.process.took(&[metrics::result(&result)], took);
        result
    }

    async fn pass(&self, key: &ObjectKey) -> Result<Next> {
        let cached = self.context.control.informer(&CronFederatedHPA::api_resource()).cache().get(key);
        let Some(object) = cached.filter(|it| !it.is_deleting()) else {
            self.objects.lock().remove(key);
            return Ok(Next::Done);
        };
        let hpa = decoded(key, CronFederatedHPA::from_object(&object))?;
        let mut state = self.state(key, object.uid());
        let local = jiff::tz::TimeZone::UTC;
        let turn = state.jobs.turn(&hpa.spec, self.context.world.now(), &local);
        for (rule, error) in &turn.failed {
            self.recorder.warning(&*object, "StartRuleFailed", format!("Fail to start cron job({rule}): {error}"));
        }
        for due in &turn.due {
            let run = self.run_rule(&object, &hpa, due).await;
            state.runs.push(run);
        }
        // A status that cannot be written now is written with the next pass.
        self.objects.lock().insert(key.clone(), state.clone());
        let old = state.status.as_ref().unwrap_or(&hpa.status);
        let status = rules::status(&hpa.spec, old, &state.jobs, &state.runs);
        self.write_status(&object, old, &status).await?;
        if let Some(state) = self.objects.lock().get_mut(key) {
            state.runs.clear();
            state.status = Some(status);
        }
        Ok(self.next(&state.jobs))
    }

    fn state(&self, key: &ObjectKey, uid: &str) -> State {
        let known = self.objects.lock().get(key).filter(|state| state.uid == uid).cloned();
        known.unwrap_or_else(|| State { uid: uid.to_owned(), ..State::default() })
    }

    fn next(&self, jobs: &Jobs) -> Next {
        let Some(next) = jobs.next() else { return Next::Done };
        let left = next.duration_since(self.context.world.now());
        Next::After(Duration::try_from(left).unwrap_or_default().min(LONGEST_WAIT))
    }

    async fn run_rule(&self, object: &Object, hpa: &CronFederatedHPA, due: &Due) -> Run {
        let started = self.context.world.now();
        let target = &hpa.spec.scale_target_ref;
        let result = match rules::applied(target, &due.rule) {
            Ok(applied) => {
                let written = self.apply(&hpa.metadata.namespace, target, applied).await;
                written.map(|()| applied).map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        let executed = self.context.world.now();
        self.metrics.rule.took(&[metrics::result(&result)], executed.duration_since(started).unsigned_abs());
        if let Err(error) = &result {
            self.recorder.warning(object, "ScaleFailed", format!("rule {}: {error}", due.rule.name));
        }
        Run { rule: due.rule.name.clone(), scheduled: due.at, executed, result }
    }

    /// Sets the numbers of a rule, again if the target changes meanwhile.
    async fn apply(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
        applied: Applied,
    ) -> std::result::Result<(), String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let written = match applied {
                Applied::Replicas(replicas) => self.scale(namespace, target, replicas).await?,
                Applied::Bounds { min, max } => self.bound(namespace, target, (min, max)).await?,
            };
            match written {
                Ok(()) => return Ok(()),
                Err(error) if error.is_conflict() => last = error.to_string(),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(last)
    }

    async fn scale(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
        replicas: i32,
    ) -> std::result::Result<client::Result<()>, String> {
        let target = Target::read(&self.context, target, namespace).await?;
        if target.replicas() == replicas {
            return Ok(Ok(()));
        }
        Ok(target.write(&self.context, replicas).await)
    }

    async fn bound(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
        bounds: (Option<i32>, Option<i32>),
    ) -> std::result::Result<client::Result<()>, String> {
        let (resource, key) = (FederatedHPA::api_resource(), ObjectKey::namespaced(namespace, target.name.as_str()));
        let object = self.context.client.get(&resource, &key).await.map_err(|error| error.to_string())?;
        let hpa = FederatedHPA::from_object(&object)
            .map_err(|error| format!("FederatedHPA {key} cannot be read: {error}"))?;
        let Some(mut patch) = rules::bounds_patch(hpa.spec.min_replicas, hpa.spec.max_replicas, bounds)? else {
            return Ok(Ok(()));
        };
        patch["metadata"] = json!({"uid": object.uid(), "resourceVersion": object.resource_version()});
        let written = self.context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await;
        Ok(written.map(|_| ()))
    }

    async fn write_status(
        &self,
        object: &Object,
        old: &CronFederatedHPAStatus,
        new: &CronFederatedHPAStatus,
    ) -> Result<()> {
        if old == new {
            return Ok(());
        }
        let (resource, key) = (CronFederatedHPA::api_resource(), object.key());
        let patch =
            json!({"metadata": {"uid": object.uid()}, "status": {"executionHistories": new.execution_histories}});
        match self.context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::status()).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.recorder.warning(object, "UpdateStatusFailed", error.to_string());
                Err(error).during(|| format!("writing the status of CronFederatedHPA {key}"))
            }
        }
    }
}
