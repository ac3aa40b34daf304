//! Every reconciler of the control plane, one module each, and the table that lists them.
//!
//! A reconciler gets a key, reads caches, calls a pure function of `propagation` that returns the changes, and writes
//! them. It is independent of transports: the control plane and the members are [`client::Client`]s.

mod absence;
mod agent_requests;
mod binding;
mod binding_status;
mod cert_rotation;
mod cluster;
mod cluster_status;
mod context;
mod definitions;
mod dependencies;
mod detector;
mod error;
mod execution;
mod failover;
mod gates;
mod identity;
mod interpreting;
mod journal;
mod lease;
mod lost_works;
mod member_scaling;
mod member_tokens;
mod members;
pub mod metrics;
mod namespace;
mod obsolete_works;
mod ownership;
mod quotas;
mod rebalancer;
mod reinterpreting;
mod remedy;
mod resume;
mod scaling;
mod services;
mod skip;
mod stores;
mod table;
mod taint_policies;
mod templates;
mod unified_auth;
mod unrendered;
mod work_writes;

pub use cert_rotation::{Rotation, stored_kubeconfig, with_newer_certificate};
pub use context::{Context, DecideFirst, FirstDecision, OnCreated, Settings};
pub use error::Error;
pub use failover::Eviction;
pub use gates::Gates;
pub use lease::{Monitoring, Renewal};
pub use member_tokens::{TokenError, check_destination};
pub use members::{Connector, Member, MemberError, Members, Ways, endpoint_of};
pub use propagation::failover::brake::Limits as BrakeLimits;
pub use propagation::readiness::Graces;
pub use propagation::resume::Break;
pub use resume::record_opening;
pub use scaling::{DESCRIPTIONS as SCALING_METRICS, Scaling};
pub use skip::{Skip, SkipError};
pub use table::{CONTROLLERS, Controller, Place, SelectionError, check, start};
