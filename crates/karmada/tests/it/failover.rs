//! Journey FO with real processes and kubectl: a member that is killed, and one that stops temporarily.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::process::{Karmada, eventually};

const NAMES: [&str; 2] = ["primary", "backup"];

/// A control plane with failover enabled and short thresholds, and two members.
struct Fleet {
    directory: tempfile::TempDir,
    plane: Karmada,
    /// `None` while it is killed.
    primary: Option<Karmada>,
    backup: Karmada,
}

impl Fleet {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [primary, backup] = NAMES.map(|name| Karmada::member(name, &directory.path().join(name)));
        let flags = [
            "--feature-gates=Failover=true,StatefulFailoverInjection=true",
            "--enable-no-execute-taint-eviction",
            "--allow-no-execute-taint-policy",
            "--cluster-status-update-frequency=1s",
            "--cluster-failure-threshold=3s",
            "--cluster-success-threshold=2s",
        ];
        let plane = Karmada::up_with(&directory.path().join("up"), &flags);
        for (name, member) in NAMES.iter().zip([&primary, &backup]) {
            plane.karmadactl_ok(&["join", name, &format!("--cluster-kubeconfig={}", member.kubeconfig())]);
        }
        plane.ok(&["wait", "--for=condition=Ready", "clusters", "--all", "--timeout=60s"]);
        Self { directory, plane, primary: Some(primary), backup }
    }

    fn primary(&self) -> &Karmada {
        self.primary.as_ref().expect("it is alive")
    }

    fn kill_primary(&mut self) {
        self.primary.take().expect("it is alive").kill();
    }

    /// Restarts the killed member at its former address.
    fn restart_primary(&mut self) {
        self.primary = Some(Karmada::member("primary", &self.directory.path().join("primary")));
    }

    fn apply(&self, object: &Value) {
        let file = self.directory.path().join("manifest.json");
        std::fs::write(&file, object.to_string()).expect("a temporary directory is writable");
        self.plane.ok(&["apply", "-f", &file.to_string_lossy()]);
    }

    /// A Deployment of two replicas that prefers the primary member, and its policy.
    fn deploy(&self, name: &str, tolerations: &Value) {
        self.deploy_with(name, tolerations, &json!({}));
    }

    /// The same with `spec.failover` of the policy.
    fn deploy_with(&self, name: &str, tolerations: &Value, failover: &Value) {
        self.plane.ok(&["create", "deployment", name, "--image=nginx", "--replicas=2"]);
        let term = |name: &str| json!({"affinityName": name, "clusterNames": [name]});
        self.apply(&json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"propagateDeps": true, "failover": failover,
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
                "placement": {"clusterAffinities": NAMES.map(term), "clusterTolerations": tolerations}}}));
    }

    /// Clusters that are not ready evict workloads without a toleration.
    fn evict_from_unready_clusters(&self) {
        let on = |values: Value| json!([{"conditionType": "Ready", "operator": "In", "statusValues": values}]);
        self.apply(&json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
            "metadata": {"name": "not-ready"}, "spec": {
                "addOnConditions": on(json!(["False", "Unknown"])), "removeOnConditions": on(json!(["True"])),
                "taints": [{"key": "not-ready", "effect": "NoExecute"}]}}));
    }

    fn wait_for_readiness(&self, status: &str) {
        self.plane.ok(&["wait", &format!("--for=condition=Ready={status}"), "cluster/primary", "--timeout=100s"]);
    }

    fn taints(&self) -> String {
        let taints = "jsonpath={range .spec.taints[*]}{.key}:{.effect} {end}";
        self.plane.ok(&["get", "cluster", "primary", "-o", taints]).trim_end().to_owned()
    }

    fn wait_for_taints(&self, expected: &str) {
        eventually(&format!("the taints {expected:?}"), || {
            let taints = self.taints();
            if taints == expected { Ok(()) } else { Err(taints) }
        });
    }

    /// The clusters of a Deployment's binding.
    fn placed(&self, name: &str) -> String {
        self.plane.ok(&["get", "rb", &format!("{name}-deployment"), "-o", "jsonpath={.spec.clusters[*].name}"])
    }

    /// Waits until a member has exactly these Deployments, all of their replicas ready.
    fn wait_for_deployments(&self, member: &Karmada, expected: &[&str]) {
        eventually(&format!("the Deployments {expected:?}"), || {
            let columns = "jsonpath={range .items[*]}{.metadata.name} {.status.readyReplicas}{\"\\n\"}{end}";
            let found = member.ok(&["get", "deployments", "-o", columns]);
            let ready: Vec<String> = expected.iter().map(|name| format!("{name} 2")).collect();
            match found.lines().eq(&ready) {
                true => Ok(()),
                false => Err(format!("{found}\n{}", self.plane.ok(&["get", "clusters,rb,works", "-A"]))),
            }
        });
    }

    /// Waits until a Deployment runs in the backup member and its eviction from the primary one has ended.
    fn wait_for_move(&self, name: &str) {
        let binding = format!("resourcebinding/{name}-deployment");
        self.plane.ok(&["wait", "--for=jsonpath={.spec.clusters[0].name}=backup", &binding, "--timeout=100s"]);
        self.wait_for_deployments(&self.backup, &[name]);
        eventually("the end of the eviction", || {
            let selector = format!(
                "reason=EvictWorkloadFromClusterSucceed,involvedObject.kind=Deployment,involvedObject.name={name}"
            );
            let message = "jsonpath={.items[*].message}";
            let events = self.plane.ok(&["get", "events", "--field-selector", &selector, "-o", message]);
            let tasks = self.plane.ok(&["get", &binding, "-o", "jsonpath={.spec.gracefulEvictionTasks}"]);
            let is_over = events.contains("Evict from cluster primary succeed.") && tasks.is_empty();
            if is_over { Ok(()) } else { Err(format!("{events}\n{tasks}")) }
        });
    }

    /// The UIDs of a Deployment and its dependents in the primary member: Deployment, ReplicaSet, Pods.
    fn identities(&self, name: &str) -> String {
        let uids = "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{\"\\n\"}{end}";
        let selector = format!("app={name}");
        let found = self.primary().ok(&["get", "deployments,replicasets,pods", "-l", &selector, "-o", uids]);
        assert_eq!(found.lines().count(), 4, "{found}");
        found
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_killed_member_loses_its_workloads_and_gets_them_back_when_they_are_rescheduled() {
    let mut fleet = Fleet::start();
    fleet.deploy("moves", &json!([]));
    fleet.deploy("stays", &json!([{"operator": "Exists", "effect": "NoExecute"}]));
    fleet.wait_for_deployments(fleet.primary(), &["moves", "stays"]);
    let stays = fleet.identities("stays");

    // The failure alone excludes new workloads, and moves none.
    fleet.kill_primary();
    fleet.wait_for_readiness("False");
    fleet.wait_for_taints("cluster.karmada.io/not-ready:NoSchedule");
    let described = fleet.plane.ok(&["describe", "cluster", "primary"]);
    for text in ["cluster is not reachable", "ClusterNotReachable", "NoSchedule"] {
        assert!(described.contains(text), "{text} is missing in\n{described}");
    }
    assert_eq!((fleet.placed("moves"), fleet.placed("stays")), ("primary".into(), "primary".into()));

    fleet.evict_from_unready_clusters();
    fleet.wait_for_move("moves");
    assert_eq!(fleet.placed("stays"), "primary");
    fleet.plane.ok(&["rollout", "status", "deployment/moves", "--timeout=60s"]);

    // After its recovery, the member loses only the replaced copy.
    fleet.restart_primary();
    fleet.wait_for_readiness("True");
    fleet.wait_for_taints("");
    fleet.wait_for_deployments(fleet.primary(), &["stays"]);
    assert_eq!(fleet.identities("stays"), stays);

    // A moved workload stays, until it is rescheduled.
    assert_eq!((fleet.placed("moves"), fleet.placed("stays")), ("backup".into(), "primary".into()));
    let now = world::World::system().now().to_string();
    let patch =
        json!({"spec": {"rescheduleTriggeredAt": format!("{}Z", now.split(['.', 'Z']).next().expect("a time"))}});
    fleet.plane.ok(&["patch", "rb", "moves-deployment", "--type=merge", "-p", &patch.to_string()]);
    fleet.wait_for_deployments(fleet.primary(), &["moves", "stays"]);
    fleet.wait_for_deployments(&fleet.backup, &[]);

    // A user moves it again, while the member is healthy.
    fleet.plane.karmadactl_ok(&["taint", "clusters", "primary", "maintenance=now:NoExecute"]);
    fleet.wait_for_move("moves");
    fleet.wait_for_deployments(fleet.primary(), &["stays"]);
    fleet.plane.karmadactl_ok(&["taint", "clusters", "primary", "maintenance:NoExecute-"]);
    fleet.wait_for_taints("");
    assert_eq!((fleet.placed("moves"), fleet.identities("stays")), ("backup".into(), stays));
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_member_that_stops_temporarily_keeps_its_workloads() {
    let fleet = Fleet::start();
    let tolerates = |seconds: u32| json!([{"key": "not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    fleet.deploy("moves", &tolerates(1));
    fleet.deploy("waits", &tolerates(3600));
    fleet.wait_for_deployments(fleet.primary(), &["moves", "waits"]);
    let before = [fleet.identities("moves"), fleet.identities("waits")];

    // A stopped process still accepts connections, unlike a killed one.
    fleet.primary().pause();
    fleet.wait_for_readiness("False");
    fleet.wait_for_taints("cluster.karmada.io/not-ready:NoSchedule");
    // Changes in the meantime reach the member later.
    fleet.plane.ok(&["annotate", "deployment", "waits", "example.com/changed=meanwhile"]);
    fleet.primary().resume();
    fleet.wait_for_readiness("True");
    fleet.wait_for_taints("");
    eventually("the change that was made meanwhile", || {
        let value = "jsonpath={.metadata.annotations.example\\.com/changed}";
        let found = fleet.primary().ok(&["get", "deployment", "waits", "-o", value]);
        if found == "meanwhile" { Ok(()) } else { Err(found) }
    });
    assert_eq!([fleet.identities("moves"), fleet.identities("waits")], before);
    fleet.wait_for_deployments(&fleet.backup, &[]);

    // With evictions, a workload is moved after its toleration. The other one is unchanged again.
    fleet.evict_from_unready_clusters();
    fleet.primary().pause();
    fleet.wait_for_move("moves");
    assert_eq!(fleet.placed("waits"), "primary");
    fleet.primary().resume();
    fleet.wait_for_readiness("True");
    fleet.wait_for_taints("");
    fleet.wait_for_deployments(fleet.primary(), &["waits"]);
    assert_eq!(fleet.identities("waits"), before[1]);
    fleet.wait_for_deployments(&fleet.backup, &["moves"]);
}

/// `kubectl get deployments --watch` in its own process; `text` is the format of a line.
struct Watch {
    process: Child,
    output: std::path::PathBuf,
}

impl Watch {
    fn start(member: &Karmada, output: std::path::PathBuf, text: &str) -> Self {
        let file = std::fs::File::create(&output).expect("a temporary directory is writable");
        let process = Command::new("kubectl")
            .args(["get", "deployments", "--watch", "-o", &format!("jsonpath={text}{{\"\\n\"}}")])
            .env("KUBECONFIG", member.kubeconfig())
            .env("HOME", output.parent().expect("a file has a directory"))
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl is on PATH");
        Self { process, output }
    }

    /// Waits for a line.
    fn wait_for(&self, line: &str) {
        eventually(&format!("the line {line:?} of a watch"), || {
            let lines = std::fs::read_to_string(&self.output).expect("a readable file");
            if lines.lines().any(|other| other == line) { Ok(()) } else { Err(lines) }
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_workload_that_fails_moves_and_takes_its_state_along() {
    let fleet = Fleet::start();
    let rules = json!([{"aliasLabelName": "example.com/resume-from", "jsonPath": "{.replicas}"}]);
    fleet.deploy_with("job", &json!([]), &json!({"application": {
        "decisionConditions": {"tolerationSeconds": 2}, "purgeMode": "Directly", "statePreservation": {"rules": rules}}}));
    fleet.wait_for_deployments(fleet.primary(), &["job"]);
    let label = r"{.metadata.labels.example\.com/resume-from}";
    let watch =
        Watch::start(&fleet.backup, fleet.directory.path().join("watched"), &format!("{{.metadata.name}} {label}"));

    // The member is healthy, but none of its nodes fits the pods any more.
    fleet.primary().ok(&["cordon", "primary-node-1", "primary-node-2"]);
    fleet.primary().ok(&["delete", "pods", "-l", "app=job", "--wait=false"]);
    watch.wait_for("job 2");
    fleet.wait_for_move("job");
    fleet.wait_for_deployments(fleet.primary(), &[]);
    assert_eq!(fleet.taints(), "");
    eventually("a copy that is healthy, without the label", || {
        let found = fleet.backup.ok(&["get", "deployment", "job", "-o", &format!("jsonpath={label}")]);
        if found.is_empty() { Ok(()) } else { Err(found) }
    });
}
