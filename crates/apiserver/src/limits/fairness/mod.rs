//! A fair share of the processor for every user. `flow` bounds how many requests run, and this module shares the
//! processor among running requests, regardless of their cost.
//!
//! The shared resource is processor time, not requests: each connection, and each request on it, runs in *turns*, one
//! for each poll of its task. Turns of a user with little recent usage are unlimited; a heavier user waits in a queue,
//! and the queues take turns (`schedule`, a value without a clock). A request that waits for the store, a webhook or
//! another request holds no seat, so that a request may call the server again.
//!
//! Callers in this process have no connection and never wait here. Clients that have not authenticated a request yet
//! share the turns of their address, the newest first.
//!
//! `writers` serializes the writers of one object instead of letting them race.

mod flow;
pub mod schedule;
mod turns;
pub(crate) mod writers;

use std::sync::Arc;

use apimachinery::status::StatusDetails;
use apimachinery::{Status, StatusReason};
use http::Extensions;
use transport::Identity;

pub use flow::{Flow, Key};
pub use turns::{Clock, InFlight, InTurns, Place, Turns, give_way, in_turns};

use crate::auth::authn::UNAUTHENTICATED;
use crate::limits::budget::Wire;
use crate::request::RequestInfo;

/// Seconds after which a refused client may retry, as in kube-apiserver.
const RETRY_AFTER: i32 = 1;

/// Records the sender of a request; its connection counts for this user from now on. Callers in this process have no
/// connection.
pub(crate) fn identify(extensions: &Extensions, caller: &Identity) {
    let unknown = caller.groups.iter().any(|group| group == UNAUTHENTICATED);
    if let Some(wire) = extensions.get::<Wire>().filter(|_| !unknown) {
        wire.place().identify(&caller.user);
    }
}

/// Counts a request as in flight until the guard is dropped, before anything is done for it. One that is exempt is served
/// beyond the bound, uncounted.
///
/// # Errors
/// 429 when the connection's user has too many requests in flight.
pub(crate) fn admit<B>(place: &Arc<Place>, request: &http::Request<B>) -> Result<Option<InFlight>, Status> {
    match InFlight::begin(place) {
        Ok(held) => Ok(Some(held)),
        Err(_) if is_exempt(&RequestInfo::parse(request.method(), request.uri())) => Ok(None),
        Err(most) => Err(too_many(&place.flow().key, most)),
    }
}

/// Requests that are never refused: health checks, and the Leases of leader elections and heartbeats.
fn is_exempt(info: &RequestInfo) -> bool {
    let health = ["/healthz", "/livez", "/readyz"];
    let probe = !info.is_resource
        && health
            .iter()
            .any(|prefix| info.path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    probe
        || info.is_long_running()
        || (info.group == "coordination.k8s.io" && info.resource == "leases" && !info.name.is_empty())
}

fn too_many(whose: &Key, most: usize) -> Status {
    let whose = match whose {
        Key::User(user) => format!("user {user:?}"),
        Key::Address(_) => "this connection".to_owned(),
    };
    let message = format!(
        "Too many requests, please try again later: {whose} already has {most} requests in flight; send fewer at once"
    );
    let details = StatusDetails { retry_after_seconds: Some(RETRY_AFTER), ..StatusDetails::default() };
    Status::failure(StatusReason::TooManyRequests, message).with_details(details)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn health_leases_and_watches_are_never_refused() {
        for (url, exempt) in [
            ("/healthz", true),
            ("/readyz/etcd", true),
            ("/readyzz", false),
            ("/metrics", false),
            ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b", true),
            ("/apis/coordination.k8s.io/v1/namespaces/a/leases", false),
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/pods", false),
            ("/api/v1/namespaces/livez", false),
        ] {
            let info = RequestInfo::parse(&Method::GET, &url.parse().expect("a URL"));
            assert_eq!(is_exempt(&info), exempt, "{url}");
        }
    }
}
