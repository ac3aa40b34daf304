//! The engines against the contract, and the embedded one against crashes and full disks.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod backup;
mod breaks;
mod conformance;
mod damage;
mod directory;
mod embedded;
mod formats;
mod image;
mod import;
mod kill;
mod limited;
mod upgrade;
