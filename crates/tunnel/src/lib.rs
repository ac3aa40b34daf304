//! The reverse tunnel, through which the control plane reaches the API server of a member without inbound connections.
//!
//! The agent of the member requests an upgrade of `clusters/NAME/tunnel`; then the roles are reversed. On that
//! connection the control plane is the HTTP/2 client and the agent the server. Each connection to the member is one
//! `CONNECT` request (RFC 9113, 8.5): TLS, tokens and upgrades are end to end between the control plane and the
//! member's API server. The agent copies bytes, to that server only, and cannot read them.
//!
//! The API server authorizes tunnels, and maps them to clusters.

pub mod agent;
mod connection;
mod control;
pub mod decide;
mod lines;
pub mod metrics;

use karmada_api::cluster::TUNNEL;

pub use agent::Agent;
pub use control::{Place, Tunnels};

/// The protocol of the upgrade: HTTP/2 with reversed roles.
pub const PROTOCOL: &str = "h2-reverse";

/// The path of a cluster's tunnel.
pub fn path(cluster: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/{TUNNEL}")
}
