//! Simulated member clusters: our own API server with nodes, pods and the workload controllers that make it look alive.
//!
//! `plan` decides and is pure: objects and the time in, actions out. `shell` keeps the caches, runs the plans and
//! writes what they ask for. Nothing runs in a simulated pod: it becomes ready, or a Job's pod ends, after a while.

mod flavour;
mod member;
mod options;
mod plan;
mod shell;

pub use member::{Access, Member, StartError};
pub use options::{MemberOptions, NodeShape};
