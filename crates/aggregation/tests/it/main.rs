//! Integration tests of the aggregator.

mod harness;
mod odd;
mod registration;
mod requests;
