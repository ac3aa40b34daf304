//! From a Deployment to running pods.

use std::time::Duration;

use serde_json::json;
use simulator::MemberOptions;

use crate::harness::{column, create, deployment, get, list, member, patch, settle};

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_running_pods() {
    let member = member(MemberOptions::new("m1")).await;
    create(&member, deployment("web", 3, "100m")).await;
    settle().await;
    let pods = list(&member, "Pod").await;
    assert_eq!(column(&pods, "/status/phase"), "Running Running Running");
    assert_eq!(column(&pods, "/spec/nodeName"), "m1-node-1 m1-node-1 m1-node-2");
    assert_eq!(column(&pods, "/status/podIP"), "10.0.0.1 10.0.0.2 10.0.0.3");
    let live = get(&member, "Deployment", "web").await;
    assert_eq!(
        live["status"]["conditions"].as_array().map(|all| column(all, "/reason")),
        Some("MinimumReplicasAvailable NewReplicaSetAvailable".into())
    );
    assert_eq!(live["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(live["status"][field], 3, "{field}");
    }
    assert_eq!((&live["status"]["observedGeneration"], live["status"].get("unavailableReplicas")), (&json!(1), None));
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_before_they_are_ready() {
    let member = member(MemberOptions { pod_start: Duration::from_secs(10), ..MemberOptions::new("m1") }).await;
    create(&member, deployment("web", 2, "100m")).await;
    settle().await;
    let pods = list(&member, "Pod").await;
    assert_eq!(
        (column(&pods, "/status/phase"), column(&pods, "/spec/nodeName")),
        ("Pending Pending".into(), "m1-node-1 m1-node-2".into())
    );
    assert_eq!(get(&member, "Deployment", "web").await["status"]["unavailableReplicas"], 2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(column(&list(&member, "Pod").await, "/status/phase"), "Running Running");
    assert_eq!(get(&member, "Deployment", "web").await["status"]["availableReplicas"], 2);
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_capacity() {
    let member = member(MemberOptions::new("m1")).await;
    create(&member, deployment("big", 3, "3")).await;
    settle().await;
    let pods = list(&member, "Pod").await;
    assert_eq!(column(&pods, "/status/phase"), "Pending Running Running");
    let waiting = pods.iter().find(|pod| pod["status"]["phase"] == "Pending").expect("one waits");
    let scheduled = &waiting["status"]["conditions"][0];
    assert_eq!(scheduled["reason"], "Unschedulable");
    assert_eq!(scheduled["message"], "0/2 nodes are available: 2 Insufficient cpu.");
    patch(&member, "Node", "m1-node-1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    settle().await;
    assert_eq!(column(&list(&member, "Pod").await, "/status/phase"), "Pending Running Running");
    patch(&member, "Deployment", "big", json!({"spec": {"replicas": 2}})).await;
    settle().await;
    assert_eq!(column(&list(&member, "Pod").await, "/status/phase"), "Running Running");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_replaces_the_pods_step_by_step() {
    let options = MemberOptions { pod_start: Duration::from_secs(2), ..MemberOptions::new("m1") };
    let member = member(options).await;
    create(&member, deployment("web", 4, "100m")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}});
    patch(&member, "Deployment", "web", image).await;
    let mut least = i64::MAX;
    let mut most = 0;
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let pods = list(&member, "Pod").await;
        most = most.max(pods.len());
        least = least.min(pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count() as i64);
    }
    assert_eq!((least, most), (3, 5), "25% of 4 may be missing, 25% may be too many");
    let pods = list(&member, "Pod").await;
    assert_eq!(column(&pods, "/spec/containers/0/image"), "nginx:2 nginx:2 nginx:2 nginx:2");
    assert_eq!(column(&list(&member, "ReplicaSet").await, "/spec/replicas"), "0 4");
    let live = get(&member, "Deployment", "web").await;
    assert_eq!(live["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(live["status"]["updatedReplicas"], 4);
    member.stop().await;
}
