//! Integration tests of the aggregator.

mod faulty_server;
mod harness;
mod registration;
mod requests;
