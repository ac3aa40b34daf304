//! Expressions in tables, with their results.

mod conformance;
mod limits;
mod printing;
mod properties;
