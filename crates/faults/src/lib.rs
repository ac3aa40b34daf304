//! Directories whose files fail, for tests of the store.
//!
//! A program that links this crate calls its own `open`, `pwrite`, `fsync` and so on (`calls`), in place of the C
//! library's. They pass everything through, except for files in the directory of a [`Disk`]: there a test makes the Nth
//! call fail, and records all changes. [`PowerFailure`] derives from the record the possible contents of a disk after a
//! power failure: of unsynced changes any part, in any order. Everything above the C library is unchanged, so the
//! program under test is the one that runs in production.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod calls;
mod dice;
mod disk;
mod power;

pub use dice::Dice;
pub use disk::{Call, Disk, Failure, Recorded};
pub use power::{Files, PowerFailure};
