//! The crate's integration tests.

mod crds;
