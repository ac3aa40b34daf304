//! `karmadactl explain-placement` and `schedule --dry-run`, run as the user runs them.

use client::Client;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use serde_json::{Value, json};

use crate::fleet::{Fleet, until};

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}}})
}

fn policy(placement: &Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement}})
}

async fn create(client: &Client, path: &str, object: &Value) {
    client.request(http::Method::POST, path, Some(object.clone())).await.expect("created");
}

#[tokio::test]
async fn reasons_and_forecasts() {
    let fleet = Fleet::start(&["m1", "m2"]).await;
    let control = fleet.plane.client();
    until("the members report what they serve", async || {
        let list = control.list(&Cluster::api_resource(), None, &client::ListOptions::default()).await.ok()?;
        let ready = |object: &std::sync::Arc<apimachinery::Object>| {
            let cluster: Cluster = object.decode().expect("a cluster");
            cluster.status.resource_summary.is_some() && !cluster.status.api_enablements.is_empty()
        };
        list.items.iter().all(ready).then_some(())
    })
    .await;
    fleet.karmadactl(&["cordon", "m2"]).await.ok();

    // Before anything is there.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("web.yaml");
    let divided =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let text = |object: &Value| format!("---\n{}", apimachinery::yaml::to_string(object));
    std::fs::write(&file, text(&policy(&divided)) + &text(&deployment("web"))).expect("a file");
    let file = file.to_str().expect("text");
    let asked = fleet.karmadactl(&["schedule", "--dry-run", "-f", file]).await.ok();
    let rows: Vec<Vec<&str>> =
        asked.lines().map(|line| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
    assert_eq!(rows[0], ["WORKLOAD", "POLICY", "NOW", "THEN"]);
    assert_eq!(rows[1], ["Deployment default/web", "PropagationPolicy default/p", "-", "m1:4"]);
    let refused = fleet.karmadactl(&["schedule", "-f", file]).await;
    assert_eq!(refused.code, Some(1));

    create(control, "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", &policy(&divided)).await;
    create(control, "/apis/apps/v1/namespaces/default/deployments", &deployment("web")).await;
    let explained = until("web is scheduled", async || {
        let ran = fleet.karmadactl(&["explain-placement", "web", "-o", "json"]).await;
        let value: Value = serde_json::from_str(&ran.out).ok()?;
        let now = fleet.karmadactl(&["explain-placement", "web", "--kind", "Deployment"]).await.ok();
        now.contains("Now:       m1:4").then_some(value)
    })
    .await;
    assert_eq!(explained["result"], json!([{"name": "m1", "replicas": 4}]));
    let why = |index: usize| &explained["clusters"][index];
    assert_eq!((&why(0)["name"], &why(0)["chosen"]), (&json!("m1"), &json!(true)));
    assert_eq!(why(1)["rejectedBy"]["plugin"], "TaintToleration");
    assert_eq!(why(1)["rejectedBy"]["field"], "cluster: spec.taints[0]");

    // As people read it. How much is free depends on what the members run besides.
    let read = fleet.karmadactl(&["explain-placement", "web"]).await.ok();
    let (decided, recorded) = read.split_once("\n\nRecorded:  ").expect("two parts");
    let lines: Vec<&str> = decided.lines().collect();
    assert_eq!(
        lines[..8],
        [
            "Workload:  Deployment default/web",
            "Now:       m1:4",
            "Schedule:  not needed",
            "Result:    m1:4",
            "Condition: Scheduled=True Success: Binding has been scheduled successfully.",
            "Then:      nothing more, until something changes",
            "",
            "CLUSTER   REPLICAS   SCORE   FREE   AVAILABLE   TIER   WHY",
        ]
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (chosen, refused) = (words(lines[8]), words(lines[9]));
    assert_eq!([&chosen[..3], &chosen[5..]].concat(), ["m1", "4", "100", "0", "chosen"]);
    assert_eq!(refused[..7], ["m2", "-", "-", "-", "-", "-", "TaintToleration:"]);
    assert!(lines[9].ends_with("(cluster: spec.taints[0])"), "{}", lines[9]);
    assert!(recorded.contains("\n  m1: 4 replicas, room for "), "{recorded}");
    assert!(recorded.contains("\n  1 x TaintToleration: "), "{recorded}");

    // What if its only cluster vanished; then from a file, without a server.
    let gone = fleet.karmadactl(&["schedule", "--dry-run", "--without-cluster", "m1"]).await.ok();
    assert!(gone.contains("0/1 clusters are available: 1 cluster(s) had untolerated taint"), "{gone}");
    let saved = directory.path().join("problem.yaml");
    let saved = saved.to_str().expect("text");
    let live = fleet.karmadactl(&["explain-placement", "web", "--save", saved]).await.ok();
    let offline = fleet.karmadactl(&["explain-placement", "-f", saved]).await.ok();
    assert_eq!(offline, live);
    let unknown = fleet.karmadactl(&["explain-placement", "nothing"]).await;
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (
            Some(1),
            "error: no binding belongs to workload \"nothing\" in namespace \"default\": no policy selects it, or it does not exist\n"
        )
    );
}
