//! Kubernetes API conventions as values and pure functions.
//!
//! Everything here is data in, data out: no async, no clock, no I/O, no randomness. It defines objects, selectors,
//! patches and errors, independently of kinds (built-in kinds are in `kubernetes-api`, Karmada's in `karmada-api`).
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod addresses;
pub mod age;
pub mod configuration;
pub mod duration;
pub mod extent;
pub mod field;
pub mod go_json;
pub mod go_netip;
pub mod go_print;
pub mod go_time;
pub mod gvk;
pub mod hash;
pub mod int_or_string;
pub mod json_patch;
pub mod jsonpath;
pub mod managed_fields;
pub mod merge_patch;
pub mod meta;
pub mod names;
pub mod object;
pub mod patch;
pub mod quantity;
pub mod raw_json;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod strategic;
pub mod strict;
pub mod url;
pub mod versions;
pub mod webhook_client;
pub mod yaml;

#[cfg(test)]
mod test_schemas;

pub use gvk::{ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use object::{Object, ObjectKey};
pub use status::{Status, StatusReason};
