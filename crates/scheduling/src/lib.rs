//! Scheduling decisions as pure functions: filter, score, spread, divide. The crate never awaits and never reads a
//! clock; the time is part of its input.
//!
//! [`needed`] returns whether a binding has to be scheduled, [`decide`] its clusters, [`outcome()`] the resulting
//! condition and queue, [`explain()`] the reasons.
//!
//! ```
//! use std::sync::Arc;
//!
//! use karmada_api::{Scope, scope::Binding};
//! use scheduling::{Gates, Problem, Snapshot, decide};
//! use serde_json::json;
//!
//! let cluster = |name: &str| {
//!     serde_json::from_value(json!({
//!         "metadata": {"name": name},
//!         "spec": {"syncMode": "Push"},
//!         "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [
//!             {"name": "deployments", "kind": "Deployment"}]}]},
//!     }))
//!     .map(Arc::new)
//! };
//! let snapshot = Snapshot::of_clusters([cluster("member1")?, cluster("member2")?]);
//! let binding = Binding::from_value(
//!     Scope::Namespaced,
//!     &json!({"metadata": {"name": "nginx-deployment", "namespace": "default"}, "spec": {
//!         "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "default"},
//!         "replicas": 2,
//!         "placement": {"clusterAffinity": {"clusterNames": ["member2"]}},
//!     }}),
//! )?;
//! let problem = Problem::of(&binding).expect("a placement");
//! let decision = decide(&problem, &snapshot, &Gates::default());
//! assert_eq!(decision.result().expect("a result")[0].name, "member2");
//! # Ok::<(), serde_json::Error>(())
//! ```

#![warn(missing_docs)]

pub mod accurate;
mod assign;
mod candidate;
mod capacity;
pub mod cases;
mod choice;
mod decide;
pub mod descheduling;
pub mod error;
pub mod estimate;
pub mod evacuation;
mod explain;
mod filter;
mod fingerprint;
pub mod forecast;
mod groups;
mod labels;
mod matcher;
mod needed;
mod nodes;
pub mod outcome;
mod plugins;
mod problem;
pub mod record;
mod repair;
pub mod report;
mod select;
mod selection;
mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod trace;

pub use capacity::Capacity;
pub use decide::{Decision, TermFailure, clusters_to_estimate, decide, demand};
pub use error::{Class, ScheduleError};
pub use explain::{Numbers, RejectedBy, Verdict, explain};
pub use filter::Rejection;
pub use needed::{ScheduleType, needed, placement_changed};
pub use outcome::{Outcome, Queue, outcome};
pub use plugins::{Plugin, Plugins};
pub use problem::{Estimates, Gates, NoEstimates, Peers, Problem, Step, Steps, Strategy};
pub use snapshot::{Member, Snapshot};
