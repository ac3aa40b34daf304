//! Checks of the workspace as a whole.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod layers;
mod order;
mod problems;
mod promises;
mod third_party;
mod tidy;
mod words;
