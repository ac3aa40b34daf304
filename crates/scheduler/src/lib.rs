//! The scheduler: a queue of bindings, a decision by the pure `scheduling` crate, at most two writes per decision.

pub mod assumptions;
pub mod clusters;
mod descheduler;
mod estimates;
pub mod explain;
mod first;
mod journal;
pub mod metrics;
pub mod outline;
pub mod pacing;
mod pass;
mod peers;
pub mod queue;
pub mod roster;
mod scheduler;
mod shared;
pub mod triggers;
mod waiting;
pub mod writes;

pub use descheduler::{DeschedulerOptions, deschedule};
pub use explain::Explanation;
pub use first::FirstDecision;
pub use pacing::{Bucket, Pacing};
pub use scheduler::{Scheduler, start};
pub use scheduling::Gates;
pub use shared::Options;
