//! Accurate estimates, requested without a socket, less the assumed replicas: quotas and nodes are assigned once.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use controller_runtime::InformerSet;
use estimator::{Estimators, LocalMembers, MemberEstimator};
use scheduler::{Gates, Options};
use scheduling::accurate::Switches;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Plane, capacity, key};

/// The control plane's own nodes and quotas serve as the member's.
struct Own(MemberEstimator);

impl LocalMembers for Own {
    fn member(&self, cluster: &str) -> Option<MemberEstimator> {
        (cluster == "m1").then(|| self.0.clone())
    }
}

async fn node(plane: &Plane, cpu: &str) {
    let nodes = ApiResource::cluster("", "v1", "Node", "nodes");
    plane.create(&nodes, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})).await;
    let status = json!({"status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}});
    plane.merge(&nodes, &ObjectKey::cluster("n1"), status, PatchOptions::status()).await;
}

async fn quota(plane: &Plane, cpu: &str) {
    let quotas = ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "demo"},
        "spec": {"hard": {"cpu": cpu}}});
    plane.create(&quotas, quota).await;
    let status = json!({"status": {"hard": {"cpu": cpu}, "used": {"cpu": "0"}}});
    plane.merge(&quotas, &key("q"), status, PatchOptions::status()).await;
}

/// A scheduler with the member's estimator and the options of upstream's tests of assumptions.
async fn with_estimator(plane: &mut Plane, protected: bool) -> CancellationToken {
    let stop = CancellationToken::new();
    let informers = InformerSet::until(plane.client.clone(), plane.world.clone(), stop.clone());
    let switches = Switches { quotas: true, assumed: protected };
    let member = MemberEstimator::follow_standalone("m1", &informers, switches);
    assert!(member.synced().await);
    let estimators = Estimators::new(Some(Arc::new(Own(member))), None, Duration::from_secs(3));
    plane.restart_with(Options {
        estimators: Some(estimators),
        overcommit_protection: protected,
        gates: Gates { multiple_pod_templates: true, ..Gates::default() },
        ..Options::default()
    });
    stop
}

fn once() -> Value {
    json!({
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

/// A workload of two components that needs 150m in all.
fn flink() -> Value {
    let component = |name: &str, cpu: &str| json!({"name": name, "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
    json!({"replicas": 0, "components": [component("jobmanager", "50m"), component("taskmanager", "100m")], "placement": once()})
}

fn deployment() -> Value {
    json!({"replicas": 1, "replicaRequirements": {"namespace": "demo", "resourceRequest": {"cpu": "200m"}}, "placement": once()})
}

/// How many of seven are placed, one after the other, and the messages of the last one and of a Deployment after it.
async fn placed(plane: &Plane) -> (usize, String, String) {
    let mut placed = 0;
    for index in 0..7 {
        let name = key(&format!("flink-{index}"));
        plane.bind(&name, flink()).await;
        plane.settle().await;
        placed += usize::from(plane.state(&name).await == "m1:0 | True Success");
    }
    plane.bind(&key("web"), deployment()).await;
    plane.settle().await;
    (placed, plane.state(&key("flink-6")).await, plane.state(&key("web")).await)
}

#[tokio::test(start_paused = true)]
async fn assumed_replicas_use_quota_and_node_capacity() {
    let refused = " | False SchedulerError: failed to select clusters: no enough resource when selecting 1 clusters";
    for (node_cpu, quota_cpu) in [("100", Some("1")), ("1", None)] {
        for protected in [true, false] {
            let mut plane = Plane::start().await;
            plane.join("m1", json!({"status": {"resourceSummary": capacity(100)}})).await;
            node(&plane, node_cpu).await;
            if let Some(cpu) = quota_cpu {
                quota(&plane, cpu).await;
            }
            let stop = with_estimator(&mut plane, protected).await;
            let found = placed(&plane).await;
            let expected = if protected {
                (6, refused.to_owned(), refused.to_owned())
            } else {
                (7, "m1:0 | True Success".to_owned(), "m1:1 | True Success".to_owned())
            };
            assert_eq!(found, expected, "node {node_cpu}, quota {quota_cpu:?}, protected {protected}");
            stop.cancel();
            plane.shutdown();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_exceeded_quota_leaves_no_clusters() {
    let mut plane = Plane::start().await;
    plane.join("m1", json!({"status": {"resourceSummary": capacity(100)}})).await;
    node(&plane, "100").await;
    quota(&plane, "30m").await;
    let stop = with_estimator(&mut plane, false).await;
    let divided = json!({"replicaScheduling": once()["replicaScheduling"]});
    let of = |replicas: i64| {
        json!({"replicas": replicas, "placement": divided,
        "replicaRequirements": {"namespace": "demo", "resourceRequest": {"cpu": "10m"}}})
    };
    plane.bind(&key("three"), of(3)).await;
    plane.expect(&key("three"), "m1:3 | True Success").await;
    plane.bind(&key("five"), of(5)).await;
    let expected = " | False Unschedulable: failed to assign replicas: failed to scale up: Clusters available replicas 3 \
                    are not enough to schedule.";
    plane.expect(&key("five"), expected).await;
    stop.cancel();
    plane.shutdown();
}
