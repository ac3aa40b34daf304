//! The language from outside: expressions in tables, with what they give.

mod conformance;
mod limits;
mod printing;
mod properties;
