//! Plugins for storage and ingresses: default classes, and finalizers for storage in use.

use std::sync::Arc;

use apimachinery::Status;
use futures::future::BoxFuture;
use kubernetes_api::admission::classes;
use serde_json::Value;

use super::table::Table;
use crate::admit::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;

fn done<'a>(outcome: Result<(), Status>) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(std::future::ready(outcome))
}

/// Runs `change` on the object of a create.
fn on_create(request: &mut AdmissionRequest<'_>, change: impl FnOnce(&mut Value)) {
    if request.operation == Operation::Create
        && request.subresource.is_empty()
        && let Some(object) = request.object.as_deref_mut()
    {
        change(object);
    }
}

pub(super) struct DefaultStorageClass {
    classes: Table,
}

impl Default for DefaultStorageClass {
    fn default() -> Self {
        Self { classes: Table::of("storage.k8s.io", "storageclasses") }
    }
}

impl Admission for DefaultStorageClass {
    fn name(&self) -> Option<&'static str> {
        Some("DefaultStorageClass")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && plural == "persistentvolumeclaims"
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        on_create(request, |claim| classes::set_storage_class(claim, self.classes.all().iter().map(Arc::as_ref)));
        done(Ok(()))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.classes.observe(place, event);
    }
}

pub(super) struct DefaultIngressClass {
    classes: Table,
}

impl Default for DefaultIngressClass {
    fn default() -> Self {
        Self { classes: Table::of("networking.k8s.io", "ingressclasses") }
    }
}

impl Admission for DefaultIngressClass {
    fn name(&self) -> Option<&'static str> {
        Some("DefaultIngressClass")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        group == "networking.k8s.io" && plural == "ingresses"
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        on_create(request, |ingress| classes::set_ingress_class(ingress, self.classes.all().iter().map(Arc::as_ref)));
        done(Ok(()))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.classes.observe(place, event);
    }
}

pub(super) struct InUseProtection;

impl Admission for InUseProtection {
    fn name(&self) -> Option<&'static str> {
        Some("StorageObjectInUseProtection")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        classes::in_use_finalizer(group, plural).is_some()
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let named = &request.info.resource;
        if let Some(finalizer) = classes::in_use_finalizer(&named.group, &named.plural) {
            on_create(request, |object| classes::add_finalizer(object, finalizer));
        }
        done(Ok(()))
    }
}

/// Claims grow only where their class lets volumes be expanded.
pub(super) struct ClaimResize {
    classes: Table,
}

impl Default for ClaimResize {
    fn default() -> Self {
        Self { classes: Table::of("storage.k8s.io", "storageclasses") }
    }
}

impl Admission for ClaimResize {
    fn name(&self) -> Option<&'static str> {
        Some("PersistentVolumeClaimResize")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && plural == "persistentvolumeclaims"
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let (Some(old), Some(new)) = (request.old, request.object.as_deref()) else { return done(Ok(())) };
        if request.operation != Operation::Update || !request.subresource.is_empty() {
            return done(Ok(()));
        }
        let refusal = classes::resize_refusal(old, new, self.classes.all().iter().map(Arc::as_ref));
        done(refusal.map_or(Ok(()), |why| Err(request.forbidden(why))))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.classes.observe(place, event);
    }
}
