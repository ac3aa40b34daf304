//! The decisions as pure functions: the tunnel for a connection, an agent's destinations, when a rejected agent
//! retries, and the messages.

use std::time::Duration;

use http::Uri;
use karmada_api::cluster::{NEAR_ENDPOINT, TUNNEL};

/// A cluster whose last tunnel ended within this time still counts as reachable: its agent is probably restarting. Its
/// requests fail during that time; otherwise its objects would disappear from lists over all members.
pub const GRACE: Duration = Duration::from_secs(60);

/// A connected tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelCapacity {
    pub id: u64,
    /// The number of streams that it can still carry.
    pub free: usize,
}

/// How a connection to a member in Pull mode is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// No agent is connected: the endpoint is dialled.
    Direct,
    /// Over these tunnels, in order, until one connects.
    Tunnels(Vec<u64>),
    /// Every tunnel has the maximum number of streams.
    Full,
}

/// `tunnels` is in the order of arrival. The newest is used first: the older one is more likely dead.
pub fn way(tunnels: &[TunnelCapacity]) -> Way {
    if tunnels.is_empty() {
        return Way::Direct;
    }
    let free: Vec<u64> = tunnels.iter().rev().filter(|it| it.free > 0).map(|it| it.id).collect();
    if free.is_empty() { Way::Full } else { Way::Tunnels(free) }
}

/// Whether lists over all members include a cluster with this many tunnels, whose last one ended this long ago.
pub fn is_expected(connected: usize, lost: Option<Duration>) -> bool {
    connected > 0 || lost.is_some_and(|lost| lost < GRACE)
}

/// The endpoint was dialled because there is no tunnel, and did not respond.
pub fn unreachable(cluster: &str, authority: &str, why: &str) -> String {
    format!(
        "cluster {cluster:?} is registered in Pull mode, its endpoint {authority} cannot be reached ({why}) and no agent \
         tunnel is connected; next step: check that the agent of the cluster runs with --enable-tunnel, and look for \
         \"tunnel\" in its log"
    )
}

/// The Cluster has no endpoint either; the first part of the message is upstream's.
pub fn no_endpoint(cluster: &str) -> String {
    format!(
        "API endpoint of cluster {cluster} should not be empty: it is registered in Pull mode and no agent tunnel is \
         connected; next step: check that the agent of the cluster runs with --enable-tunnel, or with --cluster-api-endpoint"
    )
}

pub fn full(cluster: &str, most: usize) -> String {
    format!(
        "the agent tunnels of cluster {cluster:?} carry {most} connections each, which is the limit; next step: try again \
         when watches, logs or terminals have ended"
    )
}

/// The destinations of an agent: host and port, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destinations(Vec<String>);

impl Destinations {
    /// `own` is the server in the agent's kubeconfig, `endpoint` the value of `--cluster-api-endpoint`. All are names
    /// of the one API server that the agent connects to.
    pub fn new(own: &str, endpoint: &str) -> Self {
        let mut names = vec![own.to_owned()];
        for url in [endpoint, NEAR_ENDPOINT] {
            let name = url.parse::<Uri>().ok().filter(|url| url.host().is_some()).map(|url| client::authority(&url));
            names.extend(name.filter(|name| !names.contains(name)));
        }
        Self(names)
    }

    /// Why a destination is rejected, if it is.
    pub fn refusal(&self, authority: &str) -> Option<String> {
        let known = self.0.iter().any(|name| name.eq_ignore_ascii_case(authority));
        (!known).then(|| {
            format!(
                "connections to {authority} are refused, only those to the member's API server are passed on: {}; next \
                 step: set spec.apiEndpoint of the Cluster to one of these, or start the agent with \
                 --cluster-api-endpoint=https://{authority}",
                self.0.join(", ")
            )
        })
    }
}

/// Why a control plane did not open the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cause must be fixed first: logged once, retried rarely.
    Lasting(String),
    Passing(String),
}

/// From the response to the agent's request.
pub fn refusal(cluster: &str, code: u16, message: &str) -> Refusal {
    let message = if message.is_empty() { "no reason was given" } else { message };
    match code {
        401 | 403 => Refusal::Lasting(format!(
            "the control plane does not permit it ({code}: {message}); next step: grant the verb create on \
             clusters/{TUNNEL} named {cluster} in ClusterRole system:karmada:{cluster}:agent"
        )),
        404 | 405 => Refusal::Lasting(format!("the control plane offers no tunnels ({code}: {message})")),
        400 | 409 => Refusal::Lasting(format!("the control plane refuses it ({code}: {message})")),
        _ => Refusal::Passing(format!("the control plane answered {code}: {message}")),
    }
}

/// The message of a Status, or the text of another response.
pub fn reason(body: &[u8]) -> String {
    let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    readable(status["message"].as_str().map_or(body, str::as_bytes))
}

/// The peer's text for messages and logs: one line of limited length.
pub fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).take(512).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_tunnel_with_a_free_stream_is_preferred() {
        let of = |capacities: &[(u64, usize)]| {
            way(&capacities.iter().map(|&(id, free)| TunnelCapacity { id, free }).collect::<Vec<_>>())
        };
        for (tunnels, expected) in [
            (&[][..], Way::Direct),
            (&[(1, 5)], Way::Tunnels(vec![1])),
            (&[(1, 5), (2, 5), (3, 1)], Way::Tunnels(vec![3, 2, 1])),
            (&[(1, 5), (2, 0), (3, 1)], Way::Tunnels(vec![3, 1])),
            (&[(1, 0), (2, 0)], Way::Full),
        ] {
            assert_eq!(of(tunnels), expected, "{tunnels:?}");
        }
    }

    #[test]
    fn a_restarting_agent_is_expected_back() {
        for (connected, lost, expected) in
            [(0, None, false), (1, None, true), (1, Some(600), true), (0, Some(59), true), (0, Some(60), false)]
        {
            assert_eq!(is_expected(connected, lost.map(Duration::from_secs)), expected, "{connected} {lost:?}");
        }
    }

    #[test]
    fn an_agent_connects_to_its_member_only() {
        let allowed_destinations = Destinations::new("10.96.0.1:443", "https://M1.example:6443/base");
        let bare = Destinations::new("10.96.0.1:443", "");
        for (destinations, authority, allowed) in [
            (&allowed_destinations, "10.96.0.1:443", true),
            (&allowed_destinations, "m1.example:6443", true),
            (&allowed_destinations, "M1.EXAMPLE:6443", true),
            (&allowed_destinations, "kubernetes.default.svc:443", true),
            (&allowed_destinations, "m1.example:443", false),
            (&allowed_destinations, "m1.example", false),
            (&allowed_destinations, "10.96.0.1:10250", false),
            (&allowed_destinations, "169.254.169.254:80", false),
            (&allowed_destinations, "localhost:443", false),
            (&bare, "10.96.0.1:443", true),
            (&bare, "kubernetes.default.svc:443", true),
            (&bare, "m1.example:6443", false),
            (&bare, "", false),
        ] {
            assert_eq!(destinations.refusal(authority).is_none(), allowed, "{authority}");
        }
        let why = bare.refusal("m1.example:6443").expect("a refusal");
        assert!(why.contains("passed on: 10.96.0.1:443, kubernetes.default.svc:443; next step: "), "{why}");
    }

    #[test]
    fn lasting_refusals_are_retried_later() {
        for (code, lasts, text) in [
            (401, true, "verb create on clusters/tunnel named m1"),
            (403, true, "ClusterRole system:karmada:m1:agent"),
            (404, true, "offers no tunnels (404: why)"),
            (405, true, "offers no tunnels"),
            (409, true, "(409: why)"),
            (429, false, "answered 429: why"),
            (500, false, "answered 500"),
            (503, false, "answered 503"),
            (200, false, "answered 200"),
        ] {
            let found = refusal("m1", code, "why");
            let (found_lasts, message) = match &found {
                Refusal::Lasting(message) => (true, message),
                Refusal::Passing(message) => (false, message),
            };
            assert!(found_lasts == lasts && message.contains(text), "{code}: {found:?}");
        }
    }

    #[test]
    fn messages_name_the_cluster_and_the_next_step() {
        let direct = unreachable("m1", "m1.example:6443", "no route");
        assert!(direct.starts_with(
            "cluster \"m1\" is registered in Pull mode, its endpoint m1.example:6443 cannot be reached (no route) and no \
             agent tunnel is connected; next step: "
        ));
        assert!(full("m1", 512).contains("cluster \"m1\" carry 512 connections"));
        assert_eq!(readable(b"a\nb\x1b[0m \xff"), "a b [0m \u{fffd}");
        assert_eq!(readable(&[b'a'; 2000]).len(), 512);
        assert_eq!(reason(br#"{"kind": "Status", "message": "no\nentry"}"#), "no entry");
        assert_eq!(reason(b"404 page not found\n"), "404 page not found");
    }
}
