//! The crate's integration tests.

#[cfg(test)]
mod conversion;
#[cfg(test)]
mod crds;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod samples;
