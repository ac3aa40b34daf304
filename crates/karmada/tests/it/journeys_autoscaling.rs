//! User journeys of autoscaling with real processes: kubectl, `karmada up` and two `karmada member`. Each has a
//! separate namespace, so that they run concurrently. The load of pods is simulated.

use serde_json::{Value, json};

use crate::process::{Karmada, eventually};

/// Decisions every second, and pods that count at once, because simulated containers need no startup.
const FAST: [&str; 4] = [
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
    "--horizontal-pod-autoscaler-downscale-stabilization=2s",
];

struct Fleet {
    plane: Karmada,
    members: [Karmada; 2],
    // The last field: it is dropped when the processes have ended.
    directory: tempfile::TempDir,
}

impl Fleet {
    /// Pods of the members use 10m of CPU, unless an annotation sets something else.
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let members = ["member1", "member2"]
            .map(|name| Karmada::member_with(name, &directory.path().join(name), &["--load=cpu=10m,memory=16Mi"]));
        let plane = Karmada::up_with(&directory.path().join("up"), &FAST);
        for (name, member) in ["member1", "member2"].iter().zip(&members) {
            plane.karmadactl_ok(&["join", name, &format!("--cluster-kubeconfig={}", member.kubeconfig())]);
        }
        plane.ok(&["wait", "--for=condition=Ready", "clusters", "--all", "--timeout=60s"]);
        Self { plane, members, directory }
    }

    /// Applies objects in a separate namespace.
    fn apply(&self, namespace: &str, objects: &[Value]) {
        let mut items = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})];
        items.extend(objects.iter().cloned().map(|mut object| {
            object["metadata"]["namespace"] = namespace.into();
            object
        }));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let file = self.directory.path().join(format!("{namespace}.json"));
        std::fs::write(&file, list.to_string()).expect("a temporary directory is writable");
        self.plane.ok(&["apply", "-f", &file.to_string_lossy()]);
    }

    /// Waits for the column READY of a Deployment, and for the pods in both members, the larger number first: which
    /// member gets the odd one is random.
    fn has(&self, namespace: &str, name: &str, ready: &str, pods: [usize; 2]) {
        eventually(&format!("{namespace}: {name} {ready} as {pods:?}"), || {
            let row = self.plane.ok(&["-n", namespace, "get", "deployment", name, "--no-headers"]);
            let mut found = [0, 1].map(|at| {
                let listed = self.members[at].ok(&["-n", namespace, "get", "pods", "-o", "name"]);
                listed.lines().filter(|pod| pod.starts_with(&format!("pod/{name}-"))).count()
            });
            found.sort_unstable_by(|a, b| b.cmp(a));
            let is_there = row.split_whitespace().nth(1) == Some(ready) && found == pods;
            if is_there { Ok(()) } else { Err(format!("{row}{found:?}\n{}", self.described(namespace))) }
        });
    }

    fn described(&self, namespace: &str) -> String {
        self.plane.ok(&["-n", namespace, "get", "fhpa,cronfhpa", "-o", "jsonpath={.items[*].status}"])
    }

    /// The row of a FederatedHPA without the column AGE.
    fn row(&self, namespace: &str, name: &str) -> String {
        let row = self.plane.ok(&["-n", namespace, "get", "fhpa", name, "--no-headers"]);
        let cells: Vec<&str> = row.split_whitespace().collect();
        cells[..cells.len() - 1].join(" ")
    }

    fn annotate(&self, namespace: &str, name: &str, annotation: &str) {
        self.plane.ok(&["-n", namespace, "annotate", "deployment", name, annotation, "--overwrite"]);
    }

    /// The messages of an object's events with a reason.
    fn events(&self, namespace: &str, name: &str, reason: &str) -> String {
        let selector = format!("--field-selector=involvedObject.name={name},reason={reason}");
        self.plane.ok(&["-n", namespace, "get", "events", &selector, "-o", "jsonpath={.items[*].message}"])
    }
}

/// A Deployment with a Service, and the policy that divides it between both members.
fn application(name: &str, image: &str) -> [Value; 3] {
    let requests = json!({"requests": {"cpu": "25m", "memory": "64Mi"}, "limits": {"cpu": "25m", "memory": "64Mi"}});
    let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
    [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": name, "image": image, "resources": requests}]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{name}-service")},
            "spec": {"ports": [{"port": 80, "targetPort": 80}], "selector": {"app": name}}}),
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "app-propagation"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                    {"apiVersion": "v1", "kind": "Service", "name": format!("{name}-service")}],
                "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]},
                    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                        "weightPreference": {"staticWeightList": [weight("member1"), weight("member2")]}}}}}),
    ]
}

fn autoscaler(name: &str, metric: Value) -> Value {
    let window = json!({"stabilizationWindowSeconds": 1});
    json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "metadata": {"name": name},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 10, "behavior": {"scaleDown": window, "scaleUp": window}, "metrics": [metric]}})
}

fn cpu() -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 10}}})
}

fn schedule(target: [&str; 3], rule: Value) -> Value {
    let [api_version, kind, name] = target;
    json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA", "metadata": {"name": "nginx-cronfhpa"},
        "spec": {"scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": name}, "rules": [rule]}})
}

/// Journeys AS1 to AS4, with the schedules of the pages, which are due every minute.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn workloads_follow_load_and_schedules() {
    let fleet = Fleet::start();
    let deployment = ["apps/v1", "Deployment", "nginx"];
    let federated = ["autoscaling.karmada.io/v1alpha1", "FederatedHPA", "nginx"];

    // AS2 and AS3 first: their minute passes during the others.
    let rule = json!({"name": "scale-up", "schedule": "*/1 * * * *", "targetReplicas": 5, "suspend": false});
    let suspended = json!({"name": "scale-down", "schedule": "*/1 * * * *", "targetReplicas": 0, "suspend": true});
    let mut schedules = schedule(deployment, rule);
    schedules["spec"]["rules"].as_array_mut().expect("a list").push(suspended);
    fleet.apply("as2", &[&application("nginx", "nginx:latest")[..], &[schedules]].concat());
    let rule = json!({"name": "scale-up", "schedule": "*/1 * * * *", "targetMinReplicas": 5});
    let mut idle = application("nginx", "nginx:latest");
    idle[0]["metadata"]["annotations"] = json!({"simulator.karmada.io/usage": "cpu=0m"});
    fleet.apply("as3", &[&idle[..], &[autoscaler("nginx", cpu()), schedule(federated, rule)]].concat());

    by_cpu_and_by_a_custom_metric(&fleet);

    fleet.has("as2", "nginx", "5/5", [3, 2]);
    let history = "jsonpath={range .status.executionHistories[*]}{.ruleName} {.successfulExecutions[0].appliedReplicas} {.nextExecutionTime};{end}";
    eventually("the executions are recorded", || {
        let history = fleet.plane.ok(&["-n", "as2", "get", "cronfhpa", "nginx-cronfhpa", "-o", history]);
        let is_recorded = history.starts_with("scale-up 5 20") && history.ends_with(":00Z;scale-down  ;");
        if is_recorded { Ok(()) } else { Err(history) }
    });
    let header = fleet.plane.ok(&["-n", "as2", "get", "cronfhpa"]);
    let header: Vec<&str> = header.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "REFERENCE-KIND", "REFERENCE-NAME", "AGE"]);

    fleet.has("as3", "nginx", "5/5", [3, 2]);
    eventually("the bounds and the replicas are shown", || {
        let row = fleet.row("as3", "nginx");
        if row == "nginx Deployment nginx 5 10 5" { Ok(()) } else { Err(row) }
    });
    // The rule raised the lower bound, so without load the autoscaler stays at it.
    let reasons = "jsonpath={.status.conditions[?(@.type==\"ScalingLimited\")].reason}";
    eventually("the autoscaler is limited", || {
        let reason = fleet.plane.ok(&["-n", "as3", "get", "fhpa", "nginx", "-o", reasons]);
        if reason == "TooFewReplicas" { Ok(()) } else { Err(reason) }
    });
}

/// AS1 and AS4: with load the workloads grow to their bounds, and without they shrink. The members report the CPU that
/// they were started with, and requests in each pod's metric as an adapter does.
fn by_cpu_and_by_a_custom_metric(fleet: &Fleet) {
    fleet.apply("as1", &[&application("nginx", "nginx:latest")[..], &[autoscaler("nginx", cpu())]].concat());
    let target = json!({"type": "AverageValue", "averageValue": "700m"});
    let metric = json!({"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "target": target}});
    let mut application = application("sample-app", "luxas/autoscale-demo:v0.1.2");
    application[0]["metadata"]["annotations"] = json!({"simulator.karmada.io/metrics": "http_requests=5"});
    fleet.apply("as4", &[&application[..], &[autoscaler("sample-app", metric)]].concat());

    fleet.has("as1", "nginx", "10/10", [5, 5]);
    fleet.has("as4", "sample-app", "10/10", [5, 5]);
    eventually("the row of the page", || {
        let row = fleet.row("as1", "nginx");
        if row == "nginx Deployment nginx 1 10 10" { Ok(()) } else { Err(row) }
    });
    let pods = fleet.plane.karmadactl_ok(&["-n", "as1", "get", "pods", "--operation-scope", "members"]);
    let of = |member: &str| pods.lines().filter(|line| line.split_whitespace().nth(1) == Some(member)).count();
    assert_eq!((of("member1"), of("member2")), (5, 5), "{pods}");
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/as4/pods/*/http_requests?selector=app%3Dsample-app";
    for (of, pods) in [(&fleet.members[0], 5), (&fleet.plane, 10)] {
        let list: Value = serde_json::from_str(&of.ok(&["get", "--raw", path])).expect("JSON");
        let values: Vec<&Value> = list["items"].as_array().into_iter().flatten().map(|it| &it["value"]).collect();
        assert_eq!(values, vec!["5"; pods], "{list}");
    }

    fleet.annotate("as1", "nginx", "simulator.karmada.io/usage=cpu=1m");
    fleet.annotate("as4", "sample-app", "simulator.karmada.io/metrics=http_requests=10m");
    fleet.has("as1", "nginx", "1/1", [1, 0]);
    fleet.has("as4", "sample-app", "1/1", [1, 0]);
    for (namespace, name, reason) in [
        ("as1", "nginx", "New size: 10; reason: cpu resource utilization (percentage of request) above target"),
        ("as1", "nginx", "New size: 1; reason: All metrics below target"),
        ("as4", "sample-app", "New size: 10; reason: pods metric http_requests above target"),
    ] {
        // Events are written in the background, so the last one follows what the members show.
        eventually(reason, || {
            let events = fleet.events(namespace, name, "SuccessfulRescale");
            if events.contains(reason) { Ok(()) } else { Err(events) }
        });
    }
}
