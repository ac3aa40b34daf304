//! Validation of status updates: negative counts, parts greater than the whole, unknown phases.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

mod jobs;
mod parts;
mod pods;

pub(super) use parts::node_amounts;

const NEGATIVE: &str = "must be greater than or equal to 0";

/// The counts of a kind, in order of validation; which count must not exceed which other one, with the message.
struct Counts {
    fields: &'static [&'static str],
    at_most: &'static [(&'static str, &'static str, &'static str)],
}

const TOTAL: &str = "cannot be greater than status.replicas";

fn counts(group: &str, kind: &str) -> Option<Counts> {
    Some(match (group, kind) {
        ("apps", "Deployment") => Counts {
            fields: &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "collisionCount",
            ],
            at_most: &[
                ("updatedReplicas", "replicas", TOTAL),
                ("readyReplicas", "replicas", TOTAL),
                ("availableReplicas", "replicas", TOTAL),
                ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"),
            ],
        },
        ("apps", "ReplicaSet") | ("", "ReplicationController") => Counts {
            fields: &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
            at_most: &[
                ("fullyLabeledReplicas", "replicas", TOTAL),
                ("readyReplicas", "replicas", TOTAL),
                ("availableReplicas", "replicas", TOTAL),
                ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"),
            ],
        },
        ("apps", "StatefulSet") => Counts {
            fields: &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            at_most: &[
                ("readyReplicas", "replicas", TOTAL),
                ("currentReplicas", "replicas", TOTAL),
                ("updatedReplicas", "replicas", TOTAL),
                ("availableReplicas", "replicas", TOTAL),
                ("availableReplicas", "readyReplicas", "cannot be greater than status.readyReplicas"),
            ],
        },
        ("apps", "DaemonSet") => Counts {
            fields: &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            at_most: &[],
        },
        ("autoscaling", "HorizontalPodAutoscaler") => {
            Counts { fields: &["currentReplicas", "desiredReplicas"], at_most: &[] }
        }
        ("policy", "PodDisruptionBudget") => {
            Counts { fields: &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"], at_most: &[] }
        }
        _ => return None,
    })
}

/// The errors of a write to `/status`.
pub(crate) fn update(group: &str, kind: &str, old: &Value, new: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let (was, is) = (&old["status"], &new["status"]);
    let path = Path::new("status");
    if let Some(counts) = counts(group, kind) {
        let number = |field: &str| is[field].as_i64().unwrap_or(0);
        for field in counts.fields.iter().filter(|field| number(field) < 0) {
            errors.push(Error::invalid(&path.child(field), number(field), NEGATIVE));
        }
        for (part, whole, why) in counts.at_most {
            if number(part) > number(whole) {
                errors.push(Error::invalid(&path.child(part), number(part), *why));
            }
        }
        if counts.fields.contains(&"collisionCount")
            && number("collisionCount") < was["collisionCount"].as_i64().unwrap_or(0)
        {
            let at = path.child("collisionCount");
            errors.push(Error::invalid(&at, number("collisionCount"), "cannot be decremented"));
        }
    }
    match (group, kind) {
        ("", "Namespace") => namespace(new, &mut errors),
        ("", "Pod") => pods::update(old, new, &mut errors),
        ("", "PersistentVolumeClaim") => parts::claim(new, &mut errors),
        ("", "ResourceQuota") => parts::quota(new, &mut errors),
        ("", "Node") => parts::node(new, &mut errors),
        ("", "Service") => parts::balancer(true, new, &mut errors),
        ("networking.k8s.io", "Ingress") => parts::balancer(false, new, &mut errors),
        ("batch", "Job") => jobs::update(old, new, &mut errors),
        ("certificates.k8s.io", "CertificateSigningRequest") => parts::certificate_request(old, new, &mut errors),
        _ => {}
    }
    errors
}

/// Upstream's path has the field in upper case.
fn namespace(namespace: &Value, errors: &mut ErrorList) {
    let phase = namespace["status"]["phase"].as_str().unwrap_or_default();
    let path = Path::new("status").child("Phase");
    let (expected_phase, detail) = if namespace["metadata"]["deletionTimestamp"].is_string() {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    if phase != expected_phase {
        errors.push(Error::invalid(&path, phase, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_validated() {
        for (group, kind, old, new, expected) in [
            ("apps", "Deployment", json!({}), json!({"replicas": 2, "readyReplicas": 1}), ""),
            (
                "apps",
                "Deployment",
                json!({"collisionCount": 2}),
                json!({"replicas": -1, "readyReplicas": 1, "collisionCount": 1}),
                "status.replicas: Invalid value: -1: must be greater than or equal to 0\n\
                 status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas\n\
                 status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas\n\
                 status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas\n\
                 status.collisionCount: Invalid value: 1: cannot be decremented\n",
            ),
            (
                "apps",
                "StatefulSet",
                json!({}),
                json!({"replicas": 3, "availableReplicas": 2}),
                "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas\n",
            ),
            (
                "policy",
                "PodDisruptionBudget",
                json!({}),
                json!({"expectedPods": -1}),
                "status.expectedPods: Invalid value: -1: must be greater than or equal to 0\n",
            ),
            (
                "",
                "Namespace",
                json!({}),
                json!({"phase": "Terminating"}),
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty\n",
            ),
            (
                "",
                "Pod",
                json!({"qosClass": "BestEffort"}),
                json!({"qosClass": "Burstable"}),
                "status.qosClass: Invalid value: \"Burstable\": field is immutable\n",
            ),
            ("", "Node", json!({}), json!({"phase": "x"}), ""),
        ] {
            let found = update(group, kind, &json!({"status": old}), &json!({"status": new}));
            assert_eq!(found.iter().map(|error| format!("{error}\n")).collect::<String>(), expected, "{kind}");
        }
    }
}
