//! Scheduling decisions as pure functions: filter, score, spread, divide. It never awaits and never reads a clock; the
//! time is in its input.
//!
//! [`needed`] says whether a binding has to be scheduled, [`decide`] where it goes, [`outcome()`] what follows for its
//! condition and its place in the queue, [`explain()`] why.

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
mod needed;
mod nodes;
pub mod outcome;
mod plugins;
mod problem;
pub mod record;
mod repair;
pub mod report;
mod select;
mod snapshot;
mod spread;
#[cfg(test)]
mod tests;

pub use capacity::Capacity;
pub use decide::{Decision, TermFailure, decide, demand, roomy};
pub use error::{Class, ScheduleError};
pub use explain::{Numbers, RejectedBy, Verdict, explain};
pub use filter::Rejection;
pub use needed::{ScheduleType, needed, placement_changed};
pub use outcome::{Outcome, Queue, outcome};
pub use plugins::{Plugin, Plugins};
pub use problem::{Estimates, Gates, NoEstimates, Peers, Problem, Step, Steps, Strategy};
pub use snapshot::{Member, Snapshot};
