//! Control planes whose objects are in etcd.

use std::path::Path;
use std::process::{Command, Output};

use etcd::process::Process;
use etcd::{EtcdStore, Layout};
use storage::Store;

use crate::process::{Karmada, eventually};

/// A Lease that ends soon.
pub const ELECTION: &[&str] =
    &["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms"];

/// The output of a command that ends by itself.
pub fn refused(args: &[&str], data_dir: &Path) -> String {
    let command = Command::new(env!("CARGO_BIN_EXE_karmada")).args(args).arg("--data-dir").arg(data_dir).output();
    let Output { status, stderr, .. } = command.expect("the binary starts");
    assert!(!status.success());
    String::from_utf8_lossy(&stderr).into_owned()
}

/// The value at a key of etcd.
pub fn stored(process: &Process, key: &str) -> Option<String> {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let layout = Layout::new("/registry", [("core/configmaps", "configmaps"), ("core/events", "events")]);
        let store = EtcdStore::open(process.options(layout.clone()).expect("options")).await.expect("etcd answers");
        let key = layout.to_store(key.as_bytes()).expect("a key under the prefix");
        let found = store.get(key, None).await.expect("etcd answers");
        found.map(|kv| String::from_utf8_lossy(&kv.value).into_owned())
    })
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn a_control_plane_on_etcd_survives_kills_of_both() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let mut etcd = Process::start(&path("etcd"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let up = [&[servers.as_str(), "--simulated-clusters=1"][..], ELECTION].concat();
    let plane = only_candidate(&path("up"), &up);
    plane.ok(&["create", "configmap", "c", "--from-literal=k=1"]);
    let policy = path("policy.json");
    let text = r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}],
            "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}}"#;
    std::fs::write(&policy, text).expect("a temporary directory is writable");
    plane.ok(&["create", "-f", policy.to_str().expect("UTF-8")]);
    let applied = |plane: &Karmada| {
        eventually("the Work is applied", || {
            let condition = "jsonpath={.items[?(@.metadata.name!='')].status.conditions[?(@.type=='Applied')].status}";
            let found = plane.ok(&["get", "works", "-n", "karmada-es-member1", "-o", condition]);
            if found.contains("True") { Ok(()) } else { Err(found) }
        });
    };
    applied(&plane);
    let value = stored(&etcd, "/registry/configmaps/default/c").expect("where kube-apiserver has it");
    assert!(value.starts_with(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#), "{value}");

    let twice = refused(&["apiserver", "--secure-port=0", &servers], &path("up"));
    assert!(twice.contains("another process uses this data directory"), "{twice}");

    // Another server on the same etcd, with its own keys and certificates.
    let other = Karmada::apiserver_with(&path("other"), &[&servers]);
    assert!(other.ok(&["get", "configmap", "c", "-o", "name"]).contains("configmap/c"));
    other.ok(&["create", "configmap", "d"]);
    assert!(plane.ok(&["get", "configmap", "d", "-o", "name"]).contains("configmap/d"));
    assert!(other.terminate());

    plane.kill();
    let address = etcd.address().to_string();
    etcd.kill();
    let etcd = Process::start_at(&path("etcd"), &address, &[]).expect("etcd starts");
    // The Lease of the killed process ends first.
    let plane = Karmada::candidate_with(&path("up"), &up);
    assert!(plane.ok(&["get", "configmap", "c", "d", "-o", "name"]).contains("configmap/d"));
    plane.ok(&["get", "--raw", "/readyz/etcd-readiness"]);
    applied(&plane);
    assert!(
        plane.ok(&["get", "--raw", "/metrics"]).contains("apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"}")
    );
    assert!(plane.terminate());

    // The data directory belongs to a control plane with objects; this prefix in etcd is empty.
    let elsewhere = refused(&["apiserver", "--secure-port=0", &servers, "--etcd-prefix=/other"], &path("up"));
    assert!(elsewhere.contains("holds nothing under /other"), "{elsewhere}");
    drop(etcd);
}

/// Each list waits for etcd: only the first one is waited for.
#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn doctor_names_a_store_that_does_not_answer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut etcd = Process::start(&directory.path().join("etcd"), &[]).expect("etcd starts");
    let plane = Karmada::apiserver_with(&directory.path().join("up"), &[&format!("--etcd-servers={}", etcd.url())]);
    etcd.kill();
    let output = plane.karmadactl(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = |problem: &str| text.lines().filter(|line| line.contains(problem)).count();
    assert_eq!(found("error: control plane: a health check fails"), 1, "{text}");
    assert!(text.contains("evidence: etcd-readiness"), "{text}");
    assert_eq!(found("info: clusters: it was not checked"), 1, "{text}");
    assert_eq!(found("info: members, bindings, works, policies and rights: it was not checked"), 1, "{text}");
    assert_eq!(found("it was not checked"), 2, "{text}");
}

#[test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
fn the_data_directory_of_a_server_on_etcd_has_no_store() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let etcd = Process::start(&directory.path().join("etcd"), &[]).expect("etcd starts");
    let data = directory.path().join("up");
    let server = Karmada::apiserver_with(&data, &[&format!("--etcd-servers={}", etcd.url())]);
    for command in [&["store", "stats"][..], &["store", "verify"], &["store", "backup"]] {
        let why = refused(command, &data);
        assert!(why.contains("has no store: the objects of a server with --etcd-servers are in etcd"), "{why}");
    }
    server.terminate();
    let why = refused(&["apiserver", "--secure-port=0"], &data);
    assert!(why.contains("(if the objects are in etcd, add --etcd-servers)"), "{why}");
}

/// Starts a process that is the only candidate. On a loaded machine it reports that it waits for the Lease before it has it.
pub fn only_candidate(data_dir: &Path, up: &[&str]) -> Karmada {
    let plane = Karmada::try_up_with(data_dir, up).expect("it starts");
    leads(&plane);
    plane
}

/// Waits until a process has the Lease.
fn leads(plane: &Karmada) {
    eventually("the process leads", || {
        let metrics = plane.ok(&["get", "--raw", "/metrics"]);
        match metrics.contains("leader_election_master_status{name=\"karmada-up\"} 1") {
            true => Ok(()),
            false => Err(plane.ok(&["get", "lease", "-n", "karmada-system", "karmada-up", "-o", "yaml"])),
        }
    });
}

/// A member `m1`, and the first process `one`, which propagates ConfigMaps there.
pub fn first_of_two(directory: &Path, up: &[&str]) -> (Karmada, Karmada) {
    let member = Karmada::member("m1", &directory.join("m1"));
    let one = only_candidate(&directory.join("one"), up);
    one.karmadactl_ok(&["join", "m1", &format!("--cluster-kubeconfig={}", member.kubeconfig())]);
    let policy = directory.join("policy.json");
    let text = r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}}"#;
    std::fs::write(&policy, text).expect("a temporary directory is writable");
    one.ok(&["create", "-f", policy.to_str().expect("UTF-8")]);
    (member, one)
}

/// The second process, `other`, with the keys of the first: a client of one process is a client of the other.
pub fn second_of_two(directory: &Path, up: &[&str]) -> Karmada {
    let copied = Command::new("cp").arg("-r").arg(directory.join("one")).arg(directory.join("other")).status();
    assert!(copied.expect("cp is on PATH").success());
    // The first one may have lost the Lease on a loaded machine.
    Karmada::try_up_with(&directory.join("other"), up).expect("it starts")
}

/// Creates a ConfigMap by one process, and waits until it is in the member.
fn propagates(plane: &Karmada, member: &Karmada, name: &str) {
    plane.ok(&["create", "configmap", name]);
    eventually("the ConfigMap is propagated", || {
        let output = member.kubectl(&["get", "configmap", name, "-o", "name"]);
        if output.status.success() { Ok(()) } else { Err(plane.ok(&["get", "works", "-A", "-o", "yaml"])) }
    });
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn a_standby_control_plane_takes_over() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let etcd = Process::start(&path("etcd"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let up = [&[servers.as_str()][..], ELECTION].concat();
    let (member, one) = first_of_two(directory.path(), &up);
    propagates(&one, &member, "a");

    let openings = || {
        let list =
            one.ok(&["get", "configmap", "-n", "karmada-system", "karmada-incarnations", "-o", "jsonpath={.data}"]);
        list.matches("opened").count()
    };
    let before = openings();
    let other = second_of_two(directory.path(), &up);
    assert_eq!(openings(), before, "the elected process writes to members meanwhile");
    propagates(&other, &member, "b");
    let identities = other.ok(&["get", "leases", "-n", "kube-system", "-o", "name"]);
    assert_eq!(identities.matches("lease.coordination.k8s.io/apiserver-").count(), 2, "{identities}");

    one.kill();
    leads(&other);
    propagates(&other, &member, "c");
    let one = Karmada::candidate_with(&path("one"), &up);
    assert!(other.terminate(), "it releases the Lease");
    leads(&one);
    propagates(&one, &member, "d");
    assert!(one.terminate());
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn servers_that_start_at_once_on_an_empty_etcd_agree() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let etcd = Process::start(&path("etcd"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let start = |name: &str| Karmada::apiserver_with(&path(name), &[&servers]);
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| start("one"));
        let other = start("other");
        (one.join().expect("it starts"), other)
    });
    let shown =
        |server: &Karmada| server.ok(&["get", "clusterroles,services,priorityclasses,crds", "-A", "-o", "name"]);
    assert_eq!(shown(&one), shown(&other));
    assert!(one.terminate() && other.terminate());
}
