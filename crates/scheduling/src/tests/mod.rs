//! Tests of steps that have no name outside: the tables, small worlds and the slow reference they are compared with.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod brute;
mod odd;
mod own;
mod reference;
mod tables;
mod worlds;
