//! The identity of the cluster at a member's endpoint, and whether the control plane may write to it.
//!
//! A cluster is identified by the UID of its namespace kube-system. `spec.id` records that UID when the cluster joins.

use apimachinery::meta::Time;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::reasons;

/// Another cluster of the same control plane.
#[derive(Clone, Debug)]
pub struct Other<'a> {
    /// The Cluster object.
    pub cluster: &'a Cluster,
    /// The UID read from it in this process, if any.
    pub read: Option<String>,
}

/// Why writes to a cluster are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are UIDs and the name of the other cluster, as the variants state")]
pub enum Refusal {
    /// The endpoint leads back to this control plane.
    ControlPlane { uid: String },
    /// The endpoint leads to a cluster that is joined under another name.
    JoinedTwice { uid: String, other: String },
    /// Another cluster than the recorded one answers.
    Replaced { uid: String, recorded: String },
}

impl Refusal {
    /// The reason of the Ready condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ControlPlane { .. } => reasons::CLUSTER_IS_CONTROL_PLANE,
            Self::JoinedTwice { .. } => reasons::CLUSTER_JOINED_TWICE,
            Self::Replaced { .. } => reasons::CLUSTER_REPLACED,
        }
    }

    /// For the user: the cluster, the reason, the next step.
    pub fn message(&self, cluster: &str) -> String {
        match self {
            Self::ControlPlane { uid } => format!(
                "cluster {cluster} is this control plane itself (both have ID {uid}, the UID of namespace kube-system); \
                 nothing is written to it and nothing is deleted in it; remove it with: karmadactl unjoin {cluster}"
            ),
            Self::JoinedTwice { uid, other } => format!(
                "cluster {cluster} is already joined as {other} (both have ID {uid}, the UID of namespace kube-system); \
                 nothing is written through {cluster} and nothing is deleted; remove one of the two with: karmadactl \
                 unjoin {cluster}"
            ),
            Self::Replaced { uid, recorded } => format!(
                "another cluster answers for {cluster}: its ID (the UID of namespace kube-system) is {uid}, {recorded} \
                 was recorded; nothing is written to it and nothing is deleted in it; correct the endpoint and the \
                 credentials of {cluster}, or accept the new cluster with: kubectl patch cluster {cluster} --type merge \
                 -p '{{\"spec\":{{\"id\":\"{uid}\"}}}}'"
            ),
        }
    }
}

/// Checks the cluster that answered with `uid` for `cluster`. `own` is the UID of the control plane, if known.
///
/// Of two clusters with the same UID, the one that has it recorded stays, then the older one.
///
/// # Errors
/// Why writes to it are refused.
pub fn check<'a>(
    uid: &str,
    cluster: &Cluster,
    own: Option<&str>,
    others: impl IntoIterator<Item = Other<'a>>,
) -> Result<(), Refusal> {
    if own == Some(uid) {
        return Err(Refusal::ControlPlane { uid: uid.to_owned() });
    }
    let recorded = cluster.spec.id.as_str();
    if recorded != uid && is_uid(recorded) {
        return Err(Refusal::Replaced { uid: uid.to_owned(), recorded: recorded.to_owned() });
    }
    let own_rank = rank(cluster, uid);
    let first = others
        .into_iter()
        .filter(|other| other.cluster.metadata.name != cluster.metadata.name)
        .filter(|other| other.cluster.spec.id == uid || other.read.as_deref() == Some(uid))
        .map(|other| rank(other.cluster, uid))
        .min();
    match first {
        Some(first) if first < own_rank => {
            Err(Refusal::JoinedTwice { uid: uid.to_owned(), other: first.name.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Lower ranks keep the UID.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    is_unrecorded: bool,
    created: Option<Time>,
    name: &'a str,
}

fn rank<'a>(cluster: &'a Cluster, uid: &str) -> Rank<'a> {
    let metadata = &cluster.metadata;
    Rank { is_unrecorded: cluster.spec.id != uid, created: metadata.creation_timestamp, name: &metadata.name }
}

/// Whether a recorded ID is a UID. Other IDs were set manually and identify no namespace.
pub fn is_uid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let is_hexadecimal = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(is_hexadecimal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "aaaaaaaa-0000-4000-8000-000000000000";
    const B: &str = "bbbbbbbb-0000-4000-8000-000000000000";

    fn cluster(name: &str, id: &str, second: u32) -> Cluster {
        let created = format!("2026-01-01T00:00:{second:02}Z");
        serde_json::from_value(json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"id": id}}))
            .expect("a cluster")
    }

    #[test]
    fn which_clusters_are_written_to() {
        let (recorded, by_hand, named) = (cluster("m1", A, 5), cluster("m1", "", 5), cluster("m1", "edge-7", 5));
        let read = |uid: &str| Some(uid.to_owned());
        for (what, cluster, own, others, expected) in [
            ("the recorded one", &recorded, Some(B), vec![], "ok"),
            ("the control plane's ID is unknown", &recorded, None, vec![], "ok"),
            ("nothing recorded", &by_hand, Some(B), vec![(cluster("m2", B, 1), None)], "ok"),
            ("an ID that is no UID", &named, Some(B), vec![(cluster("m2", B, 1), None)], "ok"),
            ("the control plane itself", &recorded, Some(A), vec![], "ClusterIsControlPlane"),
            ("the control plane itself, by hand", &by_hand, Some(A), vec![], "ClusterIsControlPlane"),
            ("another one answers", &cluster("m1", B, 5), None, vec![], "ClusterReplaced"),
            ("recorded twice, the other is older", &recorded, None, vec![(cluster("m2", A, 1), None)], "m2"),
            ("recorded twice, the other is younger", &recorded, None, vec![(cluster("m2", A, 9), None)], "ok"),
            ("as old", &recorded, None, vec![(cluster("m0", A, 5), None), (cluster("m2", A, 5), None)], "m0"),
            ("recorded elsewhere", &by_hand, None, vec![(cluster("m2", A, 9), None)], "m2"),
            ("recorded here, read elsewhere", &recorded, None, vec![(cluster("m2", "", 1), read(A))], "ok"),
            ("read twice, the other is older", &by_hand, None, vec![(cluster("m2", "", 1), read(A))], "m2"),
            ("read twice, the other is younger", &by_hand, None, vec![(cluster("m2", "", 9), read(A))], "ok"),
            ("itself", &recorded, None, vec![(cluster("m1", A, 5), read(A))], "ok"),
        ] {
            let others = others.iter().map(|(cluster, read)| Other { cluster, read: read.clone() });
            let found = match check(A, cluster, own, others) {
                Ok(()) => "ok".to_owned(),
                Err(Refusal::JoinedTwice { other, .. }) => other,
                Err(refusal) => refusal.reason().to_owned(),
            };
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn refusals_name_both_clusters_and_the_next_step() {
        for (refusal, parts) in [
            (Refusal::ControlPlane { uid: A.into() }, ["this control plane itself", A, "karmadactl unjoin m1"]),
            (Refusal::JoinedTwice { uid: A.into(), other: "m2".into() }, ["joined as m2", A, "karmadactl unjoin m1"]),
            (
                Refusal::Replaced { uid: A.into(), recorded: B.into() },
                [B, "kubectl patch cluster m1", "'{\"spec\":{\"id\":\"aaaaaaaa-0000-4000-8000-000000000000\"}}'"],
            ),
        ] {
            let message = refusal.message("m1");
            for part in parts {
                assert!(message.contains(part), "{part}\nin\n{message}");
            }
        }
    }

    #[test]
    fn uids_are_recognized() {
        for (text, expected) in
            [(A, true), ("", false), ("edge-7", false), ("aaaaaaaa-0000-4000-8000-00000000000g", false)]
        {
            assert_eq!(is_uid(text), expected, "{text}");
        }
    }
}
