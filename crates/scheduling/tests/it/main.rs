//! The public behaviour of the crate.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod accurate;
mod cases;
mod descheduling;
mod explained;
mod fleet;
mod forecasts;
mod outcomes;
mod peers;
mod runs;
mod terms;
mod triggers;
