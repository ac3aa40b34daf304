//! Deletes finished Jobs `spec.ttlSecondsAfterFinished` after their end.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::{Condition, Time, null_as_default};
use apimachinery::{Object, ObjectKey};
use client::DeleteOptions;
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use jiff::SignedDuration;
use serde::Deserialize;
use world::Moment;

use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::JOBS;
use crate::running::Starting;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Job {
    #[serde(deserialize_with = "null_as_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    ttl_seconds_after_finished: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<Condition>,
}

impl Job {
    /// When it ended, and how long it lives after that; `None` while it runs, and without a TTL.
    fn expiry(&self) -> Option<(Time, SignedDuration)> {
        let ttl = SignedDuration::from_secs(self.spec.ttl_seconds_after_finished?.into());
        let is_end = |condition: &&Condition| {
            matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
        };
        let end = self.status.conditions.iter().find(is_end)?.last_transition_time?;
        Some((end, ttl))
    }

    /// How long it still lives; `None` if it does not expire.
    fn left(&self, moment: &Moment) -> Option<Duration> {
        let (end, ttl) = self.expiry()?;
        Some(Duration::try_from(ttl.saturating_sub(moment.since(end.timestamp()))).unwrap_or_default())
    }
}

fn job(object: &Object) -> Option<Job> {
    object.decode::<Job>().ok().filter(|_| !object.is_deleting())
}

pub(crate) async fn run(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let jobs = context.informers.informer(&JOBS);
    let keys = queue.clone();
    jobs.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) && job(event.object()).is_some_and(|job| job.expiry().is_some()) {
            keys.add(event.object().key());
        }
    });
    if !jobs.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers("ttl-after-finished-controller", queue, workers, stop, move |key| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let Some(cached) = context.informers.informer(&JOBS).cache().get(key) else { return Ok(Next::Done) };
    let moment = context.informers.world().moment();
    if let Some(left) = job(&cached).and_then(|job| job.left(&moment)).filter(|left| !left.is_zero()) {
        return Ok(Next::After(left));
    }
    // Its TTL may have been increased.
    let Some(live) = context.client.get_opt(&JOBS, key).await? else { return Ok(Next::Done) };
    let job: Job = decoded(&live, live.decode())?;
    let Some(left) = job.left(&moment).filter(|_| !live.is_deleting() && live.uid() == cached.uid()) else {
        return Ok(Next::Done);
    };
    if !left.is_zero() {
        return Ok(Next::After(left));
    }
    let options = DeleteOptions { propagation_policy: Some("Foreground"), ..DeleteOptions::default() };
    match context.client.delete(&JOBS, key, &options.only_uid(live.uid())).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_finished_jobs_with_a_time_to_live_expire() {
        let check = |ttl: Value, type_: &str, status: &str, expected: Option<&str>| {
            let job = json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [
                {"type": type_, "status": status, "lastTransitionTime": "2026-11-21T00:00:00Z"}]}});
            let job: Job = serde_json::from_value(job).expect("a Job");
            assert_eq!(
                job.expiry().map(|(end, ttl)| format!("{end} {}", ttl.as_secs())).as_deref(),
                expected,
                "{ttl} {type_} {status}"
            );
        };
        check(json!(90), "Complete", "True", Some("2026-11-21T00:00:00Z 90"));
        check(json!(0), "Failed", "True", Some("2026-11-21T00:00:00Z 0"));
        check(json!(90), "Complete", "False", None);
        check(json!(90), "Suspended", "True", None);
        check(Value::Null, "Complete", "True", None);
    }
}
