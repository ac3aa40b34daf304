//! Karmada's kinds with kubectl on a fresh API server.

use crate::process::Karmada;

const POLICY: &str = r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
             "placement": {"clusterAffinity": {"clusterNames": ["member1"]}, "replicaScheduling": {}}}}"#;

const CLUSTER: &str = r#"{"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "member1"},
    "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:6443"}}"#;

fn apply(server: &Karmada, dir: &tempfile::TempDir, text: &str) -> String {
    let path = dir.path().join("manifest.json");
    std::fs::write(&path, text).expect("a temporary directory is writable");
    server.ok(&["apply", "-f", &path.to_string_lossy()])
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_policy_gets_its_defaults_and_is_validated() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    assert_eq!(apply(&server, &dir, POLICY), "propagationpolicy.policy.karmada.io/p created\n");
    let defaults = "jsonpath={.spec.conflictResolution} {.spec.placement.replicaScheduling.replicaDivisionPreference} \
                    {.spec.resourceSelectors[0].namespace} {.metadata.finalizers[0]}";
    assert_eq!(
        server.ok(&["get", "pp", "p", "-o", defaults]),
        "Abort Weighted default karmada.io/propagation-policy-controller"
    );
    let both =
        r#"{"spec": {"placement": {"clusterAffinities": [{"affinityName": "a", "clusterNames": ["member1"]}]}}}"#;
    let text = server.refused(&["patch", "pp", "p", "--type=merge", "-p", both]);
    assert!(text.contains("clusterAffinities"), "{text}");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_cluster_accepts_strategic_patches_and_has_columns() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    apply(&server, &dir, CLUSTER);
    let patch = r#"{"spec": {"provider": "kind", "zone": "z1"}}"#;
    assert_eq!(
        server.ok(&["patch", "clusters.cluster.karmada.io", "member1", "-p", patch]),
        "cluster.cluster.karmada.io/member1 patched\n"
    );
    let shown =
        server.ok(&["get", "cluster", "member1", "-o", "jsonpath={.spec.provider} {.spec.zones[0]} {.spec.zone}"]);
    assert_eq!(shown, "kind z1 ");
    let table = server.ok(&["get", "cluster"]);
    let headings: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(headings, ["NAME", "VERSION", "MODE", "READY", "AGE"]);
    assert_eq!(server.ok(&["label", "cluster", "member1", "app=a"]), "cluster.cluster.karmada.io/member1 labeled\n");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn karmadactl_cordons_and_names_missing_arguments() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    apply(&server, &dir, CLUSTER);
    let printed = |args: &[&str]| {
        let output = server.karmadactl(args);
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(printed(&["cordon", "member1"]).0, "member1 cluster cordoned\n");
    assert_eq!(printed(&["cordon", "member1"]).0, "member1 cluster already cordoned\n");
    let taint = "jsonpath={.spec.taints[0].key}:{.spec.taints[0].effect}";
    assert_eq!(server.ok(&["get", "cluster", "member1", "-o", taint]), "cluster.karmada.io/unschedulable:NoSchedule");
    assert_eq!(printed(&["uncordon", "member1"]).0, "member1 cluster uncordoned\n");
    assert_eq!(
        printed(&["cordon", "nosuch"]).1,
        "Error from server (NotFound): clusters.cluster.karmada.io \"nosuch\" not found\n"
    );
    assert!(printed(&["version"]).0.starts_with("karmadactl version: version.Info{GitVersion:\"v"));
}
