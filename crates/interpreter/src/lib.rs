//! What a kind means to the system: how many replicas it has, what they need, what a member cluster owns of it, when it
//! is healthy, what its status says, what it depends on.
//!
//! Questions are answered by layers in order of precedence: the first layer that has an answer for a kind and an
//! operation gives it, and its error is final. [`Native`] knows the built-in kinds; scripts and webhooks are further
//! layers before it. Nothing here reads a clock or the network.

mod kind;
mod layers;
pub mod lua;
mod native;
pub mod scripted;
pub mod shipped;
mod tree;
pub mod webhook;

pub use kind::Kind;
pub use layers::{Error, Interpreter, Layer, Operation};
pub use native::Native;
pub use native::dependencies::pod_dependencies;
pub use native::requirements::{Limits, amounts, pod_request, printed, replica_requirements};
pub use scripted::{Customizations, Scripts};
