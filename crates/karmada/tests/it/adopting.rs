//! Control planes that were upstream's: taken over from an etcd in which a kube-apiserver stored them, moved between
//! etcd and the data directory, and the members that must not notice.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use adoption::reading;
use adoption::store::ReadableStore;
use adoption::transfer::{self, Target};
use apimachinery::ApiResource;
use bytes::Bytes;
use client::{Client, ListOptions, Patch, PatchOptions};
use etcd::EtcdStore;
use etcd::process::Process;
use karmada::engine::Kind;
use karmada::external::Settings;
use karmada::up::{ControlPlane, Options};
use serde_json::{Map, Value, json};
use storage::embedded::EmbeddedStore;
use storage::memory::MemoryStore;
use storage::{KeyRange, Op, RangeRequest, Store, Txn};
use world::World;

use crate::plane::{Plane, deployment, deployments, nginx, options, policies, policy};
use crate::process::Karmada;

#[path = "../../../adoption/tests/it/upstream.rs"]
mod upstream;

const MARK: &str = "resume.karmada.io/mark";

fn on_disk(options: &mut Options, data_dir: &Path) {
    options.server.data_dir = data_dir.to_owned();
    options.server.store = Kind::Embedded;
    options.member_store = Kind::Embedded;
}

/// The value as upstream's servers store the object: built-in kinds as protobuf, Clusters as types of Go, whose first
/// field is the kind, other custom resources as sorted maps. `None` for objects that upstream does not have.
fn as_upstream_stores(key: &str, value: &Bytes) -> Option<Bytes> {
    let mut object: Value = serde_json::from_slice(value).ok()?;
    if object["metadata"]["name"] == "karmada-incarnations" {
        return None;
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|name, _| !name.starts_with("resume.karmada.io/"));
    }
    if key.starts_with("/registry/cluster.karmada.io/") {
        let text = |value: &Value| value.to_string();
        let (kind, version) = (text(&object["kind"]), text(&object["apiVersion"]));
        let rest: Map<String, Value> = object.as_object()?.clone();
        let rest = rest.into_iter().filter(|(name, _)| name != "kind" && name != "apiVersion");
        let rest: Vec<_> = rest.map(|(name, value)| format!("{name:?}:{value}")).collect();
        return Some(format!("{{\"kind\":{kind},\"apiVersion\":{version},{}}}\n", rest.join(",")).into());
    }
    let is_json =
        ["/registry/apiextensions.k8s.io/", "/registry/apiregistration.k8s.io/", "/registry/resource.k8s.io/"];
    let group = key.strip_prefix("/registry/")?.split('/').next()?;
    let custom = group.ends_with(".karmada.io") || group.ends_with(".x-k8s.io");
    if custom || is_json.iter().any(|prefix| key.starts_with(prefix)) {
        return Some(upstream::json(&object));
    }
    Some(upstream::protobuf(&object))
}

async fn everything(store: &dyn Store) -> Vec<storage::KeyValue> {
    let all = RangeRequest { range: KeyRange { start: Bytes::new(), end: Bytes::new() }, revision: None, limit: 0 };
    store.range(all).await.expect("the store is read").items
}

/// A kube-apiserver's store with the objects of a control plane here.
async fn upstreams(store: &Path) -> MemoryStore {
    let own_store = EmbeddedStore::open(store, storage::embedded::Options::default()).await.expect("the store opens");
    let upstream_store = MemoryStore::new();
    for item in everything(&own_store).await {
        let Some(value) = as_upstream_stores(&String::from_utf8_lossy(&item.key), &item.value) else { continue };
        let ops = vec![Op::Put { key: item.key, value, lease: None }];
        upstream_store.txn(Txn { guards: Vec::new(), ops }).await.expect("stored");
    }
    upstream::fill(&upstream_store, upstream::leftovers()).await;
    own_store.close().await.expect("the store closes");
    upstream_store
}

fn works() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha1", "Work", "works")
}

fn bindings() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings")
}

/// The decisions of controllers: all fields except status, and the marks of this program.
async fn decided(client: &Client, resource: &ApiResource) -> Vec<Value> {
    let list = client.list(resource, None, &ListOptions::default()).await.expect("the server answers");
    let decided = |object: &Arc<apimachinery::Object>| {
        let tree = object.to_value().expect("an object of the server");
        let metadata = &tree["metadata"];
        let mut annotations = metadata["annotations"].clone();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.retain(|name, _| !name.starts_with("resume.karmada.io/"));
        }
        json!({"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "labels": metadata["labels"], "annotations": annotations, "finalizers": metadata["finalizers"],
            "generation": metadata["generation"], "spec": tree["spec"]})
    };
    list.items.iter().map(decided).collect()
}

/// The workload of each member, whole but for its status.
async fn workloads(plane: &ControlPlane) -> Vec<Value> {
    let mut all = Vec::new();
    for member in plane.members().iter() {
        let mut object = nginx(member.client()).await.expect("the member has the workload");
        for field in ["resourceVersion", "managedFields"] {
            object["metadata"][field] = Value::Null;
        }
        object["status"] = Value::Null;
        object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = Value::Null;
        all.push(object);
    }
    all
}

/// Upstream writes no marks.
async fn without_marks(plane: &ControlPlane) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {MARK: null}}}));
    let key = apimachinery::ObjectKey::namespaced("default", "nginx");
    for member in plane.members().iter() {
        member.client().patch(&deployments(), &key, &patch, &PatchOptions::default()).await.expect("patched");
    }
}

#[tokio::test(start_paused = true)]
async fn no_workload_of_a_member_is_written_when_a_control_plane_is_taken_over() {
    let root = tempfile::tempdir().expect("a directory");
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let plane = Plane::start_with(|options| on_disk(options, &old)).await;
    plane.client().create(&policies(), &policy(json!({"clusterAffinity": {}}))).await.expect("a policy");
    plane.client().create(&deployments(), &deployment(2)).await.expect("a template");
    plane.until(&[("member1", 2), ("member2", 2), ("member3", 2)]).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    without_marks(&plane.plane).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let members = workloads(&plane.plane).await;
    assert!(
        members.iter().all(|object| object["metadata"]["annotations"][MARK].is_null()),
        "no mark is left: {members:?}"
    );
    let labels = &members[0]["metadata"]["labels"];
    assert!(labels["work.karmada.io/permanent-id"].is_string(), "{labels}");
    let (works_before, bindings_before) =
        (decided(plane.client(), &works()).await, decided(plane.client(), &bindings()).await);
    assert!(works_before.len() >= 3 && bindings_before.len() == 1);
    plane.plane.stop().await.expect("it stops");

    let upstream_store = ReadableStore::new(Arc::new(upstreams(&old.join("store")).await));
    let shown = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let survey = reading::survey(&upstream_store, &shown, &mut |_, _| {}).await.expect("it is read");
    assert_eq!((survey.unreadable, survey.can_be_adopted()), (0, true), "{:?} {:?}", survey.findings, survey.before);
    let target = Target { seal: &|_, value| Ok(value), opened: &|store| store };
    std::fs::create_dir_all(&new).expect("a directory");
    let place = (false, "then".to_owned());
    transfer::into_directory(&upstream_store, &new.join("store"), place, &target, &mut |_, _| {})
        .await
        .expect("copied");
    std::fs::rename(old.join("members"), new.join("members")).expect("moved");

    let mut options = options(&new);
    on_disk(&mut options, &new);
    let world = World::simulated("2026-11-22T00:00:00Z".parse().expect("a time"), 8);
    let plane = ControlPlane::start_inside(&options, &world).await.expect("the control plane starts");
    assert!(plane.ready().await);
    // Members listen on new ports, if theirs are taken.
    plane.members().join(plane.client()).await.expect("the members are known");
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(workloads(&plane).await, members, "every write of this program carries a mark");
    assert_eq!(decided(plane.client(), &works()).await, works_before);
    assert_eq!(decided(plane.client(), &bindings()).await, bindings_before);
    plane.stop().await.expect("it stops");
}

fn karmada(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    let Output { status, stdout, stderr } =
        command.args(args).env("KARMADA_LOG", "error").env_remove("KUBECONFIG").output().expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.success(), text(stdout), text(stderr))
}

fn ok(args: &[&str]) -> String {
    let (success, out, err) = karmada(args);
    assert!(success, "karmada {args:?} failed\n{out}{err}");
    out
}

fn refused(args: &[&str]) -> String {
    let (success, out, err) = karmada(args);
    assert!(!success, "karmada {args:?} succeeded\n{out}");
    err
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// An etcd as a kube-apiserver leaves it.
async fn filled(etcd: &Process) -> EtcdStore {
    let settings = Settings {
        overrides: Vec::new(),
        servers: vec![etcd.url()],
        prefix: "/registry".to_owned(),
        authority: None,
        certificate: None,
        key: None,
        compaction: Duration::ZERO,
        sizes: Duration::ZERO,
    };
    let store = EtcdStore::open(settings.options().expect("options")).await.expect("etcd answers");
    upstream::fill(&store, upstream::plain()).await;
    upstream::fill(&store, upstream::leftovers()).await;
    store
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn an_etcd_is_checked_adopted_and_copied_both_ways() {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let (moved, in_place, removed) = (at("moved"), at("in-place"), at("removed.json"));
    let etcd = Process::start(&at("etcd"), &[]).expect("etcd starts");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(filled(&etcd));
    let servers = format!("--etcd-servers={}", etcd.url());

    let early = refused(&["apiserver", "--secure-port=0", &servers, "--data-dir", path(&at("early"))]);
    assert!(early.contains("prepare it with `karmada store adopt`"), "{early}");
    let revision = runtime.block_on(store.revision()).expect("etcd answers");
    let text = ok(&["store", "adopt", "--check", &servers]);
    for part in [
        "deployments.apps",
        "protobuf",
        "Not used:   1 key ranges",
        "1. mutatingwebhookconfiguration/mutating-config: it calls karmada-webhook",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let survey: Value =
        serde_json::from_str(&ok(&["store", "adopt", "--check", "-o", "json", &servers])).expect("JSON");
    assert_eq!(survey["resources"]["works.work.karmada.io"]["versions"]["v1alpha1"], 1);
    assert_eq!(runtime.block_on(store.revision()), Ok(revision), "a check writes nothing");

    let text = ok(&["store", "adopt", &servers, "--removed", path(&removed)]);
    assert!(text.contains("apiservice/v1alpha1.cluster.karmada.io removed"), "{text}");
    let list: Value = serde_json::from_slice(&std::fs::read(&removed).expect("the file")).expect("JSON");
    assert_eq!((list["kind"].as_str(), list["items"].as_array().map(Vec::len)), (Some("List"), Some(2)));

    let to_directory = ["store", "copy", "--to=data-dir", &servers, "--data-dir", path(&moved)];
    let planned = ok(&[&to_directory[..], &["--dry-run"]].concat());
    assert!(planned.contains("6 objects") && !moved.join("store").exists(), "{planned}");
    let text = ok(&to_directory);
    assert!(text.contains("6 objects") && text.contains("copied to"), "{text}");
    let again = refused(&to_directory);
    assert!(again.contains("use --replace"), "{again}");

    // In place: kube-apiserver's values are served, and changed.
    let server = Karmada::apiserver_with(&in_place, &[&servers]);
    assert!(server.ok(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"]).starts_with('0'));
    let listing = server.ok(&["get", "work,cluster,box", "-A", "-o", "name"]);
    for name in ["work.work.karmada.io/web-1", "cluster.cluster.karmada.io/m1", "box.example.io/b"] {
        assert!(listing.contains(name), "{name} is not in\n{listing}");
    }
    server.ok(&["label", "deployment", "web", "taken=over"]);
    let used = refused(&[&to_directory[..], &["--replace"]].concat());
    assert!(used.contains("a server of this program uses etcd"), "{used}");
    assert!(server.terminate());
    let key = Bytes::from_static(b"/registry/apps/deployments/default/web");
    let value = runtime.block_on(store.get(key, None)).expect("etcd answers").expect("it is there").value;
    assert!(
        value.starts_with(br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"#),
        "kube-apiserver reads it"
    );

    // The copy is a separate control plane, and is copied back into etcd under another prefix.
    let server = Karmada::apiserver(&moved);
    let before: u64 = version_of_web(&server);
    assert!(before <= revision, "resourceVersions are kept");
    server.ok(&["create", "configmap", "later"]);
    assert!(server.terminate());
    let (data_dir, back) = (path(&moved), "--etcd-prefix=/back");
    let planned = ok(&["store", "copy", "--to=etcd", &servers, back, "--data-dir", data_dir, "--dry-run"]);
    assert!(planned.contains("would be copied to /back of etcd"), "{planned}");
    let text = ok(&["store", "copy", "--to=etcd", &servers, back, "--data-dir", data_dir]);
    assert!(text.contains("copied to /back of etcd and compared"), "{text}");
    let without = refused(&["apiserver", "--secure-port=0", "--data-dir", data_dir]);
    assert!(without.contains("store.sqlite is missing"), "the old store is not started by mistake: {without}");
    let server = Karmada::apiserver_with(&moved, &[&servers, back]);
    assert!(version_of_web(&server) > before, "no resourceVersion goes backwards");
    server.ok(&["get", "configmap", "later"]);
    assert!(server.terminate());
}

fn version_of_web(server: &Karmada) -> u64 {
    let version = server.ok(&["get", "deployment", "web", "-o", "jsonpath={.metadata.resourceVersion}"]);
    version.parse().expect("a revision")
}
