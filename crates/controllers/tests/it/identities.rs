//! Clusters with wrong endpoints: the control plane itself, a member under another name, a cluster that replaced a
//! member. Nothing is written or deleted there.

use std::time::Duration;

use apimachinery::ObjectKey;
use client::{DeleteOptions, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::by_hand::{bind, bindings, config_maps, demo, targets};
use crate::harness::{CONTROL_PLANE, Plane, get, namespaces};

fn system() -> ObjectKey {
    ObjectKey::cluster("kube-system")
}

async fn with_system(client: &client::Client) -> String {
    if let Some(there) = get(client, &namespaces(), &system()).await {
        return there["metadata"]["uid"].as_str().expect("a UID").to_owned();
    }
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
    client.create(&namespaces(), &object).await.expect("created").uid().to_owned()
}

/// A control plane and `m1`, both with a namespace kube-system, not joined. Returns the UIDs of the two.
async fn start() -> (Plane, String, String) {
    let plane = Plane::of(&["m1"], controllers::Settings::default()).await;
    let (own, member) = (with_system(&plane.client).await, with_system(&plane.member("m1")).await);
    // Deleted namespaces are emptied.
    let stop = tokio_util::sync::CancellationToken::new();
    let informers = controller_runtime::InformerSet::until(plane.client.clone(), plane.world.clone(), stop.clone());
    let (settings, selection) = (kube_controllers::Settings::default(), ["namespace-controller".to_owned()]);
    kube_controllers::start(plane.client.clone(), &informers, settings, &selection, stop).expect("it starts");
    (plane, own, member)
}

/// A Cluster created manually, without an ID.
async fn join_as(plane: &Plane, name: &str, endpoint: &str) {
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{endpoint}"), "insecureSkipTLSVerification": true,
        "secretRef": {"namespace": "karmada-cluster", "name": "m1"}}});
    plane.create(Cluster::api_resource(), cluster).await;
}

async fn cluster(plane: &Plane, name: &str) -> Value {
    plane.get(&Cluster::api_resource(), &ObjectKey::cluster(name)).await.expect("the cluster")
}

/// Waits for a reason of the Ready condition; returns its message.
async fn until_refused(plane: &Plane, name: &str, reason: &str) -> String {
    plane
        .until(&format!("{name}: {reason}"), async || {
            let cluster = cluster(plane, name).await;
            let conditions = cluster["status"]["conditions"].as_array()?;
            let ready = conditions.iter().find(|it| it["type"] == "Ready" && it["reason"] == reason)?;
            assert_eq!(ready["status"], "False");
            Some(ready["message"].as_str()?.to_owned())
        })
        .await
}

/// A Work for `demo/thing`, as an earlier version wrote it for a Cluster of this name.
async fn dispatch(plane: &Plane, cluster: &str) -> ObjectKey {
    let namespace = format!("karmada-es-{cluster}");
    let key = ObjectKey::cluster(namespace.as_str());
    plane.until("the execution namespace", async || plane.get(&namespaces(), &key).await).await;
    let labels = json!({"karmada.io/managed": "true"});
    let annotations = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"by": "the Work"}, "metadata": {
        "name": "thing", "namespace": "demo", "labels": labels, "annotations": annotations}});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "thing", "namespace": namespace, "finalizers": ["karmada.io/execution-controller"]},
        "spec": {"workload": {"manifests": [manifest]}}});
    plane.create(Work::api_resource(), work).await.key()
}

async fn leave(plane: &Plane, name: &str) {
    let key = ObjectKey::cluster(name);
    plane.client.delete(&Cluster::api_resource(), &key, &DeleteOptions::background()).await.expect("a deletion");
    plane
        .until("the cluster is gone", async || plane.get(&Cluster::api_resource(), &key).await.is_none().then_some(()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_member_without_an_id_gets_it_and_is_read_once() {
    let (plane, _, uid) = start().await;
    join_as(&plane, "m1", "m1").await;
    plane.until_ready("m1").await;
    assert_eq!(cluster(&plane, "m1").await["spec"]["id"], json!(uid));
    bind(&plane, &["m1"]).await;
    plane.network.record(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let system = |line: &&String| line.contains("namespaces/kube-system");
    assert_eq!(plane.network.recorded().iter().filter(system).collect::<Vec<_>>(), Vec::<&String>::new());
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_its_own_member_is_unchanged() {
    let (plane, own, _) = start().await;
    // The state after an earlier version applied a template to its own control plane.
    let thing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo",
        "labels": {"karmada.io/managed": "true"}}, "data": {"by": "the user"}});
    let template = plane.create(config_maps(), thing).await;
    join_as(&plane, "itself", CONTROL_PLANE).await;
    let message = until_refused(&plane, "itself", "ClusterIsControlPlane").await;
    for part in ["cluster itself is this control plane itself", &own, "karmadactl unjoin itself"] {
        assert!(message.contains(part), "{message}");
    }
    let work = dispatch(&plane, "itself").await;
    plane.settle().await;
    // A Ready condition of an earlier version, or one that another process wrote.
    let condition = json!({"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
        "lastTransitionTime": "2026-11-21T00:00:00Z"});
    let ready = json!({"status": {"conditions": [condition]}});
    let key = ObjectKey::cluster("itself");
    plane.merge(&Cluster::api_resource(), &key, ready, PatchOptions::status()).await;
    let applied = plane
        .until("the Work is not applied", async || {
            let work = plane.get(&Work::api_resource(), &work).await?;
            work["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == "Applied").cloned()
        })
        .await;
    assert_eq!(applied["status"], "False");
    let message = applied["message"].as_str().unwrap_or_default();
    assert!(message.contains("this control plane itself"), "{message}");
    leave(&plane, "itself").await;
    let found = plane.get(&config_maps(), &demo("thing")).await.expect("the template is there");
    assert_eq!(found, template.to_value().expect("JSON"), "it is unchanged");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_under_a_second_name_is_not_written_to() {
    let (plane, _, uid) = start().await;
    join_as(&plane, "m1", "m1").await;
    plane.until_ready("m1").await;
    bind(&plane, &["m1"]).await;
    join_as(&plane, "twin", "m1").await;
    let message = until_refused(&plane, "twin", "ClusterJoinedTwice").await;
    for part in ["cluster twin is already joined as m1", &uid, "karmadactl unjoin twin"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(cluster(&plane, "twin").await["spec"].get("id"), None);
    dispatch(&plane, "twin").await;
    plane.settle().await;
    leave(&plane, "twin").await;
    let copy = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the copy of m1");
    assert_eq!(copy.get("data"), None);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_in_the_place_of_a_member_is_written_to_once_the_user_accepts_it() {
    let (mut plane, _, old) = start().await;
    join_as(&plane, "m1", "m1").await;
    plane.until_ready("m1").await;
    bind(&plane, &["m1"]).await;
    plane.network.cut("m1");
    tokio::time::sleep(Duration::from_secs(15)).await;
    plane.replace_member("m1").await;
    let member = plane.member("m1");
    let new = with_system(&member).await;
    plane.network.heal("m1");
    let message = until_refused(&plane, "m1", "ClusterReplaced").await;
    assert!(message.contains(&old) && message.contains(&new), "{message}");
    plane.settle().await;
    assert_eq!(get(&member, &namespaces(), &ObjectKey::cluster("demo")).await, None, "nothing is written");

    let accepted = json!({"spec": {"id": new}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster("m1"), accepted, PatchOptions::default()).await;
    plane.until_ready("m1").await;
    plane.until("the copy", async || get(&member, &config_maps(), &demo("thing")).await).await;
    plane.shutdown().await;
}

/// A name or an address that led elsewhere for a while is corrected: no probe fails, and nothing of the Cluster changes.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_in_its_place_again_is_ready() {
    let (mut plane, _, _) = start().await;
    join_as(&plane, "m1", "m1").await;
    plane.until_ready("m1").await;
    let service = plane.service_of("m1");
    plane.network.cut("m1");
    tokio::time::sleep(Duration::from_secs(15)).await;
    plane.replace_member("m1").await;
    with_system(&plane.member("m1")).await;
    plane.network.heal("m1");
    until_refused(&plane, "m1", "ClusterReplaced").await;
    plane.network.serve("m1", service);
    plane.until_ready("m1").await;
    plane.shutdown().await;
}

/// Missing knowledge is no reason to reject.
#[tokio::test(start_paused = true)]
async fn a_member_without_a_readable_identity_is_accepted() {
    let plane = Plane::of(&["m1"], controllers::Settings::default()).await;
    with_system(&plane.client).await;
    join_as(&plane, "m1", "m1").await;
    plane.until_ready("m1").await;
    bind(&plane, &["m1"]).await;
    assert_eq!(get(&plane.member("m1"), &namespaces(), &system()).await, None);
    assert_eq!(cluster(&plane, "m1").await["spec"].get("id"), None);
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&[]), PatchOptions::default()).await;
    let m1 = plane.member("m1");
    plane
        .until("the copy is gone", async || get(&m1, &config_maps(), &demo("thing")).await.is_none().then_some(()))
        .await;
    plane.shutdown().await;
}
