//! The health of an object.

use serde_json::Value;

use super::unsupported;
use crate::tree::{at, int, list, text};
use crate::{Error, Kind, Operation};

pub fn healthy(object: &Value) -> Result<bool, Error> {
    let kind = Kind::of(object).ok_or_else(|| unsupported(Operation::InterpretHealth, object))?;
    let status = |field: &str| int(object, &["status", field]);
    let observed = status("observedGeneration") == int(object, &["metadata", "generation"]);
    // A template without replicas desires none.
    let replicas = at(object, &["spec", "replicas"]).as_i64().unwrap_or_default();
    Ok(match kind {
        Kind::Deployment => {
            observed
                && status("updatedReplicas") >= replicas
                && status("availableReplicas") >= status("updatedReplicas")
        }
        Kind::StatefulSet => {
            // Pods below the partition keep their version; they must be available too.
            let below_partition = int(object, &["spec", "updateStrategy", "rollingUpdate", "partition"]);
            observed
                && status("updatedReplicas") >= replicas.saturating_sub(below_partition)
                && status("availableReplicas") >= status("updatedReplicas").max(replicas)
        }
        Kind::ReplicaSet => observed && status("availableReplicas") >= replicas,
        Kind::DaemonSet => {
            observed
                && status("updatedNumberScheduled") >= status("desiredNumberScheduled")
                && status("numberAvailable") >= status("updatedNumberScheduled")
        }
        Kind::Service => text(object, &["spec", "type"]) != "LoadBalancer" || has_address(object),
        Kind::Ingress => has_address(object),
        Kind::PersistentVolumeClaim => text(object, &["status", "phase"]) == "Bound",
        Kind::Pod => match text(object, &["status", "phase"]) {
            "Succeeded" => true,
            "Running" => list(object, &["status", "conditions"])
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
            _ => false,
        },
        Kind::PodDisruptionBudget => status("currentHealthy") >= status("desiredHealthy"),
        _ => return Err(unsupported(Operation::InterpretHealth, object)),
    })
}

fn has_address(object: &Value) -> bool {
    list(object, &["status", "loadBalancer", "ingress"])
        .iter()
        .any(|ingress| !text(ingress, &["hostname"]).is_empty() || !text(ingress, &["ip"]).is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn health_follows_the_status() {
        let workload = |status: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        let partitioned = |partition: i64, updated: i64, available: i64| {
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 2},
                "spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}},
                "status": {"observedGeneration": 2, "updatedReplicas": updated, "availableReplicas": available}})
        };
        let of = |api_version: &str, kind: &str, spec: Value, status: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status});
        let daemons = |observed: i64, desired: i64, updated: i64, available: i64| {
            let status = json!({"observedGeneration": observed, "desiredNumberScheduled": desired,
                "updatedNumberScheduled": updated, "numberAvailable": available});
            of("apps/v1", "DaemonSet", json!({}), status)
        };
        let running =
            |condition: Value| of("v1", "Pod", json!({}), json!({"phase": "Running", "conditions": [condition]}));
        let addresses = |address: Value| json!({"loadBalancer": {"ingress": [address]}});
        for (object, expected) in [
            (partitioned(0, 3, 3), true),
            (partitioned(2, 1, 3), true),
            (partitioned(1, 1, 3), false),
            (partitioned(2, 1, 1), false),
            (partitioned(3, 0, 0), false),
            (partitioned(5, 0, 3), true),
            (workload(json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2})), true),
            (workload(json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2})), false),
            (workload(json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1})), false),
            (workload(json!({"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 2})), false),
            (of("apps/v1", "Deployment", json!({}), json!({"observedGeneration": 2})), true),
            (
                of(
                    "apps/v1",
                    "ReplicaSet",
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "availableReplicas": 2}),
                ),
                true,
            ),
            (
                of(
                    "apps/v1",
                    "ReplicaSet",
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "availableReplicas": 1}),
                ),
                false,
            ),
            (
                of(
                    "apps/v1",
                    "ReplicaSet",
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 1, "availableReplicas": 2}),
                ),
                false,
            ),
            (daemons(2, 3, 3, 3), true),
            (daemons(1, 3, 3, 3), false),
            (daemons(2, 3, 2, 3), false),
            (daemons(2, 3, 3, 2), false),
            (of("networking.k8s.io/v1", "Ingress", json!({}), json!({})), false),
            (of("networking.k8s.io/v1", "Ingress", json!({}), addresses(json!({"ip": "1.1.1.1"}))), true),
            (of("networking.k8s.io/v1", "Ingress", json!({}), addresses(json!({"ports": []}))), false),
            (of("v1", "Service", json!({"type": "LoadBalancer"}), addresses(json!({"hostname": "h"}))), true),
            (of("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Bound"})), true),
            (of("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Pending"})), false),
            (
                of(
                    "v1",
                    "Pod",
                    json!({}),
                    json!({"phase": "Pending", "conditions": [{"type": "Ready", "status": "True"}]}),
                ),
                false,
            ),
            (running(json!({"type": "Ready", "status": "True"})), true),
            (running(json!({"type": "Ready", "status": "False"})), false),
            (running(json!({"type": "ContainersReady", "status": "True"})), false),
            (
                of("policy/v1", "PodDisruptionBudget", json!({}), json!({"currentHealthy": 2, "desiredHealthy": 2})),
                true,
            ),
            (
                of("policy/v1", "PodDisruptionBudget", json!({}), json!({"currentHealthy": 1, "desiredHealthy": 2})),
                false,
            ),
            (json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "ClusterIP"}}), true),
            (json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}}), false),
            (json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}), false),
            (json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}), true),
        ] {
            assert_eq!(healthy(&object).unwrap(), expected, "{object}");
        }
        // Kinds without a health interpretation.
        for (api_version, kind) in
            [("batch/v1", "Job"), ("batch/v1", "CronJob"), ("autoscaling/v2", "HorizontalPodAutoscaler")]
        {
            assert!(!crate::Interpreter::default().enabled(api_version, kind, Operation::InterpretHealth), "{kind}");
        }
    }
}
