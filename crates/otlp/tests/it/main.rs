//! The export against collectors that answer, fail, hang and are away.

mod collector;
mod export;
