//! API priority and fairness, configured with FlowSchemas and PriorityLevelConfigurations.
//!
//! - [`objects`]: the fields of the two kinds.
//! - [`classify`]: the FlowSchema and the flow of a request.
//! - [`cost`]: the seats of a request, and how long they are occupied after its end.
//! - [`level`]: the seats and queues of one priority level. Time is an argument, and the caller waits.
//! - [`limits`]: the division of the server's seats among its levels, and borrowing.
//!
//! The crate never waits, locks or reads a clock.

pub mod classify;
pub mod cost;
mod deal;
pub mod level;
pub mod limits;
pub mod objects;

/// Nanoseconds since a moment of the caller's choice.
pub type Nanos = u64;
