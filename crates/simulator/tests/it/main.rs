//! Simulated members through their API, on virtual time.

mod deployments;
mod harness;
mod life;
mod start;
mod workloads;
