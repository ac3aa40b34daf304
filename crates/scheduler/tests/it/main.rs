//! Journeys of bindings through the scheduler, in one process and in virtual time.

mod estimates;
mod failures;
mod first;
mod harness;
mod log;
mod measure;
mod results;
mod writes;

/// The binary's allocator, so that `measure` shows realistic figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
