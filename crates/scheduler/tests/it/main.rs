//! Journeys of bindings through the scheduler, in one process and in virtual time.

mod estimates;
mod failures;
mod harness;
mod measure;
mod results;
mod writes;
