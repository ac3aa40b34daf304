//! Counts the usage by the bindings of a namespace (gate FederatedQuotaEnforcement).
//!
//! Our API server updates `status.overallUsed` with every write of a binding, so that this count only confirms it. A
//! webhook of another API server charges growth before it is stored: there this controller releases the shares that
//! bindings freed, and the charges of failed writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::Time;
use apimachinery::{Object, ObjectKey};
use client::ListOptions;
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use jiff::Timestamp;
use karmada_api::ApiType;
use karmada_api::admission::quota_usage::{self, Amounts};
use karmada_api::constants::events;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use karmada_api::scope::{Binding, Scope};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::status::known_status;
use super::{WORKERS, informer, write_status};
use crate::Context;
use crate::absence::certain;
use crate::error::{During, Error, Result, decoded};

const COMPONENT: &str = "federated-resource-quota-enforcement-controller";

/// A charge may be for a binding that is about to be stored: Kubernetes gives a webhook 30 s at most, and the API
/// server stores the binding right after its webhooks have answered. Usage is not lowered until this time after a
/// charge.
const IN_FLIGHT: Duration = Duration::from_secs(30);

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.quota_enforcement {
        return;
    }
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let quotas = informer(&context);
    let keys = queue.clone();
    quotas.subscribe(move |event| {
        if event.changes_generation() && !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().key());
        }
    });
    if !context.settings.quotas_are_joint {
        let (keys, known, settling) = (queue.clone(), quotas.clone(), context.clone());
        context.bindings(Scope::Namespaced).subscribe(move |event| {
            let of_namespace = known.cache().list(event.object().namespace());
            if !of_namespace.is_empty() && frees(event) {
                of_namespace.iter().for_each(|quota| keys.add_after(quota.key(), settling.settle()));
            }
        });
    }
    if !context.synced().await || !quotas.synced().await {
        return;
    }
    let (stop, ahead) = (context.stop.clone(), Arc::new(Ahead::default()));
    run_workers(COMPONENT, queue, WORKERS, stop, move |key| {
        let (context, ahead) = (context.clone(), ahead.clone());
        async move { reconcile(&context, &ahead, &key).await }
    })
    .await;
}

/// Whether a binding uses less of a resource than before.
fn frees(event: &Event) -> bool {
    let usage = |object: &Object| {
        let outline = quota_usage::outline(object).ok();
        outline.map(|it| quota_usage::total([&it])).unwrap_or_default()
    };
    match event {
        Event::Added { .. } => false,
        Event::Deleted(_) => true,
        Event::Updated { old, new } if old.generation() == new.generation() => false,
        Event::Updated { old, new } => {
            let now = usage(new);
            usage(old).iter().any(|(name, amount)| now.get(name).is_none_or(|now| now < amount))
        }
    }
}

/// Charges that are stamped with a time of the future, because the clock of the API server is ahead, and when this
/// process first observed each. Otherwise usage could not be lowered until the clock here is there.
#[derive(Default)]
struct Ahead(Mutex<HashMap<ObjectKey, (Time, Instant)>>);

impl Ahead {
    /// How long a charge may still be in flight.
    fn in_flight(&self, key: &ObjectKey, charged: Option<Time>, now: Timestamp) -> Option<Duration> {
        let mut seen = self.0.lock();
        let since = charged.map(|at| Duration::try_from(now.duration_since(at.timestamp())));
        let (Some(charged), Some(Err(_))) = (charged, &since) else {
            seen.remove(key);
            return IN_FLIGHT.checked_sub(since?.ok()?);
        };
        let first = seen.entry(key.clone()).or_insert_with(|| (charged, Instant::now()));
        if first.0 != charged {
            *first = (charged, Instant::now());
        }
        IN_FLIGHT.checked_sub(first.1.elapsed())
    }
}

async fn reconcile(context: &Context, ahead: &Ahead, key: &ObjectKey) -> Result<Next> {
    let resource = FederatedResourceQuota::api_resource();
    // The quota is read first, then the bindings: later changes of bindings through our API server change the quota's
    // version too, and the write then fails.
    let live = certain(&context.client, &resource, key).await?;
    let Some(object) = live.filter(|it| !it.is_deleting()) else {
        ahead.0.lock().remove(key);
        return Ok(Next::Done);
    };
    let quota = decoded(key, object.to_value())?;
    let total = count(context, key).await?;
    let in_flight = ahead.in_flight(key, quota_usage::charged_at(&quota), context.world.now());
    let may_lower = in_flight.is_none_or(|left| left.is_zero());
    let used = quota_usage::recounted(&quota, &total, may_lower);
    let status = json!({"overall": quota["spec"]["overall"], "overallUsed": used});
    let known = Value::Object(known_status(&object, &["overall", "overallUsed"])?);
    let recorder = context.recorder.for_component(COMPONENT);
    let is_new = !quota_usage::is_counted_fully(&quota);
    match write_status(context, &object, &known, &status, Some(object.resource_version())).await {
        Ok(true) => {
            let message = format!("Collect status of FederatedResourceQuota({key}) succeed.");
            recorder.normal(&*object, events::COLLECT_OVERALL_STATUS_SUCCEED, message);
        }
        Ok(false) => {}
        // Another pass counts for the newer version.
        Err(error) if error.is_conflict() => return Err(error),
        Err(error) => {
            recorder.warning(&*object, events::COLLECT_OVERALL_STATUS_FAILED, error.to_string());
            return Err(error);
        }
    }
    let period = context.settings.quota_sync_period;
    let is_lower_now = !may_lower && quota_usage::recounted(&quota, &total, true) != used;
    Ok(Next::After(match in_flight {
        Some(left) if is_lower_now => left,
        // A binding that was admitted before the quota existed may be stored after the count.
        _ if is_new => period.min(IN_FLIGHT),
        _ => period,
    }))
}

/// The usage of all bindings of a namespace, as the server has them.
async fn count(context: &Context, key: &ObjectKey) -> Result<Amounts> {
    let bindings = Binding::api_resource(Scope::Namespaced);
    let list = context.client.list(&bindings, key.namespace(), &ListOptions::default()).await;
    let list = list.during(|| format!("counting the usage of FederatedResourceQuota {key}"))?;
    let outline = |binding: &Arc<Object>| {
        let what = || format!("{} {}, which FederatedResourceQuota {key} counts,", bindings.kind, binding.key());
        quota_usage::outline(binding).map_err(|source| Error::Decode { what: what(), source })
    };
    let outlines = list.items.iter().map(outline).collect::<Result<Vec<_>>>()?;
    Ok(quota_usage::total(&outlines))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server that stamps a charge may be on another machine.
    #[tokio::test(start_paused = true)]
    async fn a_charge_of_a_clock_that_is_ahead_is_in_flight_as_long_as_any_other() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (now, ahead, key) = (time("2026-11-21T00:00:00Z"), Ahead::default(), ObjectKey::namespaced("demo", "q"));
        let left = |charged: &str| ahead.in_flight(&key, Some(Time::new(time(charged))), now).unwrap_or_default();
        let seconds = Duration::from_secs;
        assert_eq!(left("2026-11-20T23:59:50Z"), seconds(20));
        assert_eq!(left("2026-11-23T00:00:00Z"), seconds(30));
        tokio::time::advance(seconds(20)).await;
        assert_eq!(left("2026-11-23T00:00:00Z"), seconds(10));
        tokio::time::advance(seconds(11)).await;
        assert_eq!(left("2026-11-23T00:00:00Z"), seconds(0));
        assert_eq!(left("2026-11-23T00:00:31Z"), seconds(30), "another charge");
        assert_eq!(ahead.in_flight(&key, None, now), None);
        assert_eq!(ahead.0.lock().len(), 0);
    }
}
