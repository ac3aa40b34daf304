//! Expressions in tables, with their results.

mod authorization;
mod conformance;
mod limits;
mod printing;
mod properties;
