//! Finding the template of a binding, and the binding of a Work.

use std::sync::Arc;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey, raw_json};
use client::MapError;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::ObjectReference;
use propagation::claim;

use crate::Context;
use crate::absence::certain;
use crate::error::{Error, Result};

/// The resource and key a reference means; `None` when its kind is not served (any more).
pub(crate) async fn locate(context: &Context, reference: &ObjectReference) -> Result<Option<(ApiResource, ObjectKey)>> {
    let gvk = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind)
        .map_err(|error| Error::Wait(error.to_string()))?;
    match context.mapper.resource(&gvk).await {
        Ok(resource) => {
            Ok(Some((resource, ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str()))))
        }
        Err(MapError::NoMatch(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The template of an encoded binding; nothing else of it is decoded.
pub(crate) fn reference_in(binding: &Object) -> Option<ObjectReference> {
    let spec = binding.member("spec")?;
    let resource = raw_json::member(&spec, "resource")?;
    serde_json::from_slice(&spec.slice(resource)).ok()
}

/// The binding that a Work names, if it is of this scope.
pub(crate) fn binding_of(work: &Object, scope: Scope) -> Option<BindingKey> {
    let name = work.annotation(scope.binding_name_annotation())?;
    let namespace = scope.binding_namespace_annotation().and_then(|key| work.annotation(key));
    Some(BindingKey::namespaced(namespace.unwrap_or_default(), name))
}

/// From the cache, or from the server if the cache lacks it: a cache may be behind, and absence has consequences.
pub(crate) async fn fetch(context: &Context, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Arc<Object>>> {
    let informer = context.control.existing(resource);
    if let Some(object) = informer.and_then(|informer| informer.cache().get(key)) {
        return Ok(Some(object));
    }
    certain(&context.client, resource, key).await
}

/// The template, if a cache of its kind has it.
pub(crate) fn cached(context: &Context, reference: &ObjectReference) -> Option<Arc<Object>> {
    let gvk = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind).ok()?;
    let known = context.mapper.known();
    let informer = context.control.existing(&known.by_kind(&gvk)?.resource)?;
    informer.cache().get(&ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str()))
}

/// The resource and key of a binding's template; `None` when its kind is not served (any more). A template is in the
/// namespace of its binding: the edit role of a namespace includes its bindings, and the control plane propagates with
/// its own rights.
///
/// # Errors
/// The binding refers to an object that is not in its namespace.
pub(crate) async fn own(context: &Context, binding: &Binding) -> Result<Option<(ApiResource, ObjectKey)>> {
    let Some((resource, key)) = locate(context, &binding.spec.resource).await? else { return Ok(None) };
    let namespace = binding.metadata.namespace.as_str();
    let is_own = resource.namespaced && key.namespace() == Some(namespace);
    if binding.scope == Scope::Namespaced && !is_own {
        return Err(Error::Wait(format!(
            "{} {key} is not in namespace {namespace}, so ResourceBinding {} does not propagate it",
            resource.kind,
            binding.key()
        )));
    }
    Ok(Some((resource, key)))
}

/// The template of a binding for rendering: with the claim that the binding was built from. Both are written in one
/// transaction, and the cache of the template may be behind that of the binding.
pub(crate) async fn claimed(context: &Context, binding: &Binding) -> Result<Option<Arc<Object>>> {
    let Some(place) = own(context, binding).await? else { return Ok(None) };
    let claim = claim::claimed_by_metadata(&binding.metadata);
    let is_claimed = |template: &Object| claim.is_none() || claim::claimed_by_object(template) == claim;
    newest(context, &binding.spec.resource, place, is_claimed).await
}

/// The template that a binding refers to, in the version that the binding was built from or a later one: no event
/// follows when a cache that lags behind the bindings' catches up.
pub(crate) async fn referenced(context: &Context, binding: &Binding) -> Result<Option<Arc<Object>>> {
    let Some(place) = own(context, binding).await? else { return Ok(None) };
    newest(context, &binding.spec.resource, place, |_| true).await
}

/// From the cache if it has the state that the binding was built from, otherwise from the server.
async fn newest(
    context: &Context,
    reference: &ObjectReference,
    (resource, key): (ApiResource, ObjectKey),
    is_known: impl Fn(&Object) -> bool,
) -> Result<Option<Arc<Object>>> {
    let built_from = reference.resource_version.parse().unwrap_or(0);
    let informer = context.control.existing(&resource);
    let known = informer.and_then(|informer| informer.cache().get(&key));
    if let Some(object) = known.filter(|object| object.revision() >= built_from && is_known(object)) {
        return Ok(Some(object));
    }
    certain(&context.client, &resource, &key).await
}
