//! Prometheus' own parser reads the metrics of the control plane and of the components that run alone.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::components::{Component, args};
use crate::process::{Karmada, eventually};
use crate::python_client;

/// As in `docs/monitoring-and-logs.md`.
const USER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: karmada-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules:
- {nonResourceURLs: ["/metrics"], verbs: ["get"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects:
- {kind: ServiceAccount, name: prometheus, namespace: karmada-system}
"#;

/// A ConfigMap in every member, so that every part has something to count.
const PROPAGATED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: default, annotations: {note: "a \"quoted\"\nline"}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: a, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: a}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
"#;

fn apply(server: &Karmada, directory: &Path, manifest: &str) {
    let path = directory.join("manifest.yaml");
    std::fs::write(&path, manifest).expect("written");
    server.ok(&["apply", "-f", path.to_str().expect("a path in UTF-8")]);
}

#[test]
#[cfg_attr(any(no_kubectl, no_python_client), ignore = "kubectl or Python is missing")]
fn prometheus_reads_every_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let server = Karmada::up_with(&at("data"), &["--simulated-clusters", "1"]);
    apply(&server, directory.path(), USER);
    let token = server.ok(&["create", "token", "prometheus", "-n", "karmada-system"]);
    server.ok(&["wait", "--for=condition=Ready", "cluster/member1", "--timeout=60s"]);
    apply(&server, directory.path(), PROPAGATED);
    eventually("the ConfigMap is applied", || {
        let conditions = "jsonpath={.items[*].status.conditions[*].reason}";
        let reasons = server.ok(&["get", "works", "-n", "karmada-es-member1", "-o", conditions]);
        if reasons.contains("AppliedSuccessful") { Ok(()) } else { Err(reasons) }
    });
    let none = ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"];
    let own = ["scheduler", "--leader-elect=false", "--kubeconfig", server.kubeconfig()];
    let scheduler = Component::start(&args(&[&own[..], &none].concat()), 3);
    let own = ["descheduler", "--leader-elect=false", "--kubeconfig", server.kubeconfig()];
    let descheduler = Component::start(&args(&[&own[..], &none].concat()), 3);
    let view = |path: &str| {
        server.ok(&["config", "view", "--raw", "-o", &format!("jsonpath={{.clusters[0].cluster.{path}}}")])
    };
    let ca = BASE64_STANDARD.decode(view("certificate-authority-data")).expect("base64");
    std::fs::write(at("ca.crt"), ca).expect("written");
    let page = |component: &Component| {
        let address = component.text_after("metrics on ").trim_start_matches("http://");
        format!("http://{address}/metrics")
    };
    let scraped = python_client::command("scrape.py")
        .arg(at("ca.crt"))
        .args([token.trim(), &format!("{}/metrics", view("server")), &page(&scheduler), &page(&descheduler)])
        .output()
        .expect("Python is at hand");
    let (out, err) = (String::from_utf8_lossy(&scraped.stdout), String::from_utf8_lossy(&scraped.stderr));
    assert!(scraped.status.success(), "{out}{err}");
    assert!(server.terminate());
}
