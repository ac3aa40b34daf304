//! Interprets resources: replicas and their requirements, the values that a member cluster owns, health, status,
//! dependencies.
//!
//! Layers implement the operations in order of precedence: the first layer that supports a kind and an operation
//! executes it, and its error is final. [`Native`] supports the built-in kinds; scripts and webhooks are layers before
//! it. The crate uses neither a clock nor the network.

mod changes;
mod kind;
mod layers;
pub mod lua;
mod native;
pub mod scripted;
#[cfg(test)]
mod shapes;
pub mod shipped;
mod tree;
pub mod webhook;

pub use changes::Changes;
pub use kind::Kind;
pub use layers::{Error, Interpreter, Layer, Operation};
pub use native::Native;
pub use native::dependencies::pod_dependencies;
pub use native::requirements::{add_amounts, amounts, pod_request, printed, replica_requirements};
pub use scripted::{Customizations, Scripts};
