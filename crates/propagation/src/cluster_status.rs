//! The status of a cluster: the result of a probe, API enablements, and nodes.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use apimachinery::meta::Condition;
use karmada_api::cluster::v1alpha1::{ApiEnablement, NodeSummary};
use karmada_api::constants::{conditions, reasons};
use serde_json::Value;

use crate::identity::Refusal;

/// The result of a probe of a member's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the member's name and the refusal, as the variant states")]
pub enum Probe {
    /// No client could be built; the text is the reason.
    NoClient(String),
    /// It did not answer.
    Offline,
    /// It answered 401 or 403: the credentials of the control plane are not valid there.
    Denied(u16),
    /// It answered, but not that it is well.
    Unhealthy,
    /// It answered and reported that it is healthy.
    Healthy,
    /// It answered, and its ID could not be written into its Cluster; the text is the reason.
    Unrecorded(String),
    /// It answered, and is not the cluster it should be.
    Refused { cluster: String, refusal: Refusal },
}

impl Probe {
    /// The Ready condition that this probe result implies.
    pub fn condition(&self) -> Condition {
        let (status, reason, message) = match self {
            Self::NoClient(error) => {
                ("False", reasons::STATUS_COLLECTION_FAILED, format!("failed to create a ClusterClient: {error}"))
            }
            Self::Offline => ("False", reasons::CLUSTER_NOT_REACHABLE, "cluster is not reachable".to_owned()),
            Self::Denied(code) => (
                "False",
                reasons::CLUSTER_NOT_REACHABLE,
                format!("cluster is not reachable: its API server answers {code} to Karmada's credentials"),
            ),
            Self::Unhealthy => (
                "False",
                reasons::CLUSTER_NOT_READY,
                "cluster is reachable but health endpoint responded without ok".to_owned(),
            ),
            Self::Healthy => {
                ("True", reasons::CLUSTER_READY, "cluster is healthy and ready to accept workloads".to_owned())
            }
            Self::Unrecorded(error) => {
                ("False", reasons::STATUS_COLLECTION_FAILED, format!("failed to record the ID in spec.id: {error}"))
            }
            Self::Refused { cluster, refusal } => ("False", refusal.reason(), refusal.message(cluster)),
        };
        Condition {
            type_: conditions::READY.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Condition::default()
        }
    }
}

/// Sorts the API enablements as they are stored, and returns whether the list is complete. `failed`: discovery, or
/// that of a group, failed.
pub fn api_enablements(mut found: Vec<ApiEnablement>, failed: bool) -> (Vec<ApiEnablement>, Condition) {
    for enablement in &mut found {
        enablement.resources.retain(|resource| !resource.name.contains('/'));
        enablement.resources.sort_by(|left, right| left.name.cmp(&right.name));
    }
    found.sort_by(|left, right| left.group_version.cmp(&right.group_version));
    let (status, reason, message) = if found.is_empty() {
        let message = "collected empty APIEnablements from the cluster".to_owned();
        ("False", reasons::API_ENABLEMENTS_EMPTY, message)
    } else if failed {
        let message = format!("might collect partial APIEnablements({}) from the cluster", found.len());
        ("False", reasons::API_ENABLEMENTS_PARTIAL, message)
    } else {
        let message = "collected complete APIEnablements from the cluster".to_owned();
        ("True", reasons::API_ENABLEMENTS_COMPLETE, message)
    };
    let condition = Condition {
        type_: conditions::COMPLETE_API_ENABLEMENTS.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    };
    (found, condition)
}

/// A digest of API enablements, for comparisons within this process.
pub fn digest(enablements: &[ApiEnablement]) -> u64 {
    let mut digest = DefaultHasher::new();
    enablements.hash(&mut digest);
    digest.finish()
}

/// How many nodes there are, and how many are ready.
pub fn node_summary<'a>(nodes: impl IntoIterator<Item = &'a Value>) -> NodeSummary {
    let mut summary = NodeSummary::default();
    for node in nodes {
        summary.total_num += 1;
        let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True") {
            summary.ready_num += 1;
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use karmada_api::cluster::v1alpha1::EnabledResource;
    use serde_json::json;

    use super::*;

    #[test]
    fn enablements() {
        let of = |group_version: &str, names: &[&str]| ApiEnablement {
            group_version: group_version.to_owned(),
            resources: names
                .iter()
                .map(|name| EnabledResource { name: (*name).to_owned(), kind: "K".to_owned() })
                .collect(),
        };
        let (sorted, condition) = api_enablements(
            vec![of("v1", &["pods", "pods/log", "events"]), of("apps/v1", &["x"]), of("y/v1", &[])],
            false,
        );
        assert_eq!(sorted, [of("apps/v1", &["x"]), of("v1", &["events", "pods"]), of("y/v1", &[])]);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "Complete"));
        let digests = [&sorted[..], &sorted[1..], &[of("v1", &["events"]), of("pods", &[])]].map(digest);
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] == digest(&sorted.clone()));
        let message = "might collect partial APIEnablements(1) from the cluster";
        assert_eq!(api_enablements(vec![of("v1", &["x"])], true).1.message, message);
        assert_eq!(api_enablements(vec![], true).1.reason, "Empty");
    }

    #[test]
    fn nodes() {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let summary = node_summary(&[ready, json!({})]);
        assert_eq!((summary.total_num, summary.ready_num), (2, 1));
    }
}
