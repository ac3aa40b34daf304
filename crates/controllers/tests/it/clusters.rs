//! Members that become unreachable and recover, as their Clusters report it; and the removal of a Cluster.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{DeleteOptions, ListOptions};
use controllers::Settings;
use http::StatusCode;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::names;
use karmada_api::scope::{Binding, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use tokio::time::Instant;
use transport::{ApiService, Request, Response};

use crate::by_hand::{bind, bindings, config_maps, demo, work_in};
use crate::harness::{MEMBERS, Plane, get, namespaces};
use crate::network::Sent;

async fn cluster(plane: &Plane) -> Value {
    plane.get(&Cluster::api_resource(), &ObjectKey::cluster("m1")).await.expect("the cluster")
}

fn ready(cluster: &Value) -> Value {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
}

fn taints(cluster: &Value) -> Vec<String> {
    let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|taint| format!("{}:{}", taint["key"], taint["effect"]).replace('"', "")).collect()
}

async fn until_ready_is(plane: &Plane, status: &str) -> (Value, Duration) {
    let started = Instant::now();
    let seen = plane
        .until(&format!("Ready is {status}"), async || {
            let cluster = cluster(plane).await;
            (ready(&cluster)["status"] == status).then_some(cluster)
        })
        .await;
    (seen, started.elapsed())
}

/// As after the service account of the control plane was deleted in the member.
/// Of a large fleet, half of which is lost.
#[tokio::test(start_paused = true)]
async fn members_that_do_not_answer_delay_no_others() {
    let names: Vec<String> = (0..300).map(|number| format!("lost{number}")).collect();
    let plane = Plane::of(&["m1"], Settings::default()).await;
    for name in &names {
        let silent = tower::service_fn(|_: Request| std::future::pending::<Result<Response, Infallible>>());
        plane.network.serve(name, ApiService::new(silent));
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "karmada-cluster"},
            "data": {"token": "dA==", "caBundle": "Y2E="}});
        plane.create(ApiResource::namespaced("", "v1", "Secret", "secrets"), secret).await;
        plane.join(name).await;
    }
    // All of them are being probed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    plane.join("m1").await;
    let (_, after) = until_ready_is(&plane, "True").await;
    assert!(after < Duration::from_secs(10), "the others time out after 32 s: {after:?}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_refuses_the_credentials_is_named_as_such() {
    let plane = Plane::start().await;
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| (sent.server == "m1").then_some(StatusCode::UNAUTHORIZED))));
    let (away, _) = until_ready_is(&plane, "False").await;
    assert_eq!(ready(&away)["reason"], "ClusterNotReachable");
    let away = ready(&away);
    let message = away["message"].as_str().unwrap_or_default();
    let expected = "cluster is not reachable: its API server answers 401 to Karmada's credentials (since ";
    assert!(message.starts_with(expected), "{message}");
    plane.network.set_answers(None);
    until_ready_is(&plane, "True").await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_push_member_turns_not_ready_and_ready_after_the_thresholds() {
    let plane = Plane::start().await;
    // The namespace of events of cluster-scoped objects.
    let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    plane.create(namespaces(), default).await;
    let joined = cluster(&plane).await;
    assert_eq!(ready(&joined)["reason"], "ClusterReady");
    assert_eq!(ready(&joined)["message"], "cluster is healthy and ready to accept workloads");

    plane.network.cut("m1");
    let (away, after) = until_ready_is(&plane, "False").await;
    assert!((30..=40).contains(&after.as_secs()), "{after:?}");
    assert_eq!(ready(&away)["reason"], "ClusterNotReachable");
    let message = ready(&away)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("cluster is not reachable (since 2026-11-21T00:0"), "{message}");
    assert!(message.contains(", last healthy at 2026-11-21T00:0"), "{message}");
    plane
        .until("new workloads are rejected", async || {
            (taints(&cluster(&plane).await) == ["cluster.karmada.io/not-ready:NoSchedule"]).then_some(())
        })
        .await;

    plane.network.heal("m1");
    let (_, after) = until_ready_is(&plane, "True").await;
    assert!((30..=40).contains(&after.as_secs()), "{after:?}");
    plane.until("the taint is gone", async || taints(&cluster(&plane).await).is_empty().then_some(())).await;

    let events = ApiResource::namespaced("", "v1", "Event", "events");
    plane.settle().await;
    let list = plane.client.list(&events, None, &ListOptions::default()).await.expect("events");
    let messages: Vec<String> = list
        .items
        .iter()
        .map(|event| event.to_value().expect("an event"))
        .filter(|event| event["reason"] == "TaintClusterSucceed" && event["involvedObject"]["name"] == "m1")
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    for expected in [
        "Taint cluster succeed: cluster now has taints([{Key:cluster.karmada.io/not-ready,Effect:NoSchedule}]).",
        "Taint cluster succeed: cluster now does not have taints.",
    ] {
        assert!(messages.iter().any(|message| message == expected), "{messages:?}");
    }
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_counted_by_new_resource_models_without_a_change_of_the_member() {
    let plane = Plane::start().await;
    let nodes = ApiResource::cluster("", "v1", "Node", "nodes");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
    plane.member("m1").create(&nodes, &node).await.expect("a node");
    let counted = async |counts: Value| {
        let what = format!("{counts} are the counts");
        plane
            .until(&what, async || {
                let modelings = cluster(&plane).await["status"]["resourceSummary"]["allocatableModelings"].take();
                let found: Vec<Value> = modelings.as_array()?.iter().map(|it| it["count"].clone()).collect();
                (json!(found) == counts).then_some(())
            })
            .await;
    };
    counted(json!([0, 0, 1, 0, 0, 0, 0, 0, 0])).await;

    let range = |min: &str, max: &str| json!([{"name": "cpu", "min": min, "max": max}]);
    let models =
        json!([{"grade": 0, "ranges": range("0", "8")}, {"grade": 1, "ranges": range("8", "9223372036854775807")}]);
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster("m1"));
    plane.merge(&resource, &key, json!({"spec": {"resourceModels": models}}), client::PatchOptions::default()).await;
    counted(json!([1, 0])).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_propagated_to_every_member() {
    let plane = Plane::of(&MEMBERS, Settings::default()).await;
    plane.join("m1").await;
    plane.until_ready("m1").await;
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    plane.create(namespaces(), namespace("shop")).await;
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    let shop = ObjectKey::cluster("shop");
    plane.until("shop in m1", async || get(&m1, &namespaces(), &shop).await).await;
    assert_eq!(get(&m2, &namespaces(), &shop).await, None);

    plane.join("m2").await;
    for name in ["shop", "demo"] {
        plane.until("a new member gets all", async || get(&m2, &namespaces(), &ObjectKey::cluster(name)).await).await;
    }
    plane.shutdown().await;
}

/// The token of a member is rotated: the connection is replaced, and changes in the member are observed over the new
/// one.
#[tokio::test(start_paused = true)]
async fn a_member_with_a_rotated_token_is_watched() {
    let plane = Plane::start().await;
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo"}, "data": {"k": "v"}});
    plane.create(maps.clone(), map("changed")).await;
    plane.create(maps.clone(), map("deleted")).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "maps", "namespace": "demo"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    plane.create(policies, policy).await;
    let m1 = plane.member("m1");
    let key = |name: &str| ObjectKey::namespaced("demo", name);
    for name in ["changed", "deleted"] {
        plane.until("a copy", async || get(&m1, &maps, &key(name)).await).await;
    }
    plane.settle().await;

    // There is no observation until the controllers reconcile the cluster with the new token.
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let token = json!({"data": {"token": "bmV3"}});
    plane
        .merge(&secrets, &ObjectKey::namespaced("karmada-cluster", "m1"), token, client::PatchOptions::default())
        .await;
    m1.delete(&maps, &key("deleted"), &DeleteOptions::background()).await.expect("the deletion");
    tokio::time::sleep(Duration::from_secs(15)).await;
    plane.until("the deleted copy is back", async || get(&m1, &maps, &key("deleted")).await).await;
    plane.settle().await;
    let patch = client::Patch::Merge(json!({"data": {"k": "other"}}));
    m1.patch(&maps, &key("changed"), &patch, &client::PatchOptions::default()).await.expect("a change");
    plane
        .until("the change is undone", async || {
            let copy = get(&m1, &maps, &key("changed")).await?;
            (copy["data"]["k"] == "v").then_some(())
        })
        .await;
    plane.shutdown().await;
}

/// Deletes a Work of m1, as the removal of its cluster does, and waits for its end.
async fn end(plane: &Plane, kind: &str, name: &str, namespace: &str) {
    let (works, key) =
        (Work::api_resource(), ObjectKey::namespaced("karmada-es-m1", names::work_name(kind, name, namespace)));
    plane.client.delete(&works, &key, &DeleteOptions::background()).await.expect("the deletion");
    plane.until("the Work ended", async || plane.get(&works, &key).await.is_none().then_some(())).await;
}

/// Keeps the controller from creating the Work of namespace `demo` again.
async fn skip_namespace(plane: &Plane) {
    let skip = json!({"metadata": {"labels": {"namespace.karmada.io/skip-auto-propagation": "true"}}});
    plane.merge(&namespaces(), &ObjectKey::cluster("demo"), skip, Default::default()).await;
}

/// The deletion of a namespace in the member would delete objects that are to be preserved in it.
#[tokio::test(start_paused = true)]
async fn a_namespace_with_preserved_objects_stays_in_the_member() {
    for namespace_first in [true, false] {
        let plane = Plane::start().await;
        bind(&plane, &["m1"]).await;
        let preserve = json!({"spec": {"preserveResourcesOnDeletion": true}});
        plane.merge(&bindings(), &demo("thing-configmap"), preserve, Default::default()).await;
        plane
            .until("the Work preserves it", async || {
                let work = plane.get(&Work::api_resource(), &work_in("m1")).await?;
                (work["spec"]["preserveResourcesOnDeletion"] == true).then_some(())
            })
            .await;
        skip_namespace(&plane).await;
        // Without its template, the binding does not create its Work again.
        let options = DeleteOptions::background();
        plane.client.delete(&config_maps(), &demo("thing"), &options).await.expect("the deletion");
        plane.settle().await;
        let member = plane.member("m1");
        if namespace_first {
            end(&plane, "Namespace", "demo", "").await;
            end(&plane, "ConfigMap", "thing", "demo").await;
        } else {
            end(&plane, "ConfigMap", "thing", "demo").await;
            let marked = get(&member, &namespaces(), &ObjectKey::cluster("demo")).await.expect("the namespace");
            assert_eq!(marked["metadata"]["annotations"]["karmada-rs.io/holds-preserved"], "true", "{marked}");
            end(&plane, "Namespace", "demo", "").await;
        }
        let map = get(&member, &config_maps(), &demo("thing")).await.expect("the preserved object");
        assert_eq!(map["metadata"]["labels"]["karmada.io/managed"], Value::Null, "{map}");
        let namespace = get(&member, &namespaces(), &ObjectKey::cluster("demo")).await.expect("the namespace");
        let metadata = &namespace["metadata"];
        assert_eq!(metadata["deletionTimestamp"], Value::Null, "{namespace}");
        assert_eq!(metadata["labels"]["karmada.io/managed"], Value::Null, "{namespace}");
        assert_eq!(metadata["annotations"]["karmada-rs.io/holds-preserved"], Value::Null, "{namespace}");
        plane.shutdown().await;
    }
}

/// As before: without preserved objects it goes, with everything in it.
#[tokio::test(start_paused = true)]
async fn a_namespace_without_preserved_objects_is_deleted_in_the_member() {
    let plane = Plane::start().await;
    bind(&plane, &["m1"]).await;
    skip_namespace(&plane).await;
    plane.settle().await;
    end(&plane, "Namespace", "demo", "").await;
    let member = plane.member("m1");
    let namespace = get(&member, &namespaces(), &ObjectKey::cluster("demo")).await;
    assert!(namespace.is_none_or(|it| it["metadata"]["deletionTimestamp"].is_string()));
    plane.shutdown().await;
}

/// A namespace that a policy selects is propagated by its binding alone, with the settings of the policy.
#[tokio::test(start_paused = true)]
async fn a_policy_decides_about_the_namespace_it_selects() {
    let plane = Plane::of(&MEMBERS, Settings::default()).await;
    plane.join("m1").await;
    plane.until_ready("m1").await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "demo"}, "spec": {"preserveResourcesOnDeletion": true, "conflictResolution": "Overwrite",
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "demo"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    plane.create(Policy::api_resource(Scope::Cluster), policy).await;
    let work = |cluster: &str| {
        ObjectKey::namespaced(names::execution_namespace(cluster), names::work_name("Namespace", "demo", ""))
    };
    let binding = Binding::api_resource(Scope::Cluster);
    plane.until("a binding", async || plane.get(&binding, &ObjectKey::cluster("demo-namespace")).await).await;
    let chosen = json!({"spec": {"clusters": [{"name": "m1"}]}});
    plane.merge(&binding, &ObjectKey::cluster("demo-namespace"), chosen, Default::default()).await;
    let preserves = async |cluster: &str| {
        plane.get(&Work::api_resource(), &work(cluster)).await.expect("a Work")["spec"]["preserveResourcesOnDeletion"]
            == true
    };
    plane.until("the binding's Work", async || preserves("m1").await.then_some(())).await;
    // All namespaces are synced to a new cluster, and to the others again.
    plane.join("m2").await;
    let member = plane.member("m2");
    plane.until("the new member", async || get(&member, &namespaces(), &ObjectKey::cluster("demo")).await).await;
    plane.settle().await;
    assert!(preserves("m1").await);
    assert!(!preserves("m2").await);
    plane.shutdown().await;
}

async fn works(plane: &Plane) -> Vec<Arc<Object>> {
    let list = plane.client.list(&Work::api_resource(), Some("karmada-es-m1"), &ListOptions::default()).await;
    list.expect("works").items
}

/// Does the namespace controller's part.
async fn end_works(plane: &Plane) {
    for work in works(plane).await {
        let deleted = plane.client.delete(&Work::api_resource(), &work.key(), &DeleteOptions::background()).await;
        deleted.expect("the deletion");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_stays_until_its_execution_namespace_is_gone() {
    let plane = Plane::start().await;
    // No namespace controller runs here.
    let space = ObjectKey::cluster("karmada-es-m1");
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster("m1"));
    plane.client.delete(&resource, &key, &DeleteOptions::background()).await.expect("the deletion");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let left = cluster(&plane).await;
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
    let namespace = plane.get(&namespaces(), &space).await.expect("the namespace");
    assert!(namespace["metadata"]["deletionTimestamp"].is_string(), "{namespace}");

    end_works(&plane).await;
    plane.until("the works are gone", async || works(&plane).await.is_empty().then_some(())).await;
    let finalize = "/api/v1/namespaces/karmada-es-m1/finalize";
    let mut namespace = plane.get(&namespaces(), &space).await.expect("the namespace");
    namespace["spec"]["finalizers"] = json!([]);
    plane.client.request(http::Method::PUT, finalize, Some(namespace)).await.expect("finalized");
    plane.until("the cluster is gone", async || plane.get(&resource, &key).await.is_none().then_some(())).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_works_of_a_leaving_cluster_end_when_it_is_not_ready() {
    let plane = Plane::start().await;
    plane.network.cut("m1");
    let key = ObjectKey::cluster("m1");
    plane.client.delete(&Cluster::api_resource(), &key, &DeleteOptions::background()).await.expect("the deletion");
    end_works(&plane).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!works(&plane).await.is_empty(), "it may answer again");
    until_ready_is(&plane, "False").await;
    let ended = plane.until("the works are gone", async || works(&plane).await.is_empty().then_some(()));
    tokio::time::timeout(Duration::from_secs(2), ended).await.expect("they wait for nothing more");
}

/// The agent's rights are in the execution namespace: it can finish only Works that are deleted before. No agent runs
/// here.
#[tokio::test(start_paused = true)]
async fn the_works_of_a_leaving_agent_end_before_their_namespace() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster("far"));
    let object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "far"},
        "spec": {"syncMode": "Pull"}});
    plane.create(resource.clone(), object).await;
    let healthy = json!({"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    plane.merge(&resource, &key, json!({"status": {"conditions": [healthy]}}), client::PatchOptions::status()).await;
    let space = names::execution_namespace("far");
    let work = ObjectKey::namespaced(space.as_str(), names::work_name("Namespace", "demo", ""));
    let works = Work::api_resource();
    plane.until("the Work", async || plane.get(&works, &work).await).await;
    let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    plane.merge(&works, &work, finalizers(&["karmada.io/execution-controller"]), Default::default()).await;

    plane.client.delete(&resource, &key, &DeleteOptions::background()).await.expect("the deletion");
    let ending = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    plane.until("the Work ends", async || plane.get(&works, &work).await.filter(|it| ending(it))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let of_works = ObjectKey::cluster(space);
    assert!(!ending(&plane.get(&namespaces(), &of_works).await.expect("the namespace")));
    plane.merge(&works, &work, finalizers(&[]), Default::default()).await;
    let ends = async || plane.get(&namespaces(), &of_works).await.is_none_or(|it| ending(&it)).then_some(());
    plane.until("the namespace ends", ends).await;
    assert!(plane.get(&works, &work).await.is_none(), "the Work was created again");
    plane.shutdown().await;
}

/// No agent runs here: the test writes an agent's reports.
#[tokio::test(start_paused = true)]
async fn a_pull_member_is_unknown_without_heartbeats() {
    let plane = Plane::start().await;
    let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    plane.create(namespaces(), default).await;
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster("far"));
    let object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "far"},
        "spec": {"syncMode": "Pull"}});
    plane.create(resource.clone(), object).await;
    let far = async || plane.get(&resource, &key).await.expect("the cluster");
    let until_unknown = async |reason: &str| {
        let started = Instant::now();
        let what = format!("{reason} is the reason");
        plane.until(&what, async || (ready(&far().await)["reason"] == reason).then_some(())).await;
        assert_eq!(ready(&far().await)["status"], "Unknown");
        plane
            .until("new workloads are rejected", async || {
                (taints(&far().await) == ["cluster.karmada.io/unreachable:NoSchedule"]).then_some(())
            })
            .await;
        started.elapsed().as_secs()
    };
    let after = until_unknown("ClusterStatusNeverUpdated").await;
    assert!((55..=70).contains(&after), "{after}");
    assert_eq!(ready(&far().await)["message"], "Cluster status controller never posted cluster status.");

    // The agent starts, reports, and renews its Lease for two minutes.
    let healthy = json!({"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    plane
        .merge(&resource, &key, json!({"status": {"conditions": [healthy.clone()]}}), client::PatchOptions::status())
        .await;
    let lease = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-cluster"}});
    let _ = plane.client.create(&namespaces(), &space).await;
    let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "far", "namespace": "karmada-cluster"}, "spec": {"holderIdentity": "far"}});
    plane.create(lease.clone(), object).await;
    let of_lease = ObjectKey::namespaced("karmada-cluster", "far");
    for turn in 0..12 {
        let renewed = json!({"spec": {"renewTime": format!("2026-01-01T00:00:{turn:02}.000000Z")}});
        plane.merge(&lease, &of_lease, renewed, client::PatchOptions::default()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(ready(&far().await)["status"], "True", "turn {turn}");
    }
    let after = until_unknown("ClusterStatusUnknown").await;
    assert!((25..=40).contains(&after), "{after}");
    let message = ready(&far().await)["message"].as_str().unwrap_or_default().to_owned();
    for part in [
        "Cluster status controller stopped posting cluster status. The last sign of the agent was observed at 2026-11-21T",
        "its Lease was renewed at 2026-01-01T00:00:11.000000Z, Ready was True (ClusterReady).",
    ] {
        assert!(message.contains(part), "{message}");
    }

    // A deleted Lease does not count as a heartbeat, and one that the monitor cannot read does not count as missing.
    plane.merge(&resource, &key, json!({"status": {"conditions": [healthy]}}), client::PatchOptions::status()).await;
    plane.until("it is back", async || (ready(&far().await)["status"] == "True").then_some(())).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    plane.client.delete(&lease, &of_lease, &DeleteOptions::background()).await.expect("the deletion");
    plane.network.cut(crate::network::CONTROL);
    tokio::time::sleep(Duration::from_secs(300)).await;
    plane.network.heal(crate::network::CONTROL);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ready(&far().await)["status"], "True");
    let after = until_unknown("ClusterStatusUnknown").await;
    assert!((5..=60).contains(&after), "{after}");
    let message = ready(&far().await)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("it has no Lease, Ready was True"), "{message}");
    plane.shutdown().await;
}
