//! Services across clusters, as functions over data.
//!
//! Two mechanisms copy the EndpointSlices of a Service from the clusters that provide it to those that consume it:
//!
//! - ServiceExport and ServiceImport: [`collected`] plans a Work for each slice of an exported Service, [`imported`]
//!   the slice of the control plane for it, and [`derived`] the Service of an import. As dependencies of the import,
//!   both are propagated to members.
//! - MultiClusterService: [`claimed`] plans its Service and bindings, [`collected`] the Works of its slices, and
//!   [`dispatched`] their copies in the consumers.
//!
//! A plan contains a removal only if its reason is known; [`collected::Proof`] names the facts that the caller confirms
//! first.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod claimed;
pub mod collected;
pub mod derived;
pub mod dispatched;
pub mod imported;
mod work;

pub use work::{manifest, slice_name};
