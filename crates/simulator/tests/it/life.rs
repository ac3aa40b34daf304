//! Effects beyond an object's own controller: services select pods, dependents are deleted with their owners, nodes are
//! removed, a member restarts.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use serde_json::json;
use simulator::MemberOptions;
use storage::memory::MemoryStore;
use world::World;

use crate::harness::{column, create, delete, deployment, get, list, member, on, patch, resource, settle};

#[tokio::test(start_paused = true)]
async fn a_service_finds_its_pods() {
    let member = member(MemberOptions::new("m1")).await;
    create(&member, deployment("web", 2, "100m")).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    let service = create(&member, service).await;
    assert_eq!(service["spec"]["clusterIP"], "10.96.1.1", "the first addresses are reserved for explicit requests");
    settle().await;
    let slices = list(&member, "EndpointSlice").await;
    assert_eq!(column(&slices, "/metadata/labels/kubernetes.io~1service-name"), "web");
    let endpoints = slices[0]["endpoints"].as_array().expect("endpoints");
    assert_eq!(column(endpoints, "/conditions/ready"), "true true");
    assert_eq!(slices[0]["ports"][0]["port"], 8080);
    patch(&member, "Deployment", "web", json!({"spec": {"replicas": 1}})).await;
    settle().await;
    let slices = list(&member, "EndpointSlice").await;
    assert_eq!(slices[0]["endpoints"].as_array().map(Vec::len), Some(1));
    delete(&member, "Service", "web").await;
    settle().await;
    assert!(list(&member, "EndpointSlice").await.is_empty());
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_deleted_with_their_deployment() {
    let member = member(MemberOptions::new("m1")).await;
    create(&member, deployment("web", 2, "100m")).await;
    settle().await;
    delete(&member, "Deployment", "web").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((list(&member, "ReplicaSet").await.len(), list(&member, "Pod").await.len()), (0, 0));
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_content_of_a_namespace_is_deleted_with_it() {
    let member = member(MemberOptions::new("m1")).await;
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    member.client().create(&namespaces, &namespace).await.expect("a namespace");
    let mut web = deployment("web", 2, "100m");
    web["metadata"]["namespace"] = "shop".into();
    create(&member, web).await;
    settle().await;
    assert_eq!(list(&member, "Pod").await.len(), 2);
    let key = ObjectKey::cluster("shop");
    member.client().delete(&namespaces, &key, &client::DeleteOptions::background()).await.expect("a deletion");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(list(&member, "Pod").await.is_empty());
    assert!(member.client().get_opt(&namespaces, &key).await.expect("an answer").is_none());
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_removed_node_are_recreated_elsewhere() {
    let member = member(MemberOptions::new("m1")).await;
    create(&member, deployment("web", 4, "100m")).await;
    settle().await;
    patch(&member, "Node", "m1-node-1", json!({"spec": {"unschedulable": true}})).await;
    settle().await;
    assert_eq!(column(&list(&member, "Pod").await, "/spec/nodeName"), "m1-node-1 m1-node-1 m1-node-2 m1-node-2");
    delete(&member, "Node", "m1-node-1").await;
    settle().await;
    assert_eq!(column(&list(&member, "Pod").await, "/spec/nodeName"), "m1-node-2 m1-node-2 m1-node-2 m1-node-2");
    assert_eq!(get(&member, "Deployment", "web").await["status"]["availableReplicas"], 4);
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_continues_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 3);
    let options = MemberOptions { pod_start: Duration::from_secs(20), ..MemberOptions::new("m1") };
    let first = on(Arc::clone(&store), options.clone(), world.clone()).await;
    create(&first, deployment("web", 2, "100m")).await;
    settle().await;
    let before = column(&list(&first, "Pod").await, "/metadata/uid");
    first.stop().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let second = on(store, options, world).await;
    settle().await;
    let pods = list(&second, "Pod").await;
    assert_eq!((column(&pods, "/metadata/uid"), column(&pods, "/status/phase")), (before, "Running Running".into()));
    let written = second.client().request_counts();
    settle().await;
    assert_eq!(written.len(), second.client().request_counts().len(), "nothing is left to write");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_is_scheduled_runs_and_ends_when_deleted() {
    let member = member(MemberOptions::new("m1")).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "busybox"}]}});
    create(&member, pod).await;
    settle().await;
    let one = get(&member, "Pod", "one").await;
    let expected = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(one["status"]["conditions"][0]["message"], expected);
    patch(&member, "Node", "m1-node-2", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    settle().await;
    let one = get(&member, "Pod", "one").await;
    assert_eq!((&one["status"]["phase"], &one["spec"]["nodeName"]), (&json!("Running"), &json!("m1-node-2")));
    assert_eq!(one["status"]["hostIP"], "172.18.0.3");
    delete(&member, "Pod", "one").await;
    settle().await;
    let gone = member.client().get_opt(&resource("Pod"), &crate::harness::key("Pod", "one")).await.expect("an answer");
    assert!(gone.is_none());
    member.stop().await;
}
