//! The controllers of kube-controller-manager that clients depend on: service accounts and their tokens, the root CA,
//! namespace deletion, garbage collection, aggregated roles, certificates, quotas, bootstrap tokens, finished Jobs,
//! protection of claims and volumes in use, conditions of flow schemas, and the types in admission policies.
//! [`CONTROLLERS`] lists them all.
//!
//! Every controller uses a [`client::Client`] and shared informers, so the control plane and each simulated member run
//! the same code, in the process of their API server or remotely. Each controller's decision is a function over data in
//! a separate module. The crate does not depend on Karmada and creates no pods.

mod bootstrap_tokens;
mod certificates;
mod cluster_roles;
mod context;
mod error;
mod finished_jobs;
mod flow_schemas;
mod gc;
mod namespaces;
mod per_namespace;
mod policy_types;
mod resource_quotas;
mod resources;
mod running;
mod table;
mod timing;
mod tokens;
mod volume_protection;

pub use context::{Context, Settings};
pub use running::{Running, Start, Starting};
pub use table::{CONTROLLERS, Controller, SelectionError, check, start};
