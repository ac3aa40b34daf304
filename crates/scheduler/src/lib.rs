//! The scheduler: queue, plan, commit.

pub mod queue;
pub mod roster;
pub mod triggers;
mod waiting;
pub mod writes;
