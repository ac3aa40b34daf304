//! Limits of clients: memory of responses in flight, processor time, turns of writers.

pub mod budget;
pub mod fairness;
