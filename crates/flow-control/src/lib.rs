//! API priority and fairness as its users configure it with FlowSchemas and PriorityLevelConfigurations.
//!
//! - [`objects`]: the fields of the two kinds.
//! - [`classify`]: which FlowSchema a request matches, and which flow of it.
//! - [`cost`]: how many seats a request takes, and for how long after it ended.
//! - [`level`]: the seats and queues of one priority level. Time is an argument, and waiting is left to the caller.
//! - [`limits`]: how the seats of the server are divided among its levels, and borrowed.
//!
//! Nothing here waits, locks or reads a clock.

pub mod classify;
pub mod cost;
mod deal;
pub mod level;
pub mod limits;
pub mod objects;

/// Nanoseconds since a moment of the caller's choice.
pub type Nanos = u64;
