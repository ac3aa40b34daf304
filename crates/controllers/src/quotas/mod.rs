//! FederatedResourceQuotas: their parts in single clusters, the reports of those clusters, and the usage of bindings.

mod enforcement;
mod status;
mod sync;

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::Informer;
use karmada_api::ApiType;
use karmada_api::constants::labels;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use serde_json::{Value, json};

use crate::Context;
use crate::error::{During, Result};

pub(crate) use enforcement::run as run_enforcement;
pub(crate) use status::run as run_status;
pub(crate) use sync::run as run_sync;

/// Concurrent passes of each of these controllers. Few quotas change at a time, and most passes write nothing.
const WORKERS: usize = 4;

fn informer(context: &Context) -> Informer {
    context.control.informer(&FederatedResourceQuota::api_resource())
}

/// The quota that a Work belongs to.
fn quota_of(work: &Object) -> Option<ObjectKey> {
    let (namespace, name) = (work.label(labels::QUOTA_NAMESPACE)?, work.label(labels::QUOTA_NAME)?);
    Some(ObjectKey::namespaced(namespace, name))
}

/// The Works of a quota, as the cache has them.
fn works_of(context: &Context, key: &ObjectKey) -> Vec<Arc<Object>> {
    let mut works = context.works.cache().by_index(labels::QUOTA_NAME, key.name());
    works.retain(|work| quota_of(work).as_ref() == Some(key));
    works
}

/// Writes a part of the status of a quota; whether that changed anything. With a version, only to that version.
async fn write_status(
    context: &Context,
    quota: &Object,
    old: &Value,
    new: &Value,
    version: Option<&str>,
) -> Result<bool> {
    let Some(change) = apimachinery::merge_patch::diff(old, new) else { return Ok(false) };
    let mut metadata = json!({"uid": quota.uid()});
    if let Some(version) = version {
        metadata["resourceVersion"] = version.into();
    }
    let key = quota.key();
    let patch = Patch::Merge(json!({"metadata": metadata, "status": change}));
    match context.client.patch(&FederatedResourceQuota::api_resource(), &key, &patch, &PatchOptions::status()).await {
        Err(error) if error.is_not_found() => Ok(false),
        other => other.map(|_| true).during(|| format!("writing the status of FederatedResourceQuota {key}")),
    }
}
