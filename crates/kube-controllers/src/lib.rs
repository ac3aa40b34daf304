//! What kube-controller-manager does that others notice: service accounts and their tokens, the root CA, the deletion of
//! namespaces, garbage collection, aggregated roles, certificates, quotas, bootstrap tokens, finished Jobs, claims and
//! volumes that are still in use, and flow schemas without a priority level. [`CONTROLLERS`] lists them all.
//!
//! Every controller works through a [`client::Client`] and shared informers, so the control plane and each simulated
//! member run the same code, beside their API server or far from it. What a controller decides is a function over data
//! in a module of its own; nothing here knows Karmada, and nothing makes pods.

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
mod resource_quotas;
mod resources;
mod running;
mod table;
mod timing;
mod tokens;
mod volume_protection;

pub use context::{Context, Settings};
pub use running::{Running, Starting};
pub use table::{CONTROLLERS, Controller, SelectionError, check, start};
