//! A power failure during the main job.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::{Karmada, eventually};

const DEPLOYMENTS: usize = 200;
const NAMES: [&str; 2] = ["member1", "member2"];

fn deployment(n: usize) -> Value {
    let labels = json!({"app": format!("app-{n}")});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("app-{n}"), "namespace": "default", "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "nginx"}]}}}})
}

fn policy() -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": "everywhere"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": NAMES}}}})
}

fn names(member: &Karmada) -> BTreeSet<String> {
    let listed = member.ok(&["get", "deployments", "-o", "name"]);
    listed.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name.to_owned()).collect()
}

/// UID and generation of every Deployment: an unneeded write of its spec or annotations, or its deletion, changes them.
fn identities(member: &Karmada) -> BTreeSet<String> {
    let columns = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.generation}{\"\\n\"}{end}";
    member.ok(&["get", "deployments", "-o", columns]).lines().map(str::to_owned).collect()
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_killed_control_plane_continues_where_it_stopped() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let members = NAMES.map(|name| Karmada::member(name, &directory.path().join(name)));
    let data = directory.path().join("up");
    let plane = Karmada::up(&data);
    for (name, member) in NAMES.iter().zip(&members) {
        plane.karmadactl_ok(&["join", name, &format!("--cluster-kubeconfig={}", member.kubeconfig())]);
    }
    let file = |name: &str, value: &Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, value.to_string()).expect("a temporary directory is writable");
        path.to_string_lossy().into_owned()
    };
    plane.ok(&["create", "-f", &file("policy.json", &policy())]);
    let items: Vec<Value> = (0..DEPLOYMENTS).map(deployment).collect();
    let all = file("all.json", &json!({"apiVersion": "v1", "kind": "List", "items": items}));
    let creating = Command::new("kubectl")
        .args(["create", "--save-config", "-f", &all])
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl is on PATH");
    eventually("a part of the Deployments in a member", || {
        let there = names(&members[0]).len();
        if there >= 20 { Ok(()) } else { Err(format!("{there} of {DEPLOYMENTS}")) }
    });
    plane.kill();
    let output = creating.wait_with_output().expect("kubectl ends");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let acknowledged: BTreeSet<String> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("deployment.apps/")?.strip_suffix(" created"))
        .map(str::to_owned)
        .collect();
    let before = members.each_ref().map(identities);

    let plane = Karmada::up(&data);
    let kept = names(&plane);
    assert!(acknowledged.is_subset(&kept), "lost: {:?}", acknowledged.difference(&kept).collect::<Vec<_>>());
    plane.ok(&["apply", "-f", &all]);
    for (name, member) in NAMES.iter().zip(&members) {
        eventually(&format!("all Deployments available in {name}"), || {
            let columns = "jsonpath={range .items[*]}{.status.availableReplicas}{end}";
            let available = member.ok(&["get", "deployments", "-o", columns]).len();
            if available == DEPLOYMENTS { Ok(()) } else { Err(format!("{available} of {DEPLOYMENTS}")) }
        });
    }
    let after = members.each_ref().map(identities);
    for (before, after) in before.iter().zip(&after) {
        assert!(before.is_subset(after), "touched: {:?}", before.difference(after).collect::<Vec<_>>());
    }
    eventually("every binding fully applied", || {
        let columns = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='FullyApplied')].status} {end}";
        let applied = plane.ok(&["get", "rb", "-o", columns]).split_whitespace().filter(|word| *word == "True").count();
        if applied == DEPLOYMENTS { Ok(()) } else { Err(format!("{applied} of {DEPLOYMENTS}")) }
    });
}
