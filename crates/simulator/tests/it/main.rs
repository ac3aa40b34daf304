//! Simulated members through their API, on virtual time.

mod deployments;
mod harness;
mod life;
mod loads;
mod start;
mod workloads;
