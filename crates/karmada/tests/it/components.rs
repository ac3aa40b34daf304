//! The scheduler and an estimator as separate processes: gRPC with certificates on both sides.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use pki::{Authority, ServerNames};
use serde_json::{Value, json};
use world::World;

use crate::fleet::until;
use crate::process::Karmada;

/// A component, and its output before it was ready.
pub struct Component {
    child: Child,
    lines: Vec<String>,
}

impl Component {
    pub fn start(args: &[String], lines: usize) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args(args)
            .env_remove("KUBECONFIG")
            .env("KARMADA_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("a piped stdout"));
        let lines = stdout.lines().take(lines).map_while(Result::ok).collect();
        Self { child, lines }
    }

    /// Its first lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The text after `before` in its output.
    pub fn text_after(&self, before: &str) -> &str {
        let rest = self.lines.iter().find_map(|line| Some(line.split_once(before)?.1));
        rest.unwrap_or_else(|| panic!("no {before:?} in {:?}", self.lines))
    }

    /// Stops it as a service manager would; returns whether it exited with 0.
    pub fn terminate(mut self) -> bool {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill is on PATH");
        signalled.success() && self.child.wait().expect("the process is ours").success()
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // The test may have ended it already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn args(list: &[&str]) -> Vec<String> {
    list.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Writes a CA, a pair for the estimator and a pair for the scheduler; their paths.
fn certificates(directory: &Path) -> [String; 5] {
    let world = World::system();
    let (authority, _) = Authority::generate("estimators", &world).expect("an authority");
    let names = ServerNames::api_server("estimator", &["127.0.0.1".to_owned()]);
    let server = authority.issue_server(&names, &world).expect("a certificate");
    let client = authority.issue_client("karmada-scheduler", &[], &world).expect("a certificate");
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    [
        write("ca.crt", authority.certificate()),
        write("server.crt", &server.certificate),
        write("server.key", &server.key),
        write("client.crt", &client.certificate),
        write("client.key", &client.key),
    ]
}

async fn create(client: &Client, resource: &ApiResource, object: Value) {
    client.create(resource, &object).await.unwrap_or_else(|error| panic!("{object}: {error}"));
}

pub async fn page(address: &str, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = address.trim_start_matches("http://").replace("0.0.0.0", "127.0.0.1");
    let mut stream = tokio::net::TcpStream::connect(&address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    text
}

/// A cluster that reports capacity for a hundred thousand pods, and the address of its estimator.
async fn join(control: &Client, estimator: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}});
    // A server creates it at its start, unless it is bare.
    let _ = control.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), &namespace).await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Push"}});
    create(control, &Cluster::api_resource(), cluster).await;
    let capacity = json!({"cpu": "100000", "memory": "100000Gi", "pods": "100000"});
    let status = json!({"status": {"resourceSummary": {"allocatable": capacity}, "apiEnablements": [
        {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]}});
    let key = ObjectKey::cluster("m1");
    control
        .patch(&Cluster::api_resource(), &key, &Patch::Merge(status), &PatchOptions::status())
        .await
        .expect("a status");
    let port: u16 = estimator.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "karmada-scheduler-estimator-m1", "namespace": "karmada-system"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": 10352, "targetPort": port}]}});
    create(control, &ApiResource::namespaced("", "v1", "Service", "services"), service).await;
}

/// The condition and the clusters of a Deployment's binding after its scheduling.
async fn scheduled(control: &Client, name: &str, replicas: i64) -> (String, Value) {
    let resource = Binding::api_resource(Scope::Namespaced);
    let dynamic = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "default", "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name, "uid": "u"},
            "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "placement": {"replicaScheduling": dynamic}}});
    create(control, &resource, binding).await;
    let key = ObjectKey::namespaced("default", name);
    until("the binding is reconciled", async || {
        let binding = control.get(&resource, &key).await.ok()?.to_value().ok()?;
        let conditions = binding["status"]["conditions"].as_array()?.clone();
        let condition = conditions.into_iter().find(|it| it["type"] == "Scheduled")?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some((
            format!("{} {}: {}", text("status"), text("reason"), text("message")),
            binding["spec"]["clusters"].clone(),
        ))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn our_scheduler_queries_our_estimator() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let server = Karmada::apiserver(&at("control"));
    let member = Karmada::member_with("m1", &at("m1"), &["--nodes", "2", "--cpu", "4"]);
    let [ca, server_crt, server_key, client_crt, client_key] = certificates(directory.path());
    let none = ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"];

    let secured =
        ["--grpc-auth-cert-file", &server_crt, "--grpc-auth-key-file", &server_key, "--grpc-client-ca-file", &ca];
    let own = ["scheduler-estimator", "--cluster-name=m1", "--server-port=0", "--kubeconfig", member.kubeconfig()];
    let estimator = Component::start(&args(&[&own[..], &secured, &none].concat()), 3);
    let control = Client::from_kubeconfig(Path::new(server.kubeconfig()), None).await.expect("a client");
    join(&control, estimator.text_after("ready on ")).await;

    let secured = [
        "--scheduler-estimator-ca-file",
        &ca,
        "--scheduler-estimator-cert-file",
        &client_crt,
        "--scheduler-estimator-key-file",
        &client_key,
    ];
    let own = ["scheduler", "--enable-scheduler-estimator", "--kubeconfig", server.kubeconfig()];
    let scheduler = Component::start(&args(&[&own[..], &secured, &none].concat()), 3);
    assert_eq!(scheduler.lines[0], "The scheduler default-scheduler is ready");
    let lease = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let lease_key = ObjectKey::namespaced("karmada-system", "karmada-scheduler");
    let holder = async || {
        let lease = control.get(&lease, &lease_key).await.expect("a Lease").to_value().expect("JSON");
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    };
    assert!(!holder().await.is_empty());

    // The cluster reports capacity for all; its nodes have 8 cpus.
    let (condition, clusters) = scheduled(&control, "fits", 6).await;
    assert_eq!(condition, "True Success: Binding has been scheduled successfully.");
    assert_eq!(clusters, json!([{"name": "m1", "replicas": 6}]));
    let (condition, clusters) = scheduled(&control, "too-many", 60).await;
    let expected = "False Unschedulable: failed to assign replicas: failed to scale up: Clusters available replicas 8 are \
                    not enough to schedule.";
    assert_eq!((condition.as_str(), clusters), (expected, Value::Null));

    let printed = page(estimator.text_after("metrics on "), "/metrics").await;
    let counted =
        "karmada_scheduler_estimator_estimating_request_total{result=\"success\",type=\"MaxAvailableReplicas\"}";
    assert!(printed.contains(counted), "{printed}");
    let health = scheduler.text_after("health on ");
    for (path, expected) in [
        ("/healthz", "\r\nok"),
        ("/readyz", "\r\nok"),
        ("/livez/ping", "\r\nok"),
        ("/healthz?verbose", "[+]ping ok\nhealthz check passed\n"),
        ("/healthz?verbose&exclude=ping", "[+]ping excluded: ok\nhealthz check passed\n"),
        ("/healthz/none", "404 page not found\n"),
    ] {
        let printed = page(health, path).await;
        assert!(printed.ends_with(expected), "{path}: {printed}");
    }
    let printed = page(health, "/statusz").await;
    assert!(printed.contains("\nkarmada-scheduler statusz\nWarning: ") && printed.contains("\nStarted: "), "{printed}");
    let printed = page(health, "/flagz").await;
    assert!(printed.contains("\nkarmada-scheduler flagz\n"), "{printed}");
    for flag in ["\nleader-elect=true\n", "\nscheduler-name=default-scheduler\n"] {
        assert!(printed.contains(flag), "{flag}: {printed}");
    }
    let printed = page(scheduler.text_after("metrics on "), "/metrics").await;
    let waited = "workqueue_queue_duration_seconds_sum{name=\"scheduler-queue\",controller=\"scheduler-queue\"} ";
    assert!(printed.contains(waited), "{printed}");
    assert!(printed.contains("karmada_scheduler_schedule_attempts_total{result=\"scheduled\""), "{printed}");

    // Without the estimator the cluster's own report counts.
    assert!(estimator.terminate());
    let (condition, _) = scheduled(&control, "believed", 60).await;
    assert_eq!(condition, "True Success: Binding has been scheduled successfully.");
    assert!(scheduler.terminate());
    assert_eq!(holder().await, "", "the Lease is given back");
}

/// A Deployment of three pods, of which a member's two nodes fit two.
async fn crowd(member: &Client) {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    let resource = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    create(member, &resource, deployment).await;
    until("two pods are ready", async || {
        let live = member.get(&resource, &ObjectKey::namespaced("default", "web")).await.ok()?.to_value().ok()?;
        (live["status"]["readyReplicas"] == 2).then_some(())
    })
    .await;
}

/// The binding of that Deployment after scheduler and controllers have finished.
async fn settled(control: &Client) -> ObjectKey {
    let (resource, key) = (Binding::api_resource(Scope::Namespaced), ObjectKey::namespaced("default", "web"));
    let placement =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"policy.karmada.io/applied-placement": placement.to_string()}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web", "uid": "u"},
            "replicas": 3, "placement": placement, "clusters": [{"name": "m1", "replicas": 3}]}});
    create(control, &resource, binding).await;
    let status = json!({"status": {"schedulerObservedGeneration": 1,
        "aggregatedStatus": [{"clusterName": "m1", "status": {"replicas": 3, "readyReplicas": 2}}]}});
    control.patch(&resource, &key, &Patch::Merge(status), &PatchOptions::status()).await.expect("a status");
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn our_descheduler_removes_unschedulable_replicas() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let server = Karmada::apiserver(&at("control"));
    let member = Karmada::member_with("m1", &at("m1"), &["--nodes", "2", "--cpu", "4"]);
    let none = ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--v=4"];
    // The arguments of upstream's charts, some of which have no effect here.
    let own = [
        "scheduler-estimator",
        "--cluster-name=m1",
        "--server-port=0",
        "--parallelism=0",
        "--logtostderr=true",
        "--enable-pprof=false",
        "--feature-gates=AllAlpha=true,AllBeta=true",
        "--kubeconfig",
        member.kubeconfig(),
    ];
    let estimator = Component::start(&args(&[&own[..], &none].concat()), 3);
    let control = Client::from_kubeconfig(Path::new(server.kubeconfig()), None).await.expect("a client");
    join(&control, estimator.text_after("ready on ")).await;
    crowd(&Client::from_kubeconfig(Path::new(member.kubeconfig()), None).await.expect("a client")).await;
    let key = settled(&control).await;

    let own = [
        "descheduler",
        "--descheduling-interval=1s",
        "--unschedulable-threshold=1s",
        "--kubeconfig",
        server.kubeconfig(),
    ];
    let descheduler = Component::start(&args(&[&own[..], &none].concat()), 3);
    assert_eq!(descheduler.lines[0], "The descheduler is ready");
    let resource = Binding::api_resource(Scope::Namespaced);
    let clusters = until("one replica is taken back", async || {
        let binding = control.get(&resource, &key).await.ok()?.to_value().ok()?;
        Some(binding["spec"]["clusters"].clone()).filter(|clusters| clusters[0]["replicas"] != 3)
    })
    .await;
    assert_eq!(clusters, json!([{"name": "m1", "replicas": 2}]));
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let printed = until("it is reported", async || {
        let list = control.list(&events, Some("default"), &Default::default()).await.ok()?;
        let events: Vec<Value> = list.items.iter().filter_map(|event| event.to_value().ok()).collect();
        let of = |kind: &str| {
            let found = events.iter().find(|event| event["involvedObject"]["kind"] == kind)?;
            Some(format!("{} {}", found["reason"].as_str()?, found["message"].as_str()?))
        };
        Some([of("ResourceBinding")?, of("Deployment")?])
    })
    .await;
    let expected = "DescheduleBindingSucceed Binding has been descheduled, 1 replica(s) in cluster(m1), 1 total \
                    descheduled replica(s)";
    assert_eq!(printed, [expected, expected]);
    let lease = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let lease_key = ObjectKey::namespaced("karmada-system", "karmada-descheduler");
    assert!(control.get(&lease, &lease_key).await.is_ok());
    assert!(page(descheduler.text_after("health on "), "/healthz").await.ends_with("\r\nok"));
    // The checks of upstream's own suite for a leading descheduler.
    let text = page(descheduler.text_after("metrics on "), "/metrics").await;
    for expected in [
        "leader_election_master_status{name=\"karmada-descheduler\"} 1\n",
        "workqueue_queue_duration_seconds_sum{name=\"descheduler\",controller=\"descheduler\"} ",
        "workqueue_work_duration_seconds_count{name=\"descheduler\",controller=\"descheduler\"} ",
        "workqueue_depth{name=\"descheduler\",controller=\"descheduler\",priority=\"\"} 0\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    // The scheduler has not processed this result yet, so no further replicas are descheduled.
    assert!(descheduler.terminate());
    assert!(estimator.terminate());
}

#[test]
fn missing_flags_are_named() {
    for (list, expected) in [
        (&["scheduler", "--metrics-bind-address=0"][..], "--kubeconfig or KUBECONFIG must name the API server"),
        (&["scheduler-estimator"], "clusterName cannot be empty"),
        (&["descheduler", "--descheduling-interval=-1s"], "--descheduling-interval must not be negative"),
        (&["descheduler", "--enable-pprof"], "--enable-pprof=true is not supported in this version"),
        (&["search", "--etcd-servers-overrides=/events#http://e:1"], "all resources of this component are in one etcd"),
        (
            &[
                "controller-manager",
                "--enable-no-execute-taint-eviction",
                "--no-execute-taint-eviction-purge-mode=Never",
            ],
            "--no-execute-taint-eviction-purge-mode: \"Never\" is not supported; supported values: Directly, Gracefully",
        ),
        (
            &["controller-manager", "--resource-eviction-rate=-1"],
            "--resource-eviction-rate must be greater than or equal to 0",
        ),
        (&["webhook", "--feature-gates=Failover=true"], "--kubeconfig or KUBECONFIG must name the API server"),
        (&["scheduler", "--logtostderr=false"], "--logtostderr=false: logs go to standard error"),
        (&["scheduler", "-v=high"], "--v: \"high\" is no verbosity such as 4"),
        (
            &["scheduler", "--rate-limiter-qps=-1", "--feature-gates=PriorityBasedScheduling=false"],
            "--rate-limiter-qps",
        ),
        (&["scheduler", "--scheduler-estimator-port=65536"], "65536"),
        (&["scheduler", "--scheduler-estimator-timeout=-1s"], "--scheduler-estimator-timeout must not be negative"),
        (&["controller-manager", "--cluster-monitor-grace-period=0"], "--cluster-monitor-grace-period must be greater"),
        (&["controller-manager", "--cluster-startup-grace-period=0"], "--cluster-startup-grace-period must be greater"),
        (
            &[
                "descheduler",
                "--master=http://127.0.0.1:1/ /",
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
            ],
            "server \"http://127.0.0.1:1/ /\": ",
        ),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_karmada")).args(list).env_remove("KUBECONFIG").output();
        let ran = ran.expect("the binary starts");
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.code() == Some(1) && printed.contains(expected), "{list:?}: {printed}");
    }
}
