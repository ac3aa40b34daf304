//! The metrics of tunnels.

use metrics::Description;

pub const CONNECTED: Description =
    Description::gauge("karmada_tunnels", &["member_cluster"], "Agent tunnels that are connected to this process.");
pub const STREAMS: Description = Description::gauge(
    "karmada_tunnel_streams",
    &["member_cluster"],
    "Connections to the API server of the member that agent tunnels carry.",
);
pub const OPENED: Description = Description::counter(
    "karmada_tunnel_connections_total",
    &["member_cluster", "result"],
    "Connections to the API server of the member that were requested of agent tunnels; result is success or error.",
);
pub const AGENT: Description = Description::gauge(
    "karmada_agent_tunnel_connected",
    &[],
    "1 while the agent has a tunnel to the control plane, else 0.",
);

/// All of them.
pub const ALL: &[Description] = &[CONNECTED, STREAMS, OPENED, AGENT];
