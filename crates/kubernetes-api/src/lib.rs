//! The built-in kinds of Kubernetes as data and small functions: the resources, their types, and their kind-specific
//! behavior. It contains no handlers.

pub mod admission;
mod columns;
pub mod connections;
mod conversion;
mod cron;
mod defaults;
pub mod eviction;
pub mod expressions;
mod go_base64;
mod habits;
pub mod pods;
mod prepare;
pub mod protobuf;
mod resources;
pub mod services;
mod strategy;
pub mod type_checking;
mod types;
mod validation;
mod warnings;

pub use resources::{field_text, resources, scale};
pub use types::{schema_for, schemas};
pub use validation::{is_config_key, is_port_name};
