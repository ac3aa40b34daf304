//! The reports of the clusters of a quota, in its status. While the quota is not enforced, the sum of their usage is
//! its usage.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::constants::events;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use karmada_api::work::v1alpha1::Work;
use propagation::quotas;
use serde_json::{Map, Value, json};

use super::{WORKERS, informer, quota_of, works_of, write_status};
use crate::Context;
use crate::error::{Error, Result, decode, decoded};

const COMPONENT: &str = "federated-resource-quota-status-controller";

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    context.works.cache().add_label_index(karmada_api::constants::labels::QUOTA_NAME);
    let quotas = informer(&context);
    let keys = queue.clone();
    quotas.subscribe(move |event| {
        if event.changes_generation() && !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().key());
        }
    });
    let (keys, settling) = (queue.clone(), context.clone());
    context.works.subscribe(move |event| {
        let Some(key) = quota_of(event.object()) else { return };
        match event {
            Event::Updated { old, new } if old.member("status") == new.member("status") => {}
            _ => keys.add_after(key, settling.settle()),
        }
    });
    if !context.synced().await || !quotas.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers(COMPONENT, queue, WORKERS, stop, move |key| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let cached = informer(context).cache().get(key);
    let Some(object) = cached.filter(|it| !it.is_deleting()) else { return Ok(Next::Done) };
    let quota = decode::<FederatedResourceQuota>(&object)?;
    let works = works_of(context, key);
    let works = works.iter().map(|work| decoded(work.key(), Work::from_object(work))).collect::<Result<Vec<_>>>()?;
    let recorder = context.recorder.for_component(COMPONENT);
    let reports = quotas::aggregated(&works).map_err(|error| {
        recorder.warning(&*object, events::AGGREGATE_STATUS_FAILED, error.to_string());
        Error::Wait(error.to_string())
    })?;
    let mut status = Map::new();
    if !context.settings.gates.quota_enforcement {
        status.insert("overall".into(), json!(quota.spec.overall));
        status.insert("overallUsed".into(), json!(quotas::used_in_clusters(&quota, &reports)));
    }
    if !reports.is_empty() {
        status.insert("aggregatedStatus".into(), json!(reports));
    }
    let known = known_status(&object, &["aggregatedStatus", "overall", "overallUsed"])?;
    let known = match context.settings.gates.quota_enforcement {
        // The other fields belong to the count of bindings.
        true => known.into_iter().filter(|(name, _)| name == "aggregatedStatus").collect(),
        false => known,
    };
    match write_status(context, &object, &Value::Object(known), &Value::Object(status), None).await {
        Ok(true) => {
            let message = format!("Collect status of FederatedResourceQuota({key}) succeed.");
            recorder.normal(&*object, events::AGGREGATE_STATUS_SUCCEED, message);
        }
        Ok(false) => {}
        Err(error) => {
            recorder.warning(&*object, events::AGGREGATE_STATUS_FAILED, error.to_string());
            return Err(error);
        }
    }
    Ok(Next::Done)
}

/// These fields of a stored status, as they are spelled there.
pub(super) fn known_status(quota: &Object, fields: &[&str]) -> Result<Map<String, Value>> {
    let status = quota.member("status").map(|status| serde_json::from_slice::<Map<String, Value>>(&status));
    let status = decoded(quota.key(), status.transpose())?.unwrap_or_default();
    Ok(status.into_iter().filter(|(name, _)| fields.contains(&name.as_str())).collect())
}
