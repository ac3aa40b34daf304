//! Kind-specific behavior of one resource, as hooks of the generic handlers. The rows are in `crate::kinds`.

use std::time::Duration;

use apimachinery::managed_fields::FieldSet;
use apimachinery::meta::Time;
use apimachinery::{ObjectKey, Status};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use serde_json::Value;
use transport::{Body, Identity, NewEvent, Response};

use super::Call;
use crate::request::RequestInfo;
use crate::state::Shared;

/// Answers a request for a special subresource.
pub(crate) type AnswerPart = for<'a> fn(&'a Call<'_>, Body) -> BoxFuture<'a, Result<Response, Status>>;

/// Answers a request for a resource that represents another one.
pub(crate) type AnswerInstead =
    for<'a> fn(&'a Shared, &'a RequestInfo, &'a Identity, &'a Parts, Body) -> BoxFuture<'a, Result<Response, Status>>;

/// What else the removal of an object causes.
pub(crate) type Removed = for<'a> fn(&'a Call<'_>, &'a ObjectKey) -> BoxFuture<'a, ()>;

/// The server's part of a new object.
pub(crate) struct Creation<'a> {
    pub namespace: &'a str,
    pub uid: &'a str,
    pub now: Time,
    /// The owner of its fields.
    pub manager: &'a str,
}

/// A row. A resource without a row has [`Kind::ORDINARY`], with no-op hooks.
pub(crate) struct Kind {
    pub group: &'static str,
    pub plural: &'static str,
    /// A warning with every response.
    pub deprecation: Option<&'static str>,
    /// The name of the kind in the refusal of a field selector.
    pub selected_as: Option<&'static str>,
    /// Objects end this long after their last write.
    pub lifetime: Option<Duration>,
    /// Fills in defaults that depend on other fields.
    pub default: fn(&mut Value),
    /// Sets the fields of a new object that belong to the server.
    pub prepare_create: fn(&Identity, &mut Value),
    /// Restores the fields that a write of this subresource (empty: of the object) may not change, given the old object
    /// and the new one.
    pub restore: fn(&str, &Value, &mut Value, Time),
    /// The fields that a write of this subresource (empty: of the object) does not change, if not those of most kinds.
    pub reset_fields: fn(&str) -> Option<&'static FieldSet>,
    /// Refuses the deletion of some objects.
    pub may_delete: fn(&ObjectKey) -> Result<(), Status>,
    /// Whether a deleted object stays for another reason than its finalizers.
    pub blocks_deletion: fn(&Value) -> bool,
    /// Marks the deletion in the object itself.
    pub mark_deleted: fn(&mut Value),
    /// Follows the removal of an object from the store.
    pub removed: Option<Removed>,
    /// The stored form of an Event of a component, if it can be derived without the general path: the bytes are the
    /// same. Called only if admission neither changes nor refuses such an object.
    pub stored_event: fn(&NewEvent, &Creation<'_>) -> Option<Bytes>,
    pub part: Option<AnswerPart>,
    pub instead: Option<AnswerInstead>,
}

impl Kind {
    pub const ORDINARY: Self = Self {
        group: "",
        plural: "",
        deprecation: None,
        selected_as: None,
        lifetime: None,
        default: |_| {},
        prepare_create: |_, _| {},
        restore: |_, _, _, _| {},
        reset_fields: |_| None,
        may_delete: |_| Ok(()),
        blocks_deletion: |_| false,
        mark_deleted: |_| {},
        removed: None,
        stored_event: |_, _| None,
        part: None,
        instead: None,
    };
}
