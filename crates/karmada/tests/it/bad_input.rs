//! User mistakes: a clear error, and no partial changes.

use crate::fleet::Ran;
use crate::process::{Karmada, eventually};

fn file(directory: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a temporary directory is writable");
    path.to_string_lossy().into_owned()
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn manifests_that_are_wrong_are_refused_with_the_place() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plane = Karmada::up(&directory.path().join("up"));
    let broken = file(&directory, "broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n");
    assert!(plane.refused(&["apply", "-f", &broken]).contains("error converting YAML to JSON"));
    // Without kubectl's own checks.
    let raw = plane.refused(&["create", "--raw", "/api/v1/namespaces/default/configmaps", "-f", &broken]);
    assert!(raw.starts_with("Error from server (BadRequest)"), "{raw}");

    let policy = r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "typo"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                 "placement": {"clusterAffinity": {"clusterName": ["member1"]}}}}"#;
    let typo = file(&directory, "typo.json", policy);
    let refused = plane.refused(&["create", "--validate=strict", "-f", &typo]);
    assert!(refused.contains(r#"unknown field "spec.placement.clusterAffinity.clusterName""#), "{refused}");
    let no_selector = file(
        &directory,
        "empty.json",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "empty"},
            "spec": {"resourceSelectors": [], "placement": {}}}"#,
    );
    let refused = plane.refused(&["create", "-f", &no_selector]);
    assert!(refused.contains("spec.resourceSelectors"), "{refused}");
    assert_eq!(plane.ok(&["get", "propagationpolicies", "-A", "-o", "name"]), "");
}

#[test]
fn a_taint_that_evicts_nothing_is_reported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plane = Karmada::up(&directory.path().join("up"));
    let cluster = r#"{"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "away"},
        "spec": {"syncMode": "Pull"}}"#;
    plane.karmadactl_ok(&["create", "-f", &file(&directory, "cluster.json", cluster)]);
    let ran = plane.karmadactl(&["taint", "cluster", "away", "a=b:NoExecute", "--dry-run"]);
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(out, "cluster/away tainted\n");
    assert_eq!(
        err,
        "Warning: NoExecute evicts nothing from cluster away: the control plane runs without --feature-gates=Failover=true \
         --enable-no-execute-taint-eviction=true\n"
    );
}

#[test]
fn joining_an_unreachable_member_leaves_no_objects() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plane = Karmada::up(&directory.path().join("up"));
    let member = Karmada::member("gone", &directory.path().join("gone"));
    let kubeconfig = member.kubeconfig().to_owned();
    member.kill();
    let output = plane.karmadactl(&["join", "gone", "--cluster-kubeconfig", &kubeconfig]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("was refused")
            && printed.contains("context \"gone\"")
            && printed.contains("--cluster-kubeconfig"),
        "{printed}"
    );
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_disconnected_member_blocks_no_others_and_catches_up() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let paths = ["m1", "m2"].map(|name| directory.path().join(name));
    let steady = Karmada::member("m1", &paths[0]);
    let leaving = Karmada::member("m2", &paths[1]);
    let plane = Karmada::up(&directory.path().join("up"));
    for (name, member) in [("m1", &steady), ("m2", &leaving)] {
        plane.karmadactl_ok(&["join", name, "--cluster-kubeconfig", member.kubeconfig()]);
    }
    plane.ok(&["wait", "--for=condition=Ready", "clusters", "--all", "--timeout=60s"]);
    plane.ok(&["create", "deployment", "before", "--image=nginx"]);
    let policy = file(
        &directory,
        "policy.json",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": "all"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                     "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}}"#,
    );
    plane.ok(&["create", "-f", &policy]);
    leaving.ok(&["get", "namespace", "default"]);
    let holds = |member: &Karmada, name: &str| {
        eventually(&format!("Deployment {name}"), || {
            let output = member.kubectl(&["get", "deployment", name]);
            if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
        });
    };
    holds(&leaving, "before");
    leaving.kill();
    plane.ok(&["create", "deployment", "meanwhile", "--image=nginx"]);
    holds(&steady, "meanwhile");
    let leaving = Karmada::member("m2", &paths[1]);
    holds(&leaving, "meanwhile");
    holds(&leaving, "before");
}

#[test]
fn a_command_of_karmadactl_is_recognized() {
    let ran = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(args).output();
        Ran::from(output.expect("the binary starts"))
    };
    let get = ran(&["get", "deployments"]);
    let expected = "error: unrecognized subcommand 'get'\n\n  tip: it is a command of karmadactl: karmada karmadactl get\n\n\
                    For more information, try '--help'.\n";
    assert_eq!((get.code, get.err.as_str()), (Some(2), expected));
    let unknown = ran(&["upp"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("a similar subcommand exists: 'up'"), "{unknown:?}");
}
