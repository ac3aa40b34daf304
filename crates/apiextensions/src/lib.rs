//! CustomResourceDefinitions as pure functions: structural schemas, pruning, defaulting, validation, names, columns.
//!
//! It accesses no store, no clock and no network: the API server passes objects in and applies the results. CEL rules
//! (`x-kubernetes-validations`) are compiled by the `cel` crate when a definition is served, and evaluated with the
//! rest of the schema.

pub use apimachinery::age;
mod authorities;
mod columns;
pub mod conversion;
pub mod defaulting;
pub mod definition;
mod definition_strategy;
pub mod definition_validation;
mod embedded;
pub mod formats;
mod internal;
pub mod naming;
pub mod pruning;
pub use cel::re2;
pub mod rule_definitions;
pub mod rule_evaluation;
pub mod rules;
mod scaled;
mod schema_defaults;
mod schema_rules;
pub mod shapes;
mod strategy;
pub mod structural;
pub mod structural_rules;
mod trail;
pub mod validation;
mod zeros;

pub use definition::CustomResourceDefinition;
pub use definition_strategy::DefinitionStrategy;
pub use strategy::{Compilation, Converter, resources};
