//! Certificate signing requests: approves kubelets' requests, signs approved ones, deletes settled ones.

mod approve;
mod clean;
mod policy;
mod sign;

use std::sync::Arc;

use apimachinery::meta::{Time, null_as_default};
use apimachinery::{Object, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::resources::CERTIFICATE_REQUESTS;
use crate::running::Starting;

pub(crate) use approve::run as run_approving;
pub(crate) use clean::run as run_cleaning;
pub(crate) use sign::run as run_signing;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Csr {
    metadata: Meta,
    #[serde(deserialize_with = "null_as_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    creation_timestamp: Option<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    /// PEM in base64.
    request: String,
    signer_name: String,
    expiration_seconds: Option<u32>,
    #[serde(deserialize_with = "null_as_default")]
    usages: Vec<String>,
    username: String,
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    groups: Vec<String>,
    extra: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    certificate: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<Condition>,
}

/// Unlike a usual condition, it has the time of its last update.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_update_time: Option<Time>,
    message: String,
    reason: String,
    status: String,
    #[serde(rename = "type")]
    type_: String,
}

impl Csr {
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    fn is(&self, type_: &str) -> bool {
        self.condition(type_).is_some()
    }

    fn is_issued(&self) -> bool {
        self.status.certificate.as_deref().is_some_and(|certificate| !certificate.is_empty())
    }

    /// The request in PEM.
    fn pem(&self) -> std::result::Result<String, String> {
        let bytes =
            STANDARD.decode(&self.spec.request).map_err(|error| format!("spec.request is not base64: {error}"))?;
        String::from_utf8(bytes).map_err(|_| "spec.request is not PEM".to_owned())
    }

    /// The conditions with an additional one.
    fn conditions_with(&self, type_: &str, reason: &str, message: String, now: Time) -> Vec<Condition> {
        let mut conditions = self.status.conditions.clone();
        conditions.push(Condition {
            last_transition_time: Some(now),
            last_update_time: Some(now),
            message,
            reason: reason.to_owned(),
            status: "True".to_owned(),
            type_: type_.to_owned(),
        });
        conditions
    }
}

/// Runs one of the three controllers over all requests.
async fn run_over_all<F, Fut>(context: Context, starting: Starting, name: &'static str, reconcile: F)
where
    F: Fn(Context, ObjectKey, Arc<Object>, Csr) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next>> + Send + 'static,
{
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let requests = context.informers.informer(&CERTIFICATE_REQUESTS);
    let keys = queue.clone();
    requests.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().key());
        }
    });
    if !requests.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    let reconcile = Arc::new(reconcile);
    run_workers(name, queue, workers, stop, move |key: ObjectKey| {
        let (context, reconcile) = (context.clone(), reconcile.clone());
        async move {
            let cached = context.informers.informer(&CERTIFICATE_REQUESTS).cache().get(&key);
            let Some(object) = cached.filter(|object| !object.is_deleting()) else { return Ok(Next::Done) };
            let csr: Csr = crate::error::decoded(&object, object.decode())?;
            reconcile(context, key, object, csr).await
        }
    })
    .await;
}

fn failed(key: &ObjectKey, source: pki::Error) -> Error {
    Error::Certificate { object: format!("CertificateSigningRequest {key}"), source }
}
