//! Simulated members as their users see them: objects in, objects out, on virtual time.

mod deployments;
mod harness;
mod life;
mod start;
mod workloads;
