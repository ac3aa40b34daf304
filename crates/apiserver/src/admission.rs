//! Admission: changes and checks of a write after authorization. In-process plugins run in the order of their
//! registration, first all mutations, then, on the final object, all validations.

use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::resource::ResourceInfo;
use apimachinery::{Object, ObjectKey, Status};
use futures::future::BoxFuture;
use serde_json::Value;
use transport::Identity;

use crate::authz::{Attributes, ResourceAttributes};
use crate::cache::Event;
use crate::keys;
use crate::server::Shared;

/// What a write does, as admission plugins distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is new.
    Create,
    /// The object exists; this includes patches.
    Update,
    /// The object is to be deleted.
    Delete,
}

/// One write during admission.
pub struct AdmissionRequest<'a> {
    /// The server, for reads. Everything acknowledged before the request began is visible.
    pub(crate) server: &'a Shared,
    /// The operation.
    pub operation: Operation,
    /// The resource.
    pub info: &'a ResourceInfo,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The stored object; `None` on create.
    pub old: Option<&'a Value>,
    /// The object to be stored; `None` on delete.
    pub object: Option<&'a mut Value>,
    /// The requesting user.
    pub user: &'a Identity,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
    /// It is to create an object that is known to exist. Validation records nothing for that.
    pub(crate) repeats: bool,
    /// The moment the request was received.
    pub now: Time,
}

impl AdmissionRequest<'_> {
    /// Whether it is about objects of this resource themselves, not about a subresource.
    pub fn is_for(&self, group: &str, plural: &str) -> bool {
        let named = &self.info.resource;
        named.group == group && named.plural == plural && self.subresource.is_empty()
    }

    /// Fails if an object of `place` (`GROUP/PLURAL`) and a namespace (`None`: any) cannot be read: a plugin that decides
    /// by these objects does not know all of them.
    pub(crate) fn all_known(&self, place: &str, namespace: Option<&str>) -> Result<(), Status> {
        let cache = &self.server.cache;
        if cache.is_sound() { Ok(()) } else { cache.resource(place).check_scope(namespace) }
    }

    /// Whether the user of the request is authorized for something else.
    pub fn is_allowed(&self, wanted: ResourceAttributes) -> bool {
        self.server.authorizer.authorize(self.user, &Attributes::Resource(wanted)).is_allowed()
    }

    /// The refusal of a plugin: 403, as all of upstream's.
    pub fn forbidden(&self, why: &str) -> Status {
        let named = &self.info.resource;
        Status::forbidden(&named.group, &named.plural, &self.key.name, why)
    }
}

/// One object's change, right before it is committed. Both states are in the stored version, which need not be the version
/// of the request.
pub struct Change<'a> {
    pub(crate) server: &'a Shared,
    /// The resource.
    pub info: &'a ResourceInfo,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// `None` on create.
    pub old: Option<&'a Object>,
    /// `None` if the object is removed.
    pub new: Option<&'a Object>,
}

impl Change<'_> {
    /// The stored objects of another resource in a namespace.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn others(&self, group: &str, plural: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status> {
        let place = keys::group_resource(group, plural);
        let (objects, ..) = self.server.cache.resource(&place).list(Some(namespace), None, 0, |_| true)?;
        Ok(objects)
    }
}

/// A new state of another object, committed in the transaction of a [`Change`] or not at all.
pub struct JointWrite {
    /// The group of the object's resource.
    pub group: &'static str,
    /// The plural of the object's resource.
    pub plural: &'static str,
    /// The state that the new one was computed from. The transaction fails if it is no longer the newest.
    pub based_on: Arc<Object>,
    /// The new state.
    pub object: Value,
}

/// An in-process admission plugin.
pub trait Admission: Send + Sync + 'static {
    /// Whether it handles this resource; it is not called for others.
    fn concerns(&self, _group: &str, _plural: &str) -> bool {
        true
    }

    /// Whether it handles writes of the status of such a resource.
    fn concerns_status(&self, group: &str, plural: &str) -> bool {
        self.concerns(group, plural)
    }

    /// Whether it handles writes of these metadata fields alone of such a resource.
    fn concerns_metadata(&self, group: &str, plural: &str, _fields: &[&str]) -> bool {
        self.concerns(group, plural)
    }

    /// Names of built-in plugins of the server to disable.
    fn switches_off(&self) -> &[&'static str] {
        &[]
    }

    /// May change the object.
    fn mutate<'a>(&'a self, _request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called with every change in the store, in order, before readers see it; at the start, with all objects.
    fn observe(&self, _place: &str, _event: &Event) {}

    /// May only refuse.
    fn validate<'a>(&'a self, _request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Texts for `Warning` headers about an object that was validated.
    fn warnings(&self, _request: &AdmissionRequest<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Whether it changes other objects together with objects of this resource, see [`Self::joint_writes`].
    fn has_joint_writes(&self, _group: &str, _plural: &str) -> bool {
        false
    }

    /// The writes that are committed together with a change. Called again if one of those objects has changed meanwhile, and
    /// for dry runs. May refuse the change.
    ///
    /// # Errors
    /// A Status that refuses the change.
    fn joint_writes(&self, _change: &Change<'_>) -> Result<Vec<JointWrite>, Status> {
        Ok(Vec::new())
    }

    /// Called when an object it validated was not stored: another plugin refused it, or another write came first.
    /// Undoes the side effects of validation.
    fn undo<'a>(&'a self, _request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
