//! Reservation of a name: the agent's ClusterRole records which cluster registers under it, by the UID of its Namespace
//! `kube-system`, before the Cluster exists.

use client::Client;
use jiff::{SignedDuration, Timestamp};
use karmada_api::agents::Grant;
use serde_json::{Value, json};

use super::key_of;
use crate::error::Error;
use crate::join::decoded;

const ID: &str = "karmada.io/registering-cluster-id";
const SINCE: &str = "karmada.io/registering-since";
/// A registration ends within the timeouts of its steps, far less than this by default. Afterwards another cluster may
/// have the name, unless the agent has created the Cluster.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Each attempt after the first has lost against another writer of the ClusterRole.
const ATTEMPTS: u32 = 5;

/// The holder of a name.
#[derive(Debug, PartialEq, Eq)]
enum Holder<'a> {
    This,
    /// No cluster, or one that did not finish within [`LIFETIME`].
    Free,
    Other {
        id: &'a str,
        since: Timestamp,
    },
}

fn holder<'a>(role: &'a Value, id: &str, now: Timestamp) -> Holder<'a> {
    let annotations = &role["metadata"]["annotations"];
    let since = annotations[SINCE].as_str().and_then(|since| since.parse::<Timestamp>().ok());
    match (annotations[ID].as_str(), since) {
        (Some(holder_id), _) if holder_id == id => Holder::This,
        (Some(holder_id), Some(since)) if now.duration_since(since) < LIFETIME => {
            Holder::Other { id: holder_id, since }
        }
        _ => Holder::Free,
    }
}

/// Writes the agent's ClusterRole with the ID of the cluster that registers.
///
/// # Errors
/// Another cluster registers under the name.
pub async fn reserve(generator: &Client, role: &Grant, name: &str, id: &str, now: Timestamp) -> Result<(), Error> {
    let (resource, key) = (&role.resource, key_of(&role.object));
    let mut desired = role.object.clone();
    desired["metadata"]["annotations"] = json!({ID: id, SINCE: now.to_string()});
    let failed = |verb: &str| Error::client(format!("{verb} {} {key}", resource.plural));
    for _ in 0..ATTEMPTS {
        match generator.create(resource, &desired).await {
            Err(error) if error.is_already_exists() => {}
            other => return other.map(drop).map_err(failed("create")),
        }
        let Some(live) = generator.get_opt(resource, &key).await.map_err(failed("get"))? else { continue };
        let live = decoded(&live)?;
        if let Holder::Other { id: other, since } = holder(&live, id, now) {
            return Err(Error::message(format!(
                "the cluster with ID {other} registers as {name} since {since}, and this cluster has ID {id}; choose another \
                 --cluster-name, or, if that registration was given up, delete {} {key} of the control plane",
                role.object["kind"].as_str().unwrap_or_default()
            )));
        }
        let mut replacement = desired.clone();
        replacement["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        match generator.update(resource, &replacement).await {
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            other => return other.map(drop).map_err(failed("update")),
        }
    }
    Err(Error::message(format!("{} {key} is written by others all the time; run the command again", resource.plural)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cluster_has_the_name_for_an_hour() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
        let role = |id: &str, since: &str| json!({"metadata": {"annotations": {ID: id, SINCE: since}}});
        let since = "2026-11-20T09:30:00Z".parse().expect("a time");
        for (role, expected) in [
            (json!({"metadata": {}}), Holder::Free),
            (role("a", "2026-11-20T09:30:00Z"), Holder::This),
            (role("a", "2020-11-20T09:30:00Z"), Holder::This),
            (role("b", "2026-11-20T09:30:00Z"), Holder::Other { id: "b", since }),
            (role("b", "2026-11-20T09:00:00Z"), Holder::Free),
            (role("b", "not a time"), Holder::Free),
        ] {
            assert_eq!(holder(&role, "a", now), expected, "{role}");
        }
    }
}
