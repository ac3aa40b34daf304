//! Simulated member clusters: our own API server with nodes, pods and the workload controllers.
//!
//! `plan` decides and is pure: objects and the time in, actions out. `shell` has the caches, runs the plans and
//! executes their actions. No process runs in a simulated pod: after a delay it becomes ready, or a Job's pod succeeds.

mod advertised;
mod custom_api;
mod flavour;
mod member;
mod metrics_api;
mod options;
mod plan;
mod shell;

pub use member::{Access, Member, StartError};
pub use options::{MemberOptions, NodeShape};
pub use plan::load::{Load, LoadError};
