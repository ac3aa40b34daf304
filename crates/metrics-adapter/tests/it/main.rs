//! The route on an API server, over members that answer well, slowly, wrongly, too much or not at all.

mod cost;
mod harness;
mod hpa;
mod members;
mod values;
