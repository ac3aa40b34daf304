//! The main job with real processes: kubectl with `karmada up` and two `karmada member`.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::{Karmada, eventually};

pub const NAMES: [&str; 2] = ["kind-cluster01", "kind-cluster02"];

/// A control plane with two joined members, all processes.
pub struct Fleet {
    directory: tempfile::TempDir,
    pub plane: Karmada,
    pub members: [Karmada; 2],
}

impl Fleet {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments of `karmada up`.
    pub fn start_with(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let members = NAMES.map(|name| Karmada::member(name, &directory.path().join(name)));
        let plane = Karmada::up_with(&directory.path().join("up"), more);
        for (name, member) in NAMES.iter().zip(&members) {
            let config = format!("--cluster-kubeconfig={}", member.kubeconfig());
            let printed = plane.karmadactl_ok(&["join", name, &config]);
            assert_eq!(printed, format!("cluster({name}) is joined successfully\n"));
        }
        let fleet = Self { directory, plane, members };
        fleet.plane.ok(&["wait", "--for=condition=Ready", "clusters", "--all", "--timeout=60s"]);
        fleet
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub fn apply(&self, object: &Value) -> String {
        let file = self.path("manifest.json");
        write(&file, object);
        self.plane.ok(&["apply", "-f", &file.to_string_lossy()])
    }

    /// The policy of the journeys with another placement.
    fn place(&self, affinity: Value) {
        self.apply(&policy(affinity));
    }

    /// Waits until the members have Deployment nginx with these ready replicas, `None` for no Deployment.
    fn settles(&self, expected: [Option<u64>; 2]) {
        let expected = expected.map(|ready| ready.map_or_else(String::new, |ready| ready.to_string()));
        eventually(&format!("ready replicas {expected:?}"), || {
            let columns = "jsonpath={range .items[*]}{.status.readyReplicas}{end}";
            let found = [0, 1].map(|at| self.members[at].ok(&["get", "deployments", "-A", "-o", columns]));
            if found == expected {
                Ok(())
            } else {
                Err(format!("{found:?}\n{}", self.plane.ok(&["get", "rb,work", "-A"])))
            }
        });
    }

    /// A member has no objects of the application.
    fn is_empty(&self, at: usize) {
        eventually(&format!("{} without the application", NAMES[at]), || {
            let output = self.members[at].kubectl(&["get", "deployments,replicasets,pods", "-A"]);
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            if printed == "No resources found\n" { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into()) }
        });
    }

    fn uid(&self, at: usize) -> String {
        self.members[at].ok(&["get", "deployment", "nginx", "-o", "jsonpath={.metadata.uid}"])
    }

    fn pods(&self, at: usize) -> String {
        self.members[at].ok(&["get", "pods", "-o", "name"])
    }

    /// The rows of a table of `karmadactl get` without the column AGE.
    fn rows(&self, args: &[&str]) -> Vec<String> {
        let table = self.plane.karmadactl_ok(args);
        let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut rows: Vec<Vec<&str>> = lines.collect();
        if let Some(age) = rows.first().and_then(|header| header.iter().position(|cell| *cell == "AGE")) {
            rows.iter_mut().filter(|row| row.len() > age).for_each(|row| {
                row.remove(age);
            });
        }
        rows.into_iter().map(|row| row.join(" ")).collect()
    }
}

fn write(path: &Path, object: &Value) {
    std::fs::write(path, object.to_string()).expect("a temporary directory is writable");
}

fn policy(affinity: Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "propagation-nginx", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": {"clusterAffinity": affinity}}})
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn an_application_follows_its_policy_from_cluster_to_cluster() {
    let fleet = Fleet::start();
    let clusters = fleet.rows(&["get", "clusters"]);
    assert_eq!(clusters.len(), 3, "{clusters:?}");

    // One selected cluster, and a Deployment created with kubectl's generator.
    fleet.place(json!({"clusterNames": [NAMES[0]]}));
    assert_eq!(fleet.plane.ok(&["create", "deployment", "nginx", "--image=nginx"]), "deployment.apps/nginx created\n");
    fleet.settles([Some(1), None]);
    eventually("the status folded back", || {
        let row = fleet.plane.ok(&["get", "deployment", "nginx", "--no-headers"]);
        if row.split_whitespace().nth(1) == Some("1/1") { Ok(()) } else { Err(row) }
    });
    assert_eq!(
        fleet.rows(&["get", "deployment", "--operation-scope=members"]),
        ["NAME CLUSTER READY UP-TO-DATE AVAILABLE ADOPTION", "nginx kind-cluster01 1/1 1 1 Y"]
    );
    let pods = fleet.members[0].ok(&["get", "pods", "--no-headers"]);
    assert_eq!(pods.split_whitespace().skip(1).take(2).collect::<Vec<_>>(), ["1/1", "Running"], "{pods}");
    fleet.is_empty(1);

    // The policy moves it to the other.
    fleet.place(json!({"clusterNames": [NAMES[1]]}));
    fleet.settles([None, Some(1)]);
    fleet.is_empty(0);

    // By label, after scaling.
    for (name, app) in NAMES.iter().zip(["app=cluster01", "app=cluster02"]) {
        let printed = fleet.plane.ok(&["label", "cluster", name, app, "deploy-type=kind"]);
        assert_eq!(printed, format!("cluster.cluster.karmada.io/{name} labeled\n"));
    }
    let shown = fleet.plane.ok(&["get", "cluster", "--show-labels"]);
    assert!(shown.contains("app=cluster01,deploy-type=kind"), "{shown}");
    fleet.plane.ok(&["scale", "deployment", "nginx", "--replicas=2"]);
    fleet.place(json!({"labelSelector": {"matchLabels": {"app": "cluster01"}}}));
    fleet.settles([Some(2), None]);
    assert_eq!(fleet.pods(0).lines().count(), 2);

    // In both: existing copies are not recreated.
    let before = (fleet.uid(0), fleet.pods(0));
    fleet.place(json!({"labelSelector": {"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["cluster01", "cluster02"]}]}}));
    fleet.settles([Some(2), Some(2)]);
    assert_eq!((fleet.uid(0), fleet.pods(0)), before);

    // By provider, region and zone, which kubectl patches in.
    let patched = fleet.plane.ok(&[
        "patch",
        "clusters.cluster.karmada.io",
        NAMES[0],
        NAMES[1],
        "-p",
        r#"{"spec": {"provider": "kind", "region": "local"}}"#,
    ]);
    assert_eq!(
        patched,
        "cluster.cluster.karmada.io/kind-cluster01 patched\ncluster.cluster.karmada.io/kind-cluster02 patched\n"
    );
    for (name, zone) in NAMES.iter().zip(["cluster01", "cluster02"]) {
        fleet.plane.ok(&["patch", "cluster", name, "-p", &json!({"spec": {"zone": zone}}).to_string()]);
    }
    let zones = fleet.plane.ok(&["get", "cluster", NAMES[0], "-o", "jsonpath={.spec.zone}|{.spec.zones}"]);
    assert_eq!(zones, r#"|["cluster01"]"#);
    let before = (fleet.uid(1), fleet.pods(1));
    let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    fleet.place(json!({"fieldSelector": {"matchExpressions": [
        is("provider", "kind"), is("region", "local"), is("zone", "cluster02")]}}));
    fleet.settles([None, Some(2)]);
    assert_eq!((fleet.uid(1), fleet.pods(1)), before);

    // All but one.
    fleet.place(json!({"exclude": [NAMES[1]]}));
    fleet.settles([Some(2), None]);
    fleet.is_empty(1);

    // A deleted template leaves no objects behind.
    fleet.plane.ok(&["delete", "deployment", "nginx", "--wait=false"]);
    fleet.is_empty(0);
    let printed = fleet.plane.karmadactl_ok(&["unjoin", NAMES[1]]);
    assert!(!fleet.plane.ok(&["get", "clusters", "-o", "name"]).contains(NAMES[1]), "{printed}");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn the_quick_start_divides_replicas() {
    let fleet = Fleet::start();
    let labels = json!({"app": "nginx"});
    fleet.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}}}));
    let mut policy = policy(json!({"clusterNames": NAMES}));
    let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
    policy["spec"]["placement"]["replicaScheduling"] = json!({"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [weight(NAMES[0]), weight(NAMES[1])]}});
    fleet.apply(&policy);
    fleet.settles([Some(1), Some(1)]);
    eventually("the binding fully applied", || {
        let row = fleet.plane.ok(&["get", "rb", "--no-headers"]);
        let cells: Vec<&str> = row.split_whitespace().collect();
        if cells.starts_with(&["nginx-deployment", "True", "True"]) { Ok(()) } else { Err(row) }
    });
    let works = fleet.plane.ok(&[
        "get",
        "works",
        "-A",
        "-o",
        "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}",
    ]);
    let works: Vec<&str> = works.split_whitespace().filter(|work| work.contains("nginx")).collect();
    assert_eq!(works, ["karmada-es-kind-cluster01/nginx-687f7fb96f", "karmada-es-kind-cluster02/nginx-687f7fb96f"]);
}
