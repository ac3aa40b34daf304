//! Field ownership: `metadata.managedFields` and server-side apply, with the semantics of structured-merge-diff.
//!
//! Documents are compared as trees along their schema; paths become text only in conflicts. Sets that were recorded in
//! another API version than the request's are compared in that version ([`Versions`]).

mod applied;
mod apply;
mod compare;
mod configuration;
mod conflict;
mod entries;
mod member;
mod merge;
mod owners;
mod path;
pub(crate) mod place;
mod reconcile;
mod set;
mod typed;
mod update;
mod versions;

#[cfg(test)]
mod empties;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod versioned;

use crate::meta::Time;

pub use apply::{ApplyError, apply, merge_apart};
pub use configuration::check_policy_configuration;
pub use conflict::{Conflict, to_conflict_status};
pub use entries::{EntryError, Operation};
pub use member::track_member;
pub use owners::Owners;
pub use path::{ParseElementError, PathElement};
pub use set::{FieldSet, NO_FIELDS, Node, ParseSetError};
pub use typed::TypedError;
pub use update::{keep_old_times, track, update};
pub use versions::{ONE_VERSION, Versions};

/// The manager of a write, its time, and the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct ManagerContext<'a> {
    /// The request's `fieldManager`, or a name derived from its User-Agent.
    pub manager: &'a str,
    /// The API version the request is in, e.g. `apps/v1`.
    pub api_version: &'a str,
    /// `""` for the object itself.
    pub subresource: &'a str,
    /// The time of the request.
    pub now: Time,
    /// Fields that this endpoint does not write (`status` on the main one), so they get no owner here.
    pub reset_fields: &'a FieldSet,
    /// The other versions of the kind; [`ONE_VERSION`] for a kind with one.
    pub versions: &'a dyn Versions,
}

/// Fields that belong to the server and are never owned.
fn server_fields() -> &'static FieldSet {
    static FIELDS: std::sync::OnceLock<FieldSet> = std::sync::OnceLock::new();
    FIELDS.get_or_init(|| {
        FieldSet::from_paths(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "uid"],
            &["metadata", "resourceVersion"],
            &["metadata", "generation"],
            &["metadata", "creationTimestamp"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "deletionGracePeriodSeconds"],
            &["metadata", "selfLink"],
            &["metadata", "clusterName"],
            &["metadata", "managedFields"],
        ])
    })
}
