//! `karmadactl explain-placement` and `schedule --dry-run` as commands.

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

    // Before any object exists.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("web.yaml");
    let divided =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let text = |object: &Value| format!("---\n{}", apimachinery::yaml::to_string(object));
    std::fs::write(&file, text(&policy(&divided)) + &text(&deployment("web"))).expect("a file");
    let file = file.to_str().expect("text");
    let printed = fleet.karmadactl(&["schedule", "--dry-run", "-f", file]).await.ok();
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["WORKLOAD", "POLICY", "NOW", "THEN"]);
    assert_eq!(rows[1], ["Deployment default/web", "PropagationPolicy default/p", "-", "m1:4"]);
    let refused = fleet.karmadactl(&["schedule", "-f", file]).await;
    assert_eq!(refused.code, Some(1));

    create(control, "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", &policy(&divided)).await;
    create(control, "/apis/apps/v1/namespaces/default/deployments", &deployment("web")).await;
    let read = until("web is applied", async || {
        let read = fleet.karmadactl(&["explain-placement", "deployment", "web"]).await.ok();
        read.contains("Applied:   True").then_some(read)
    })
    .await;
    let lines: Vec<&str> = read.lines().collect();
    assert_eq!(
        lines[..7],
        [
            "Workload:  Deployment default/web, 4 replicas",
            "Policy:    PropagationPolicy default/p",
            "Scheduled: True",
            "Assigned:  m1:4",
            "Applied:   True",
            "",
            "CLUSTER   REPLICAS   ROOM   STATE",
        ]
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[7])[..2], ["m1", "4"], "{read}");
    assert_eq!(words(lines[8]), ["m2", "-", "-", "cordoned"], "{read}");
    assert!(read.contains("\nNext:      "), "{read}");
    let explained = fleet.karmadactl(&["explain-placement", "web", "-o", "json"]).await.ok();
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    assert_eq!(explained["calculation"]["result"], json!([{"name": "m1", "replicas": 4}]));
    assert_eq!(explained["binding"]["assigned"], json!([{"name": "m1", "replicas": 4}]));
    let why = |index: usize| &explained["calculation"]["clusters"][index];
    assert_eq!((&why(0)["name"], &why(0)["chosen"]), (&json!("m1"), &json!(true)));
    assert_eq!(why(1)["rejectedBy"]["plugin"], "TaintToleration");
    assert_eq!(why(1)["rejectedBy"]["field"], "cluster: spec.taints[0]");

    // In kubectl's notation.
    for args in [
        &["deployment/web"][..],
        &["deploy", "web"],
        &["deploy/web", "-n", "default"],
        &["deployments.apps", "web"],
        &["Deployment", "web"],
        &["web", "--kind", "Deployment"],
        &["resourcebinding", "web-deployment"],
        &["rb/web-deployment"],
        &["web-deployment"],
    ] {
        let ran = fleet.karmadactl(&[&["explain-placement"], args].concat()).await.ok();
        assert_eq!(ran.lines().next(), Some("Workload:  Deployment default/web, 4 replicas"), "{args:?}");
    }
    for (args, expected) in [
        (
            &["deployment", "we"][..],
            "Error from server (NotFound): deployments.apps \"we\" not found\nNames like it in namespace default: web\n",
        ),
        (
            &["deploymet", "web"],
            "error: the server doesn't have a resource type \"deploymet\"\nTypes like it: deployment, deployments\n",
        ),
        (
            &["deployment", "a", "b"],
            "error: one workload is explained at a time, 2 are named: a, b; name the first with: explain-placement deployment a\n",
        ),
    ] {
        let ran = fleet.karmadactl(&[&["explain-placement"], args].concat()).await;
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), expected));
    }

    policies_of_files_are_predicted(&fleet, directory.path()).await;

    // Without its only cluster; then from a file, without a server.
    let gone = fleet.karmadactl(&["schedule", "--dry-run", "--without-cluster", "m1"]).await.ok();
    assert!(gone.contains("0/1 clusters are available: 1 cluster(s) had untolerated taint"), "{gone}");
    let saved = directory.path().join("problem.yaml");
    let saved = saved.to_str().expect("text");
    let live = fleet.karmadactl(&["explain-placement", "web", "--save", saved]).await.ok();
    let offline = fleet.karmadactl(&["explain-placement", "-f", saved]).await.ok();
    assert_eq!(offline, live);
    let unknown = fleet.karmadactl(&["explain-placement", "wen"]).await;
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (
            Some(1),
            "error: no workload named \"wen\" in namespace \"default\" has been matched by a policy; to find out why, name its type, \
             as in deployment/wen\nNames like it: web\n"
        )
    );

    let no_state = fleet.karmadactl(&["explain-placement", "-f", file]).await;
    let expected = format!("error: {file} holds no binding; a file of explain-placement --save does\n");
    assert_eq!((no_state.code, no_state.err), (Some(1), expected));

    // A template without a policy, and a policy without a matching cluster.
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    create(control, "/api/v1/namespaces/default/configmaps", &map("alone")).await;
    let alone = fleet.karmadactl(&["explain-placement", "cm", "alone"]).await.ok();
    assert_eq!(
        alone,
        "Workload:  ConfigMap default/alone\nPolicy:    none selects it\n\
         Next:      create a PropagationPolicy in namespace default whose spec.resourceSelectors have apiVersion v1, kind ConfigMap and \
         name alone\n"
    );
    let nowhere = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "nowhere", "namespace": "default"}, "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "alone"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m9"]}}}});
    create(control, "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", &nowhere).await;
    let nowhere = until("the scheduler finds no place", async || {
        let read = fleet.karmadactl(&["explain-placement", "cm", "alone"]).await.ok();
        read.contains("Scheduled: False").then_some(read)
    })
    .await;
    for words in [
        "Scheduled: False, NoClusterFit: 0/2 clusters are available: ",
        "Unknown:   the policy names clusters that do not exist: m9",
        "Next:      correct the cluster names in the policy (there are: m1, m2), or join the missing: karmadactl join m9",
    ] {
        assert!(nowhere.contains(words), "{words}: {nowhere}");
    }
    assert!(!nowhere.contains("2147483647"), "{nowhere}");
}

/// `web` runs in m1 by the policy p.
async fn policies_of_files_are_predicted(fleet: &Fleet, directory: &std::path::Path) {
    let write = |name: &str, objects: &[Value]| {
        let path = directory.join(name);
        let documents = objects.iter().map(|it| format!("---\n{}", apimachinery::yaml::to_string(it)));
        std::fs::write(&path, documents.collect::<String>()).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let in_m2 = json!({"clusterAffinity": {"clusterNames": ["m2"]}, "clusterTolerations": [{"operator": "Exists"}]});
    // As in most manifests, without a namespace.
    let without_namespace = |mut object: Value| {
        object["metadata"].as_object_mut().expect("metadata").remove("namespace");
        object
    };
    std::fs::create_dir(directory.join("first")).expect("a directory");
    let moved = write("moved.yaml", &[without_namespace(policy(&in_m2))]);
    let mut first = policy(&in_m2);
    first["metadata"]["name"] = json!("first");
    first["spec"]["priority"] = json!(1);
    let overriding =
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "o"}});
    write("first/first.yaml", &[without_namespace(first), without_namespace(deployment("web")), overriding]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let namespace = write("namespace.yaml", &[namespace]);
    let printed = fleet.karmadactl(&["schedule", "--dry-run", "-f", &namespace]).await.ok();
    assert!(printed.contains("every cluster gets it"), "{printed}");
    let in_a_directory = directory.join("first").to_str().expect("text").to_owned();
    for (what, file, expected) in [
        ("a changed policy moves what it has claimed", &moved, ["PropagationPolicy default/p", "m1:4", "m2:4"]),
        ("a claimed template stays with its policy", &in_a_directory, ["PropagationPolicy default/p", "m1:4", "m1:4"]),
    ] {
        let printed = fleet.karmadactl(&["schedule", "--dry-run", "-f", file]).await.ok();
        let rows = printed.lines().skip(1).map(|line| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()));
        let rows: Vec<Vec<&str>> = rows.map(Iterator::collect).collect();
        let [policy, now, then] = expected;
        assert_eq!(rows, [["Deployment default/web", policy, now, then]], "{what}");
    }
}
