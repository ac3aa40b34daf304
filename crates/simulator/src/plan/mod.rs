//! The decisions of a member's controllers: objects and the time in, actions out. The module never awaits, reads no
//! clock and draws no random numbers.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod deployment_status;
pub(crate) mod job;
pub(crate) mod kind;
pub(crate) mod kubelet;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod replica_set;
pub(crate) mod resources;
pub(crate) mod revision;
pub(crate) mod rollout;
pub(crate) mod scheduling;
pub(crate) mod series;
pub(crate) mod service;
pub(crate) mod stateful_set;
mod strategy;
#[cfg(test)]
mod tests;

use std::time::Duration;

use apimachinery::ObjectKey;
use serde_json::Value;

pub(crate) use kind::Kind;

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// A pod without a name gets a random one from its `generateName`.
    Create(Kind, Value),
    /// Creates the object unless one of that name exists.
    Ensure(Kind, Value),
    /// A merge patch conditional on a resourceVersion.
    Patch(Kind, ObjectKey, Value),
    /// The name, the resourceVersion it is conditional on, the new status, and optionally annotations.
    Status(Kind, Value),
    /// Deletes only the object with this uid; `now` skips the grace period.
    Delete { kind: Kind, key: ObjectKey, uid: String, now: bool },
}

/// The result of reconciling an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    /// When to reconcile again without an event.
    pub again: Option<Duration>,
}

impl Plan {
    pub fn nothing() -> Self {
        Self::default()
    }

    pub fn one(action: Action) -> Self {
        Self { actions: vec![action], again: None }
    }

    pub fn after(pause: Duration) -> Self {
        Self { actions: Vec::new(), again: Some(pause) }
    }
}
