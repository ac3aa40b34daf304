//! `karmadactl resume` with an API server and a held member. No controllers run: the plan lists their writes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::Karmada;

const SINCE: &str = "2026-11-23T02:03:04Z";

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value}, "metadata": {"name": name, "namespace": "default",
        "labels": {"karmada.io/managed": "true"},
        "annotations": {"work.karmada.io/namespace": "karmada-es-member1", "work.karmada.io/name": name}}})
}

fn work(name: &str, manifest: &Value) -> Value {
    json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": name, "namespace": "karmada-es-member1"}, "spec": {"workload": {"manifests": [manifest]}}})
}

fn list(dir: &Path, name: &str, items: &[Value]) -> PathBuf {
    let path = dir.join(name);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(&path, list.to_string()).expect("a file");
    path
}

#[test]
fn the_plan_of_a_held_member_is_printed_and_confirmed() {
    let root = tempfile::tempdir().expect("a directory");
    let member = Karmada::member("member1", &root.path().join("member1"));
    let server = Karmada::apiserver(&root.path().join("karmada"));
    server.karmadactl_ok(&["join", "member1", "--cluster-kubeconfig", member.kubeconfig()]);
    assert_eq!(server.karmadactl_ok(&["resume"]), "No member is held.\n");
    // A controller's part: the member lets the control plane impersonate its users.
    let account = "--serviceaccount=karmada-cluster:karmada-impersonator";
    member.ok(&["create", "clusterrolebinding", "impersonator", "--clusterrole=cluster-admin", account]);
    let condition = json!({"type": "ResumePending", "status": "True", "reason": "StoreOlderThanMember",
        "message": "the member has writes of revision 90", "lastTransitionTime": SINCE});
    let patch = json!({"status": {"conditions": [condition]}}).to_string();
    server.ok(&["patch", "cluster", "member1", "--subresource=status", "--type=merge", "-p", &patch]);
    if !server.kubectl(&["get", "namespace", "karmada-es-member1"]).status.success() {
        server.ok(&["create", "namespace", "karmada-es-member1"]);
    }
    let works = [("same", "newer"), ("changed", "older"), ("absent", "older")];
    let works = works.map(|(name, value)| work(name, &config_map(name, value)));
    server.ok(&["apply", "-f", list(root.path(), "works.json", &works).to_str().expect("a path")]);
    // As in the Works: admission has completed the manifests.
    let in_member = ["same", "changed"].map(|name| {
        let work: Value =
            serde_json::from_str(&server.ok(&["get", "work", name, "-n", "karmada-es-member1", "-o", "json"]))
                .expect("JSON");
        let mut manifest = work["spec"]["workload"]["manifests"][0].clone();
        manifest["data"]["key"] = json!("newer");
        manifest
    });
    let in_member = [&in_member[..], &[config_map("left", "newer")]].concat();
    member.ok(&["apply", "-f", list(root.path(), "member.json", &in_member).to_str().expect("a path")]);

    let held = server.karmadactl_ok(&["resume"]);
    assert!(held.contains("member1") && held.contains("StoreOlderThanMember"), "{held}");
    let ran = server.karmadactl(&["resume", "member1", "--dry-run"]);
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "deprecated kinds are listed without a warning");
    let plan = String::from_utf8_lossy(&ran.stdout).into_owned();
    let url = "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/api/v1/namespaces/default/configmaps/left";
    for part in [
        "1 object is overwritten:\n  ConfigMap default/changed\n    data.key: \"newer\" -> \"older\"\n",
        "1 object is recreated:\n  ConfigMap default/absent\n",
        "1 object is left in the member, without a Work:\n  ConfigMap default/left\n",
        "1 object is unchanged.",
        &format!("kubectl delete --raw {url}"),
    ] {
        assert!(plan.contains(part), "{part}\n{plan}");
    }
    let confirmed = || {
        let path = "jsonpath={.metadata.annotations.resume\\.karmada\\.io/confirmed}";
        server.ok(&["get", "cluster", "member1", "-o", path])
    };
    let refused = server.karmadactl(&["resume", "member1"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("--yes"), "{why}");
    assert_eq!(confirmed(), "", "nothing is confirmed yet");
    let plan: Value = serde_json::from_str(&server.karmadactl_ok(&["resume", "--all", "-o", "json"])).expect("JSON");
    let item = &plan["items"][0];
    assert_eq!((&item["confirmed"], &item["plan"]["unchanged"]), (&json!(false), &json!(1)), "{plan}");
    assert_eq!(confirmed(), "");
    server.karmadactl_ok(&["resume", "member1", "--yes"]);
    assert_eq!(confirmed(), SINCE);
    let unknown = server.karmadactl(&["resume", "nobody", "--yes"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("cluster nobody does not exist"));
    // The printed command works.
    server.ok(&["delete", "--raw", url]);
    assert!(member.refused(&["get", "configmap", "left"]).contains("NotFound"));

    // Without the member's objects there is no plan, and no confirmation.
    server.ok(&["annotate", "cluster", "member1", "resume.karmada.io/confirmed-"]);
    member.kill();
    let refused = server.karmadactl(&["resume", "--all", "--yes"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("cluster member1 cannot be read"), "{why}");
    assert_eq!(confirmed(), "");
}
