//! The store on failing disks: calls that return errors, full disks, power failures.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod calls;
mod life;
mod model;
mod old;
mod power;
