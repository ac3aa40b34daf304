//! The scheduler: queue, plan, commit.

pub mod queue;
mod waiting;
