//! The objects that a MultiClusterService claims: the clusters, its Service, the binding of the Service, and a Work in
//! each provider, by which the process that follows the provider collects its slices.

use std::collections::BTreeSet;

use apimachinery::ObjectKey;
use apimachinery::merge_patch;
use apimachinery::meta::{Condition, OwnerReference};
use karmada_api::ApiType;
use karmada_api::Scope;
use karmada_api::constants::{annotations, conditions, finalizers, labels, reasons};
use karmada_api::identity::{BindingKey, ClusterName};
use karmada_api::names;
use karmada_api::networking::v1alpha1::{ClusterSelector, MultiClusterService};
use karmada_api::policy::v1alpha1::{ClusterAffinity, ConflictResolution, Placement};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha1::Work;
use propagation::binding::{CONTENT, content, owner, reference};
use propagation::claim;
use propagation::template::Template;
use serde_json::{Value, json};

use crate::work;

/// The exposure type that the control plane implements; other types are left to external providers.
pub const CROSS_CLUSTER: &str = "CrossCluster";
/// The message of the condition and event of success.
pub const SERVICE_APPLIED: &str = "Service is propagated to target clusters.";
/// The message of the condition and event of success.
pub const SLICES_DISPATCHED: &str = "EndpointSlice are dispatched successfully";

/// Whether the control plane implements the exposure.
pub fn is_cross_cluster(service: &MultiClusterService) -> bool {
    service.spec.types.iter().any(|it| it == CROSS_CLUSTER)
}

/// The clusters of a MultiClusterService, among those that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Clusters whose endpoints back the Service.
    pub providers: BTreeSet<String>,
    /// Clusters that reach it.
    pub consumers: BTreeSet<String>,
    /// Messages about named clusters that do not exist.
    pub missing: Vec<String>,
}

impl Range {
    /// An empty list selects all `clusters`.
    pub fn of(service: &MultiClusterService, clusters: &BTreeSet<String>) -> Self {
        let mut missing = Vec::new();
        let mut select = |selectors: &[ClusterSelector], role: &str| -> BTreeSet<String> {
            if selectors.is_empty() {
                return clusters.clone();
            }
            let named: BTreeSet<&str> = selectors.iter().map(|it| it.name.as_str()).collect();
            let (known, unknown): (Vec<&str>, Vec<&str>) = named.into_iter().partition(|name| clusters.contains(*name));
            missing.extend(unknown.into_iter().map(|name| format!("{role} cluster {name} is not found")));
            known.into_iter().map(str::to_owned).collect()
        };
        let providers = select(&service.spec.provider_clusters, "Provider");
        let consumers = select(&service.spec.consumer_clusters, "Consumer");
        Self { providers, consumers, missing }
    }

    /// The clusters that get the Service.
    pub fn union(&self) -> BTreeSet<String> {
        self.providers.union(&self.consumers).cloned().collect()
    }
}

fn permanent_id(service: &MultiClusterService) -> &str {
    service.metadata.labels.get(labels::MULTI_CLUSTER_SERVICE_ID).map_or("", String::as_str)
}

/// The labels and annotations that a claim sets.
fn marks(service: &MultiClusterService) -> [(&'static str, &'static str, String); 4] {
    let metadata = &service.metadata;
    [
        ("labels", labels::CLAIMED_BY, labels::BY_MULTI_CLUSTER_SERVICE.to_owned()),
        ("labels", labels::MULTI_CLUSTER_SERVICE_ID, permanent_id(service).to_owned()),
        ("annotations", annotations::MULTI_CLUSTER_SERVICE_NAME, metadata.name.clone()),
        ("annotations", annotations::MULTI_CLUSTER_SERVICE_NAMESPACE, metadata.namespace.clone()),
    ]
}

/// The claim on the Service as a merge patch; `None` when it is complete. Claims of policies end.
pub fn claim(service: &MultiClusterService, template: &Value) -> Option<Value> {
    let mut claimed = template.clone();
    for scope in Scope::ALL {
        claim::clean(scope).apply(&mut claimed);
    }
    for (field, key, value) in marks(service) {
        karmada_api::manifest::metadata_map(&mut claimed, field).insert(key.to_owned(), json!(value));
    }
    patch_between(template, &claimed)
}

/// The release of the Service as a merge patch; `None` if it has no trace of a claim of this MultiClusterService.
pub fn release(service: &ObjectKey, template: &Value) -> Option<Value> {
    released(service, template, labels::CLAIMED_BY)
}

/// The release of the binding as a merge patch; `None` for the binding of a policy or another MultiClusterService. It
/// stays, like one whose policy is deleted: the Service stays where it is until it is deleted or claimed again.
pub fn release_binding(service: &ObjectKey, binding: &Value) -> Option<Value> {
    released(service, binding, labels::BINDING_MANAGED_BY)
}

fn released(service: &ObjectKey, object: &Value, claimed_by: &str) -> Option<Value> {
    let text = |field: &str, key: &str| object["metadata"][field][key].as_str().unwrap_or_default();
    let is_claimed = text("labels", claimed_by) == labels::BY_MULTI_CLUSTER_SERVICE
        && text("annotations", annotations::MULTI_CLUSTER_SERVICE_NAME) == service.name()
        && Some(text("annotations", annotations::MULTI_CLUSTER_SERVICE_NAMESPACE)) == service.namespace();
    if !is_claimed {
        return None;
    }
    let mut released = object.clone();
    for (field, key, _) in marks(&MultiClusterService::default()) {
        let key = if key == labels::CLAIMED_BY { claimed_by } else { key };
        karmada_api::manifest::metadata_map(&mut released, field).remove(key);
    }
    patch_between(object, &released)
}

/// The difference of two states of an object as a merge patch, with the precondition of the version that was read.
fn patch_between(before: &Value, after: &Value) -> Option<Value> {
    let mut patch = merge_patch::diff(before, after)?;
    patch["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    patch["metadata"]["uid"] = before["metadata"]["uid"].clone();
    Some(patch)
}

/// The key of the binding of a Service.
pub fn binding_key(service: &ObjectKey) -> BindingKey {
    BindingKey::namespaced(service.namespace().unwrap_or_default(), names::binding_name("Service", service.name()))
}

/// The binding that propagates the Service to providers and consumers.
pub fn binding(service: &MultiClusterService, template: Template<'_>, range: &Range) -> Binding {
    let key = ObjectKey::namespaced(service.metadata.namespace.as_str(), service.metadata.name.as_str());
    let mut binding = Binding::named(&binding_key(&key));
    let metadata = &mut binding.metadata;
    for (field, key, value) in marks(service) {
        match field {
            "labels" if key == labels::CLAIMED_BY => {
                metadata.labels.insert(labels::BINDING_MANAGED_BY.to_owned(), value);
            }
            "labels" => drop(metadata.labels.insert(key.to_owned(), value)),
            _ => drop(metadata.annotations.insert(key.to_owned(), value)),
        }
    }
    metadata.annotations.insert(CONTENT.to_owned(), content(template));
    metadata.finalizers = vec![finalizers::BINDING.to_owned()];
    let owner = OwnerReference { controller: None, block_owner_deletion: None, ..owner(template) };
    metadata.owner_references = vec![owner];
    let spec = &mut binding.spec;
    spec.resource = reference(template);
    let affinity = ClusterAffinity { cluster_names: range.union().into_iter().collect(), ..Default::default() };
    spec.placement = Some(Placement { cluster_affinity: Some(affinity), ..Placement::default() });
    spec.conflict_resolution = Some(ConflictResolution::Overwrite);
    binding
}

/// Updates an existing binding to the wanted one, also one created by a policy; `None` if it is unchanged.
///
/// # Errors
/// If the binding belongs to an earlier Service of the same name, which is being collected.
pub fn merged(existing: &Binding, desired: Binding) -> Result<Option<Binding>, propagation::binding::Error> {
    let merged = propagation::binding::merge(existing, desired)?;
    let mut merged = merged.unwrap_or_else(|| existing.clone());
    for scope in Scope::ALL {
        claim::clean(scope).apply_typed(&mut merged.metadata);
    }
    Ok((merged != *existing).then_some(merged))
}

/// The name of the Work that a provider has of a MultiClusterService.
pub fn work_name(service: &ObjectKey) -> String {
    names::work_name(MultiClusterService::KIND, service.name(), service.namespace().unwrap_or_default())
}

/// The Work of a provider; `tree` is the MultiClusterService. It is suspended, so nothing is sent to the member.
pub fn work(service: &MultiClusterService, tree: &Value, cluster: &ClusterName, existing: Option<&Work>) -> Work {
    let key = ObjectKey::namespaced(service.metadata.namespace.as_str(), service.metadata.name.as_str());
    let new = || Work::named(&ObjectKey::namespaced(cluster.execution_namespace(), work_name(&key)));
    let mut work = existing.cloned().unwrap_or_else(new);
    let id = permanent_id(service).to_owned();
    work.metadata.labels.insert(labels::MULTI_CLUSTER_SERVICE_ID.to_owned(), id);
    work.spec.suspend_dispatching = Some(true);
    work::put(&mut work, tree.clone());
    work
}

/// The condition ServiceApplied; `failure` is why it is False.
pub fn service_applied(failure: Option<&str>, generation: i64) -> Condition {
    let reasons = (reasons::SERVICE_APPLIED, reasons::SERVICE_NOT_APPLIED);
    condition(conditions::SERVICE_APPLIED, reasons, SERVICE_APPLIED, failure, generation)
}

/// The condition EndpointSliceDispatched; `failure` is why it is False.
pub fn slices_dispatched(failure: Option<&str>, generation: i64) -> Condition {
    let reasons = (reasons::ENDPOINT_SLICE_DISPATCHED, reasons::ENDPOINT_SLICE_NOT_DISPATCHED);
    condition(conditions::ENDPOINT_SLICE_DISPATCHED, reasons, SLICES_DISPATCHED, failure, generation)
}

fn condition(
    type_: &str,
    (succeeded, failed): (&str, &str),
    message: &str,
    failure: Option<&str>,
    generation: i64,
) -> Condition {
    let (status, reason, message) = match failure {
        None => ("True", succeeded, message),
        Some(why) => ("False", failed, why),
    };
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(generation),
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests;
