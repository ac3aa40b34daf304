//! The crate's integration tests.

#[cfg(test)]
mod crds;
