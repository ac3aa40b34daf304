//! The contract, byte for byte, and calls over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod calls;
mod golden;
