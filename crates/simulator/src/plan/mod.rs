//! What the controllers of a member decide: objects and the time in, actions out. Nothing here awaits, reads a clock or
//! draws a random number.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod deployment_status;
pub(crate) mod job;
pub(crate) mod kind;
pub(crate) mod kubelet;
pub(crate) mod ledger;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod replica_set;
pub(crate) mod resources;
pub(crate) mod revision;
pub(crate) mod rollout;
pub(crate) mod scheduling;
pub(crate) mod service;
pub(crate) mod stateful_set;
mod strategy;
#[cfg(test)]
mod tests;

use std::time::Duration;

use apimachinery::ObjectKey;
use serde_json::Value;

pub(crate) use kind::Kind;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// A pod without a name gets a random one from its `generateName`.
    Create(Kind, Value),
    /// Created unless there is one of that name.
    Ensure(Kind, Value),
    /// A merge patch that names the resourceVersion it is based on.
    Patch(Kind, ObjectKey, Value),
    /// The name, the resourceVersion it is based on, the new status, and perhaps annotations.
    Status(Kind, Value),
    /// Only the object with this uid; `now` leaves no time for a graceful end.
    Delete { kind: Kind, key: ObjectKey, uid: String, now: bool },
}

/// What one look at an object leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    /// When to look again, if nothing happens before.
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
