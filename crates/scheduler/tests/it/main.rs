//! Journeys of bindings through the scheduler, in one process and in virtual time.

mod estimates;
mod failures;
mod harness;
mod log;
mod measure;
mod results;
mod writes;

/// The binary's, so that `measure` shows what users get.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
