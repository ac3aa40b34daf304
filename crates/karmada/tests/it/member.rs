//! The real kubectl with `karmada member`: it behaves like a live cluster.

use std::os::unix::fs::PermissionsExt as _;

use crate::process::{Karmada, eventually};

fn lines(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_deployment_rolls_out_scales_and_rolls_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let member = Karmada::member_with("m1", dir.path(), &["--nodes", "3", "--zone", "z1", "--region", "r1"]);
    let mode = std::fs::metadata(member.kubeconfig()).expect("a kubeconfig").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let nodes = member.ok(&["get", "nodes", "-L", "topology.kubernetes.io/zone", "--no-headers"]);
    let shown: Vec<String> = lines(&nodes).iter().map(|row| format!("{} {} {}", row[0], row[1], row[5])).collect();
    assert_eq!(shown, ["m1-node-1 Ready z1", "m1-node-2 Ready z1", "m1-node-3 Ready z1"]);

    member.ok(&["create", "deployment", "web", "--image=nginx:1", "--replicas=3"]);
    let printed = member.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert!(printed.contains("deployment \"web\" successfully rolled out"), "{printed}");
    let all = member.ok(&["get", "deploy,rs,pods", "--no-headers"]);
    let rows = lines(&all);
    assert_eq!(rows[0][..4], ["deployment.apps/web", "3/3", "3", "3"], "{all}");
    assert!(rows[1][0].starts_with("replicaset.apps/web-") && rows[1][1..4] == ["3", "3", "3"], "{all}");
    assert!(rows[2..].iter().all(|row| row[1..4] == ["1/1", "Running", "0"]) && rows.len() == 5, "{all}");

    member.ok(&["set", "image", "deployment/web", "nginx=nginx:2"]);
    member.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let history = member.ok(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    let images = ["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"];
    eventually("old pods leave", || {
        let shown = member.ok(&images);
        if shown == "nginx:2 nginx:2 nginx:2" { Ok(()) } else { Err(shown) }
    });
    member.ok(&["rollout", "undo", "deployment/web"]);
    member.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let revision = "jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision}";
    assert_eq!(member.ok(&["get", "deployment", "web", "-o", revision]), "3");

    member.ok(&["scale", "deployment", "web", "--replicas=5"]);
    member.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    member.ok(&["delete", "deployment", "web", "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(member.ok(&["get", "pods,rs", "--no-headers"]), "");
    assert!(member.terminate(), "SIGTERM is a clean end");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn pods_wait_for_capacity_and_a_restart_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let member = Karmada::member_with("m1", dir.path(), &["--nodes", "2", "--pods", "2"]);
    member.ok(&["create", "deployment", "web", "--image=nginx", "--replicas=5"]);
    let phases = ["get", "pods", "--sort-by=.status.phase", "-o", "jsonpath={.items[*].status.phase}"];
    eventually("four of five pods run", || {
        let shown = member.ok(&phases);
        if shown == "Pending Running Running Running Running" { Ok(()) } else { Err(shown) }
    });
    let why = "jsonpath={.items[?(@.status.phase==\"Pending\")].status.conditions[0].message}";
    assert_eq!(member.ok(&["get", "pods", "-o", why]), "0/2 nodes are available: 2 Too many pods.");
    let uids = ["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"];
    let before = member.ok(&uids);
    member.kill();
    let member = Karmada::member_with("m1", dir.path(), &["--nodes", "3", "--pods", "2"]);
    eventually("the last pod runs on the new node", || {
        let shown = member.ok(&phases);
        if shown == "Running Running Running Running Running" { Ok(()) } else { Err(shown) }
    });
    assert_eq!(member.ok(&uids), before);
    member.ok(&["drain", "m1-node-1", "--timeout=60s"]);
    eventually("the drained pods run or wait elsewhere", || {
        let shown = member.ok(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]);
        let count = shown.split(' ').count();
        if count == 4 && !shown.contains("m1-node-1") { Ok(()) } else { Err(shown) }
    });
    let nodes = member.ok(&["get", "nodes", "--no-headers"]);
    assert_eq!(lines(&nodes)[0][1], "Ready,SchedulingDisabled");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn other_workloads_run_and_services_have_endpoints() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let member = Karmada::member("m1", dir.path());
    member.ok(&["create", "job", "sum", "--image=busybox"]);
    member.ok(&["wait", "job/sum", "--for=condition=complete", "--timeout=60s"]);
    let job = member.ok(&["get", "jobs", "--no-headers"]);
    assert_eq!(lines(&job)[0][..3], ["sum", "Complete", "1/1"], "{job}");
    member.ok(&["create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80"]);
    member.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    member.ok(&["expose", "deployment", "web"]);
    eventually("the service has two endpoints", || {
        let slices = member.ok(&[
            "get",
            "endpointslices",
            "-l",
            "kubernetes.io/service-name=web",
            "-o",
            "jsonpath={.items[*].endpoints[*].targetRef.kind}",
        ]);
        if slices == "Pod Pod" { Ok(()) } else { Err(slices) }
    });
    let service = member.ok(&["get", "service", "web", "--no-headers"]);
    assert!(lines(&service)[0][2].starts_with("10.96."), "{service}");
    assert!(member.ok(&["api-versions"]).lines().all(|line| !line.contains("karmada.io")), "a member knows no Karmada");
    assert!(member.ok(&["describe", "pods", "-l", "app=web"]).contains("Ready             True"));
}
