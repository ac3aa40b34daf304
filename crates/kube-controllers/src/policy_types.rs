//! Checks the expressions of ValidatingAdmissionPolicies against the schemas of the kinds that their rules name, and
//! reports type errors in `status.typeChecking`. A policy is checked when it changes, and when a
//! CustomResourceDefinition of a named group changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::{GroupVersion, GroupVersionKind, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use kubernetes_api::type_checking::{self, Document, Types};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result, decoded};
use crate::resources::{ADMISSION_POLICIES, DEFINITIONS};
use crate::running::Starting;

const NAME: &str = "validatingadmissionpolicy-status-controller";
/// Upstream's field manager.
const MANAGER: &str = "validatingadmissionpolicy-status";

pub(crate) async fn run(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<Box<str>>> = Arc::new(WorkQueue::new());
    let policies = context.informers.informer(&ADMISSION_POLICIES);
    let definitions = context.informers.informer(&DEFINITIONS);
    let keys = queue.clone();
    policies.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().name().into());
        }
    });
    if !(policies.synced().await && definitions.synced().await) {
        return;
    }
    let (keys, known) = (queue.clone(), policies.clone());
    definitions.subscribe(move |event| {
        // A definition's name is `plural.group`. Definitions and policies are few.
        let Some((_, group)) = event.object().name().split_once('.') else { return };
        for policy in known.cache().list(None) {
            if policy.to_value().is_ok_and(|tree| names_group(&tree, group)) {
                keys.add(policy.name().into());
            }
        }
    });
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers(NAME, queue, workers, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &ObjectKey::cluster(&*name)).await }
    })
    .await;
}

/// Whether a policy's rules or its parameters are of a group.
fn names_group(policy: &Value, group: &str) -> bool {
    type_checking::resources(policy).iter().flatten().any(|it| it.group == group)
        || type_checking::param_kind(policy).is_some_and(|it| it.group == group)
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let policies = context.informers.informer(&ADMISSION_POLICIES);
    let Some(object) = policies.cache().get(key).filter(|policy| !policy.is_deleting()) else { return Ok(Next::Done) };
    let policy = decoded(&object, object.to_value())?;
    let types = types(context, &policy).await?;
    let status = json!({"observedGeneration": policy["metadata"]["generation"],
        "typeChecking": type_checking::check(&policy, &types)});
    let is_current = |field: &str| policy["status"][field] == status[field];
    if is_current("observedGeneration") && is_current("typeChecking") {
        return Ok(Next::Done);
    }
    let value = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": key.name(), "uid": object.uid()}, "status": status});
    let patch = Patch::Apply { manager: MANAGER.into(), force: true, value };
    let options = PatchOptions { subresource: Some("status"), ..PatchOptions::default() };
    match context.client.patch(&ADMISSION_POLICIES, key, &patch, &options).await {
        // Deleted, and possibly recreated, in the meantime.
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

/// The kinds that a policy names, with their schemas.
async fn types(context: &Context, policy: &Value) -> Result<Types> {
    let rules = type_checking::resources(policy);
    let params = type_checking::param_kind(policy);
    let mut discovery = context.mapper.known();
    if rules.iter().flatten().any(|resource| discovery.by_resource(resource).is_none()) {
        // The definition of the resource may have just been created.
        discovery = context.mapper.refresh().await?;
    }
    let kinds = type_checking::kinds(&rules, |resource| {
        let found = &discovery.by_resource(resource)?.resource;
        Some(GroupVersionKind::new(found.group.clone(), found.version.clone(), found.kind.clone()))
    });
    let group_versions: BTreeSet<GroupVersion> =
        kinds.iter().chain(&params).map(GroupVersionKind::group_version).collect();
    let mut read = Vec::new();
    for version in group_versions {
        if let Some(document) = document(context, &version).await? {
            read.push((version, document));
        }
    }
    let documents: BTreeMap<GroupVersion, Document> =
        read.into_iter().map(|(version, document)| (version, Document::new(document))).collect();
    let shape = |kind: &GroupVersionKind| documents.get(&kind.group_version())?.shape(kind);
    let objects = kinds.iter().filter_map(|kind| Some((kind.clone(), shape(kind)?))).collect();
    Ok(Types { objects, params: params.as_ref().and_then(shape) })
}

/// The OpenAPI document of a group version; `None` if the server has none.
async fn document(context: &Context, version: &GroupVersion) -> Result<Option<Value>> {
    let path = match version.group.as_str() {
        "" => format!("/openapi/v3/api/{}", version.version),
        group => format!("/openapi/v3/apis/{group}/{}", version.version),
    };
    match context.client.document(&path, "application/json").await {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes);
            Ok(Some(read.map_err(|source| Error::Decode { object: path, source })?))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
