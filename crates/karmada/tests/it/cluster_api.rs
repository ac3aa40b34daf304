//! `--cluster-api-kubeconfig`: clusters of a Cluster API management cluster are joined and unjoined.

use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use base64::Engine as _;
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use karmada::cluster_api::Settings;
use karmada::engine::Kind;
use karmada::member::{self, RunningMember};
use karmada::reach::Listen;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use serde_json::{Value, json};
use simulator::MemberOptions;
use world::World;

use crate::fleet::{Fleet, until};

const MARK: &str = "karmada-rs.io/cluster-api";

fn origins() -> ApiResource {
    ApiResource::namespaced("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters")
}

/// The management cluster, and Cluster API as far as it is read.
struct Management {
    member: RunningMember,
    client: Client,
}

impl Management {
    async fn start(directory: &std::path::Path) -> Self {
        let listen = Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, "management");
        let options = member::Options {
            data_dir: directory.join("management"),
            store: Kind::Memory,
            listen,
            member: MemberOptions::new("management"),
        };
        let member = RunningMember::start(options, &World::system()).await.expect("the management cluster starts");
        let client = member.client().clone();
        Self { member, client }
    }

    async fn install(&self) {
        let crds =
            ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "clusters.cluster.x-k8s.io"},
            "spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced",
                "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"},
                "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": schema}]}});
        self.client.create(&crds, &crd).await.expect("a definition");
    }

    /// A cluster with the kubeconfig of a member.
    async fn add(&self, name: &str, phase: &str, kubeconfig: &str) {
        let origin = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "default"}, "status": {"phase": phase}});
        until("the definition is served", async || self.client.create(&origins(), &origin).await.ok()).await;
        let text = base64::prelude::BASE64_STANDARD.encode(kubeconfig);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": format!("{name}-kubeconfig"), "namespace": "default"}, "data": {"value": text}});
        self.client.create(&secrets(), &secret).await.expect("a secret");
    }

    async fn patch(&self, name: &str, patch: Value) {
        let key = ObjectKey::namespaced("default", name);
        let patched = self.client.patch(&origins(), &key, &Patch::Merge(patch), &PatchOptions::default()).await;
        patched.expect("a changed cluster");
    }

    async fn delete(&self, name: &str) {
        let key = ObjectKey::namespaced("default", name);
        self.client.delete(&origins(), &key, &DeleteOptions::default()).await.expect("a deleted cluster");
    }
}

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

async fn cluster(control: &Client, name: &str) -> Option<Value> {
    let found = control.get_opt(&Cluster::api_resource(), &ObjectKey::cluster(name)).await.expect("an answer");
    found.map(|it: std::sync::Arc<Object>| it.to_value().expect("an object"))
}

/// Waits for the mark of a Cluster.
async fn marked(control: &Client, name: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    until(&format!("cluster {name} is joined"), async || {
        let found = cluster(control, name).await?;
        let mark = serde_json::from_str(found["metadata"]["annotations"][MARK].as_str()?).expect("a mark");
        is_right(&mark).then_some(mark)
    })
    .await
}

async fn events(control: &Client) -> String {
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let found = control.list(&events, Some("default"), &ListOptions::default()).await.expect("events");
    found.items.iter().map(|it| String::from_utf8_lossy(&it.json()).into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_a_management_cluster_are_joined_and_unjoined() {
    let directory = tempfile::tempdir().expect("a directory");
    let management = Management::start(directory.path()).await;
    let settings = Settings { kubeconfig: management.member.kubeconfig().to_owned(), context: None };
    let fleet = Fleet::start_with(&[], |options| options.cluster_api = Some(settings)).await;
    let control = fleet.plane.client();
    let (first, second, moved, last) =
        (fleet.member("m1").await, fleet.member("m2").await, fleet.member("m3").await, fleet.member("m4").await);
    let kubeconfig = |member: &RunningMember| std::fs::read_to_string(member.kubeconfig()).expect("a kubeconfig");
    // Cluster API is installed after the start.
    management.install().await;

    // Joined once it is provisioned.
    management.add("m1", "Provisioning", &kubeconfig(&first)).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(cluster(control, "m1").await.is_none());
    management.patch("m1", json!({"status": {"phase": "Provisioned"}})).await;
    let mark = marked(control, "m1", |_| true).await;
    assert_eq!((&mark["namespace"], &mark["name"]), (&json!("default"), &json!("m1")));
    fleet.reachable("m1").await;

    // A user's Cluster of the same name stays, and is reported.
    fleet.join(&second).await;
    management.add("m2", "Provisioned", &kubeconfig(&second)).await;
    until("the conflict is reported", async || events(control).await.contains("ClusterAPIConflict").then_some(()))
        .await;
    // Commands in a kubeconfig are not run.
    let hostile = json!({"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
        "clusters": [{"name": "b", "cluster": {"server": last.url()}}],
        "users": [{"name": "c", "user": {"exec": {"command": "touch", "args": ["/tmp/owned"]}}}]});
    management.add("hostile", "Provisioned", &hostile.to_string()).await;
    until("the command is reported", async || events(control).await.contains("it has exec").then_some(())).await;

    // A new kubeconfig is followed; one of another cluster is not.
    let renewed = |text: &str| json!({"data": {"value": base64::prelude::BASE64_STANDARD.encode(text)}});
    let of_first = ObjectKey::namespaced("default", "m1-kubeconfig");
    let options = PatchOptions::default();
    let patch = Patch::Merge(renewed(&format!("# renewed\n{}", kubeconfig(&first))));
    management.client.patch(&secrets(), &of_first, &patch, &options).await.expect("a new kubeconfig");
    let followed = marked(control, "m1", |it| it["kubeconfig"] != mark["kubeconfig"]).await;
    let patch = Patch::Merge(renewed(&kubeconfig(&last)));
    management.client.patch(&secrets(), &of_first, &patch, &options).await.expect("a wrong kubeconfig");
    until("it is refused", async || events(control).await.contains("leads to another cluster").then_some(())).await;
    let still = cluster(control, "m1").await.expect("a cluster");
    assert_eq!(still["spec"]["apiEndpoint"], first.url());
    assert_eq!(marked(control, "m1", |_| true).await, followed);

    // A moved cluster stays.
    management.add("m3", "Provisioned", &kubeconfig(&moved)).await;
    marked(control, "m3", |_| true).await;
    management.patch("m3", json!({"spec": {"paused": true}})).await;
    marked(control, "m3", |mark| mark["paused"] == true).await;
    management.delete("m3").await;
    until("the move is reported", async || events(control).await.contains("ClusterAPIMoved").then_some(())).await;

    // Deleted there, unjoined here; what is not ours stays.
    management.delete("m2").await;
    management.delete("m1").await;
    until("m1 is unjoined", async || cluster(control, "m1").await.is_none().then_some(())).await;

    // One that was deleted while no process was running is noticed by its mark.
    let mut stale = mark.clone();
    stale["name"] = json!("m2");
    let annotate = |mark: &Value| Patch::Merge(json!({"metadata": {"annotations": {MARK: mark.to_string()}}}));
    let cluster_of = |name: &str| ObjectKey::cluster(name);
    let patched = control.patch(&Cluster::api_resource(), &cluster_of("m2"), &annotate(&stale), &options).await;
    patched.expect("a mark");
    until("m2 is unjoined", async || cluster(control, "m2").await.is_none().then_some(())).await;

    // A moved one is taken over in its new management cluster.
    let mut moved_here = mark.clone();
    (moved_here["management"], moved_here["name"], moved_here["paused"]) = (json!("another"), json!("m3"), json!(true));
    let patched = control.patch(&Cluster::api_resource(), &cluster_of("m3"), &annotate(&moved_here), &options).await;
    patched.expect("a mark");
    let again = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": {"name": "m3", "namespace": "default"}, "status": {"phase": "Provisioned"}});
    management.client.create(&origins(), &again).await.expect("a moved cluster");
    marked(control, "m3", |it| it["management"] == mark["management"] && it["paused"] == false).await;

    // A management cluster that does not answer unjoins nothing.
    management.add("m4", "Provisioned", &kubeconfig(&last)).await;
    marked(control, "m4", |_| true).await;
    management.member.stop().await.expect("stopped");
    tokio::time::sleep(Duration::from_secs(5)).await;
    for name in ["m3", "m4"] {
        let left = cluster(control, name).await.unwrap_or_else(|| panic!("{name} was unjoined"));
        assert!(left["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    assert!(cluster(control, "hostile").await.is_none());
}
