//! The built-in kinds of Kubernetes as data and small functions: which resources there are, their types and what is
//! special about them. No handler lives here.

mod columns;
mod conversion;
mod defaults;
pub mod eviction;
pub mod pods;
pub mod protobuf;
mod resources;
mod strategy;
mod types;

pub use resources::resources;
pub use types::{schema_for, schemas};
