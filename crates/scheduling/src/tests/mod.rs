//! Tests of private steps: the tables, small worlds and the slow reference implementation.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod brute;
mod odd;
mod own;
mod reference;
mod tables;
mod worlds;
