//! `--pod-running-timeout`: `karmadactl exec`, `attach` and `logs` wait for pods of a member that are not running yet.

use std::process::Stdio;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, ListOptions, Patch, PatchOptions};
use serde_json::json;

use crate::fleet::{Fleet, Ran, until};

const NODES: fn() -> ApiResource = || ApiResource::cluster("", "v1", "Node", "nodes");

/// Pod web waits for a node with the label.
async fn fleet() -> (Fleet, Client) {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    let member = fleet.plane.members().iter().next().expect("a member").client().clone();
    let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "web", "image": "nginx"}]}});
    member.create(&pods, &pod).await.expect("created");
    until("the scheduler has tried the pod", async || {
        let key = ObjectKey::namespaced("default", "web");
        let pod = member.get(&pods, &key).await.expect("there").to_value().expect("a tree");
        pod["status"]["conditions"].is_array().then_some(())
    })
    .await;
    (fleet, member)
}

#[tokio::test]
async fn pods_are_waited_for() {
    let (fleet, member) = fleet().await;
    let late = "timed out after 1 s waiting for pod web to run; it is Pending: ";
    for line in [
        "exec web --pod-running-timeout=1s -s members -C member1 -- true",
        "attach web --pod-running-timeout=1s -s members -C member1",
        "logs web --pod-running-timeout=1s -C member1",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = fleet.karmadactl(&words).await;
        assert!(ran.code == Some(1) && ran.err.starts_with(&format!("error: {late}")), "{line}: {}", ran.err);
    }
    let words = ["logs", "web", "--pod-running-timeout=60s", "-C", "member1"];
    let waiting =
        fleet.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let node = member.list(&NODES(), None, &ListOptions::default()).await.expect("nodes").items.remove(0);
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    member.patch(&NODES(), &node.key(), &label, &PatchOptions::default()).await.expect("the node is labelled");
    let output = tokio::task::spawn_blocking(move || waiting.wait_with_output()).await.expect("no panic");
    // A simulated member has no logs; the command reached the request for them.
    let ran = Ran::from(output.expect("it ends"));
    assert!(!ran.err.contains("timed out"), "{}", ran.err);
}
