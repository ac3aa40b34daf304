//! One application from its creation to its removal.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{ListOptions, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::harness::{Plane, get, writes};

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

fn web() -> ObjectKey {
    ObjectKey::namespaced("demo", "web")
}

fn binding() -> ObjectKey {
    ObjectKey::namespaced("demo", "web-deployment")
}

/// Replicas by weights of the two members.
fn weights(m1: i64, m2: i64) -> Value {
    let weight = |name: &str, weight: i64| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    let list = [("m1", m1), ("m2", m2)].into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| weight(name, n));
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": list.collect::<Vec<_>>()}}})
}

async fn change_policy(plane: &Plane, placement: Value) {
    let patch = json!({"spec": {"placement": placement}});
    plane.merge(&policies(), &ObjectKey::namespaced("demo", "pp"), patch, PatchOptions::default()).await;
}

async fn create_application(plane: &Plane) {
    plane
        .create(
            deployments(),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "demo"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}),
        )
        .await;
    plane
        .create(
            policies(),
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "pp", "namespace": "demo"}, "spec": {"placement": weights(1, 2),
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}}),
        )
        .await;
    for (member, replicas) in [("m1", 1), ("m2", 2)] {
        let client = plane.member(member);
        plane
            .until(&format!("web in {member}"), async || {
                let object = get(&client, &deployments(), &web()).await?;
                (object["spec"]["replicas"] == replicas).then_some(())
            })
            .await;
    }
    plane.settle().await;
}

#[tokio::test(start_paused = true)]
async fn an_application_is_propagated_and_its_status_aggregated() {
    let plane = Plane::start().await;
    create_application(&plane).await;

    let template = plane.get(&deployments(), &web()).await.expect("the template");
    assert_eq!(template["metadata"]["annotations"]["propagationpolicy.karmada.io/name"], "pp");
    for (member, ready) in [("m1", 1), ("m2", 2)] {
        let status = json!({"status": {"observedGeneration": 1, "replicas": ready, "readyReplicas": ready, "updatedReplicas": ready, "availableReplicas": ready}});
        let client = plane.member(member);
        client
            .patch(&deployments(), &web(), &Patch::Merge(status), &PatchOptions::status())
            .await
            .expect("the member's status");
    }
    plane
        .until("the status is aggregated", async || {
            let template = plane.get(&deployments(), &web()).await?;
            (template["status"]["readyReplicas"] == 3).then_some(())
        })
        .await;
    let bound = plane.get(&Binding::api_resource(Scope::Namespaced), &binding()).await.expect("the binding");
    let items = bound["status"]["aggregatedStatus"].as_array().expect("items");
    assert!(
        items.len() == 2 && items.iter().all(|item| item["applied"] == true && item["health"] == "Healthy"),
        "{items:?}"
    );
    assert!(
        bound["status"]["conditions"]
            .as_array()
            .expect("conditions")
            .iter()
            .any(|c| c["type"] == "FullyApplied" && c["status"] == "True")
    );

    change_policy(&plane, weights(0, 1)).await;
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    plane.until("web left m1", async || get(&m1, &deployments(), &web()).await.is_none().then_some(())).await;
    plane
        .until("web grew in m2", async || {
            (get(&m2, &deployments(), &web()).await?["spec"]["replicas"] == 3).then_some(())
        })
        .await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn edits_in_a_member_are_reverted_and_foreign_labels_kept() {
    let plane = Plane::start().await;
    create_application(&plane).await;
    let m1 = plane.member("m1");
    let edit = json!({"metadata": {"labels": {"theirs": "1"}}, "spec": {"replicas": 7}});
    m1.patch(&deployments(), &web(), &Patch::Merge(edit), &PatchOptions::default()).await.expect("the edit");
    let object = plane
        .until("the edit is undone", async || {
            let object = get(&m1, &deployments(), &web()).await?;
            (object["spec"]["replicas"] == 1).then_some(object)
        })
        .await;
    assert_eq!(object["metadata"]["labels"]["theirs"], "1");
    m1.delete(&deployments(), &web(), &client::DeleteOptions::background()).await.expect("the deletion");
    plane.until("it comes back", async || get(&m1, &deployments(), &web()).await).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_stays_managed_without_its_annotations() {
    let plane = Plane::start().await;
    create_application(&plane).await;
    let m1 = plane.member("m1");
    let original = get(&m1, &deployments(), &web()).await.expect("the Deployment")["metadata"]["annotations"].clone();
    let keys = ["work.karmada.io/namespace", "work.karmada.io/name", "resourcetemplate.karmada.io/uid"];
    for edit in [
        json!({keys[0]: null, keys[1]: null}),
        json!({keys[0]: "karmada-es-m2", keys[1]: "another"}),
        json!({keys[2]: "another"}),
    ] {
        let edit = Patch::Merge(json!({"metadata": {"annotations": edit}}));
        m1.patch(&deployments(), &web(), &edit, &PatchOptions::default()).await.expect("the edit");
        plane
            .until("the annotations are back", async || {
                let object = get(&m1, &deployments(), &web()).await?;
                keys.iter().all(|key| object["metadata"]["annotations"][key] == original[key]).then_some(())
            })
            .await;
    }
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn there_are_no_unneeded_writes() {
    let mut plane = Plane::start().await;
    create_application(&plane).await;
    // The namespace and the Deployment, once each.
    assert_eq!(writes(&plane.context, "m1"), 2);
    let work_key = ObjectKey::namespaced("karmada-es-m1", karmada_api::names::work_name("Deployment", "web", "demo"));
    let before = plane.get(&Work::api_resource(), &work_key).await.expect("the work");
    let synced = synced(&plane).await;
    assert!(!synced.is_empty());

    plane.restart_controllers().await;
    plane
        .until("new controllers look at the members", async || plane.context.members().connected("m1").map(|_| ()))
        .await;
    plane.settle().await;
    assert_eq!(writes(&plane.context, "m1"), 0);
    let after = plane.get(&Work::api_resource(), &work_key).await.expect("the work");
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(self::synced(&plane).await, synced, "nothing is recorded again");
    plane.shutdown().await;
}

/// The objects with an event that their Works were written, and how often it was recorded.
async fn synced(plane: &Plane) -> Vec<(String, Value)> {
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    plane.settle().await;
    let list = plane.client.list(&events, None, &ListOptions::default()).await.expect("events");
    let all = list.items.iter().map(|event| event.to_value().expect("an event"));
    let written = all.filter(|event| event["reason"] == "SyncWorkSucceed");
    written.map(|event| (event["involvedObject"]["kind"].to_string(), event["count"].clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_object_is_unchanged() {
    let plane = Plane::start().await;
    let m1 = plane.member("m1");
    plane
        .until("namespace in m1", async || get(&m1, &crate::harness::namespaces(), &ObjectKey::cluster("demo")).await)
        .await;
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let key = ObjectKey::namespaced("demo", "settings");
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "demo"}, "data": {"k": value}});
    m1.create(&config_maps, &map("theirs")).await.expect("their object");
    plane.create(config_maps.clone(), map("ours")).await;
    plane
        .create(
            policies(),
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "pp", "namespace": "demo"}, "spec": {"placement": {},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}]}}),
        )
        .await;
    let (resource, binding) =
        (Binding::api_resource(Scope::Namespaced), ObjectKey::namespaced("demo", "settings-configmap"));
    let items = plane
        .until("both are reported", async || {
            let items = plane.get(&resource, &binding).await?["status"]["aggregatedStatus"].as_array()?.clone();
            (items.len() == 2 && items[1]["applied"] == true).then_some(items)
        })
        .await;
    assert_ne!(items[0]["applied"], true);
    assert!(items[0]["appliedMessage"].as_str().expect("a message").contains("already exists in the cluster m1"));
    assert_eq!(get(&m1, &config_maps, &key).await.expect("still there")["data"]["k"], "theirs");

    // Without the policy the binding removes only its own copies. With the policy it would be recreated.
    let policy = ObjectKey::namespaced("demo", "pp");
    plane.client.delete(&policies(), &policy, &client::DeleteOptions::default()).await.expect("the deletion");
    plane.until("released", async || plane.get(&policies(), &policy).await.is_none().then_some(())).await;
    plane.client.delete(&resource, &binding, &client::DeleteOptions::default()).await.expect("the deletion");
    let m2 = plane.member("m2");
    plane.until("gone from m2", async || get(&m2, &config_maps, &key).await.is_none().then_some(())).await;
    plane.settle().await;
    assert!(get(&m1, &config_maps, &key).await.is_some());
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_with_another_name_replaces_the_former_one() {
    let plane = Plane::start().await;
    create_application(&plane).await;
    let renamed = ObjectKey::namespaced("demo", "renamed");
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    let overrides = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies");
    let rename = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "rename", "namespace": "demo"}, "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [
                {"path": "/metadata/name", "operator": "replace", "value": "renamed"}]}}]}});
    let rename = plane.create(overrides.clone(), rename).await.key();
    let only = async |there: &ObjectKey, gone: &ObjectKey| {
        get(&m1, &deployments(), there).await?;
        get(&m1, &deployments(), gone).await.is_none().then_some(())
    };
    plane.until("the copy has the new name alone", async || only(&renamed, &web()).await).await;
    plane.client.delete(&overrides, &rename, &client::DeleteOptions::default()).await.expect("the deletion");
    plane.until("the copy has the former name alone", async || only(&web(), &renamed).await).await;
    assert!(get(&m2, &deployments(), &web()).await.is_some(), "the override is of another cluster");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_renamed_copy_does_not_replace_that_of_another_template() {
    let plane = Plane::start().await;
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    for name in ["mine", "theirs"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo"}, "data": {"of": name}});
        plane.create(maps.clone(), map).await;
    }
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "maps", "namespace": "demo"}, "spec": {"placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]}});
    plane.create(policies(), policy).await;
    let (m1, mine, theirs) =
        (plane.member("m1"), ObjectKey::namespaced("demo", "mine"), ObjectKey::namespaced("demo", "theirs"));
    let both = async || {
        get(&m1, &maps, &mine).await?;
        get(&m1, &maps, &theirs).await
    };
    plane.until("both copies exist", both).await;
    plane.settle().await;
    let overrides = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies");
    let rename = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "rename", "namespace": "demo"}, "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "mine"}],
            "overrideRules": [{"overriders": {"plaintext": [
                {"path": "/metadata/name", "operator": "replace", "value": "theirs"}]}}]}});
    plane.create(overrides, rename).await;
    let resource = Binding::api_resource(Scope::Namespaced);
    let refused = async || {
        let binding = plane.get(&resource, &ObjectKey::namespaced("demo", "mine-configmap")).await?;
        let message = binding["status"]["aggregatedStatus"][0]["appliedMessage"].as_str()?.to_owned();
        message.contains("belongs to ResourceBinding demo/theirs-configmap").then_some(())
    };
    plane.until("the conflict is reported", refused).await;
    plane.settle().await;
    assert_eq!(get(&m1, &maps, &theirs).await.expect("it stays")["data"]["of"], "theirs");
    assert!(get(&m1, &maps, &mine).await.is_some(), "the former copy stays until its successor is written");
    plane.shutdown().await;
}

/// A policy has its own ID under the label of a claim. The API server refuses to change it there.
#[tokio::test(start_paused = true)]
async fn a_deleted_policy_that_selects_policies_does_not_release_itself() {
    let plane = Plane::start().await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "of-policies", "namespace": "demo", "finalizers": ["example.com/held"]},
        "spec": {"placement": weights(1, 1), "resourceSelectors": [
            {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}]}});
    let (key, id) = (ObjectKey::namespaced("demo", "of-policies"), "propagationpolicy.karmada.io/permanent-id");
    plane.create(policies(), policy).await;
    plane.settle().await;
    plane.client.delete(&policies(), &key, &client::DeleteOptions::default()).await.expect("the deletion");
    let released = async || {
        let policy = plane.get(&policies(), &key).await?;
        (policy["metadata"]["finalizers"] == json!(["example.com/held"])).then_some(policy)
    };
    let policy = plane.until("our finalizer is removed", released).await;
    assert!(policy["metadata"]["labels"][id].is_string(), "{policy}");
    plane.shutdown().await;
}

/// Such a kind cannot be listed.
#[tokio::test(start_paused = true)]
async fn a_policy_that_selects_a_kind_without_objects_can_be_deleted() {
    let plane = Plane::start().await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "of-requests", "namespace": "demo"},
        "spec": {"placement": weights(1, 1), "resourceSelectors": [{"apiVersion": "v1", "kind": "Binding"}]}});
    let key = plane.create(policies(), policy).await.key();
    plane.settle().await;
    plane.client.delete(&policies(), &key, &client::DeleteOptions::default()).await.expect("the deletion");
    plane.until("the policy is gone", async || plane.get(&policies(), &key).await.is_none().then_some(())).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_policy_keeps_the_copies() {
    let plane = Plane::start().await;
    create_application(&plane).await;
    let key = ObjectKey::namespaced("demo", "pp");
    plane.client.delete(&policies(), &key, &client::DeleteOptions::default()).await.expect("the deletion");
    plane.until("the policy is gone", async || plane.get(&policies(), &key).await.is_none().then_some(())).await;
    plane.settle().await;
    let id = "propagationpolicy.karmada.io/permanent-id";
    let template = plane.get(&deployments(), &web()).await.expect("the template");
    let bound = plane.get(&Binding::api_resource(Scope::Namespaced), &binding()).await.expect("the binding");
    for object in [&template, &bound] {
        assert!(object["metadata"]["labels"][id].is_null(), "{object}");
    }
    assert_eq!(bound["spec"]["clusters"].as_array().map(Vec::len), Some(2));
    for member in ["m1", "m2"] {
        assert!(get(&plane.member(member), &deployments(), &web()).await.is_some());
    }
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn works_of_an_unreachable_cluster_are_applied_after_its_recovery() {
    let plane = Plane::start().await;
    create_application(&plane).await;
    plane.network.cut("m1");
    let m1 = ObjectKey::cluster("m1");
    let ready = async |expected: &str| {
        let cluster = plane.get(&Cluster::api_resource(), &m1).await?;
        let conditions = cluster["status"]["conditions"].as_array()?.clone();
        conditions.iter().find(|c| c["type"] == "Ready" && c["status"] == expected).map(|_| cluster)
    };
    let cluster = plane.until("m1 is not ready", async || ready("False").await).await;
    assert!(!cluster["status"]["conditions"].to_string().contains("ClusterReady"));
    let tainted = async || {
        let cluster = plane.get(&Cluster::api_resource(), &m1).await?;
        (cluster["spec"]["taints"][0]["key"] == "cluster.karmada.io/not-ready").then_some(())
    };
    plane.until("m1 is tainted", tainted).await;

    change_policy(&plane, weights(5, 1)).await;
    plane.merge(&deployments(), &web(), json!({"spec": {"replicas": 6}}), PatchOptions::default()).await;
    let m2 = plane.member("m2");
    let replicas = async |client: &client::Client, expected: i64| {
        (get(client, &deployments(), &web()).await?["spec"]["replicas"] == expected).then_some(())
    };
    plane.until("m2 follows alone", async || replicas(&m2, 1).await).await;
    let m1_client = plane.member("m1");
    assert!(replicas(&m1_client, 1).await.is_some(), "m1 keeps what it has");

    plane.network.heal("m1");
    plane.until("m1 is ready again", async || ready("True").await).await;
    plane.until("m1 follows", async || replicas(&m1_client, 5).await).await;
    plane.shutdown().await;
}

/// Requests to the control plane for each of many templates, except events, with two clusters and one status change in
/// each: the claim, the binding with the scheduler's result and status, two Works, two statuses of each Work (applied,
/// then the change), the binding's status and the template's.
#[tokio::test(start_paused = true)]
async fn a_template_costs_few_requests() {
    const TEMPLATES: u64 = 20;
    let plane = Plane::start().await;
    plane.settle().await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "pp", "namespace": "demo"}, "spec": {"placement": weights(1, 1),
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}});
    plane.create(policies(), policy).await;
    plane.settle().await;
    let (before, transactions) = (plane.requests(), plane.network.transactions());
    for n in 0..TEMPLATES {
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("web-{n}"), "namespace": "demo"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
        plane.create(deployments(), template).await;
    }
    plane.settle().await;
    for member in ["m1", "m2"] {
        let client = plane.member(member);
        for n in 0..TEMPLATES {
            let key = ObjectKey::namespaced("demo", format!("web-{n}"));
            let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}});
            let patch = Patch::Merge(status);
            client.patch(&deployments(), &key, &patch, &PatchOptions::status()).await.expect("the member's status");
        }
    }
    plane.settle().await;
    let transactions = (plane.network.transactions() - transactions) as f64 / TEMPLATES as f64;
    // The claim with the binding, the Works, four statuses of Works, and twice the binding's status with the
    // template's.
    assert!(transactions <= 8.0, "{transactions} transactions for each template");
    let spent: Vec<_> = plane
        .requests()
        .into_iter()
        .map(|(what, count)| {
            let earlier = before.get(&what).copied().unwrap_or(0);
            (what, count - earlier)
        })
        .collect();
    let total: u64 = spent.iter().map(|(_, count)| count).sum();
    let each = total as f64 / TEMPLATES as f64;
    assert!(each <= 13.0, "{each} requests for each template: {spent:?}");
    let of = |what: &str| spent.iter().find(|(known, _)| known == what).map_or(0, |(_, count)| *count);
    for (what, for_each) in [
        ("patch deployments.apps", 1),
        ("create resourcebindings.work.karmada.io", 1),
        ("patch resourcebindings.work.karmada.io", 0),
        ("update resourcebindings.work.karmada.io", 0),
        ("create works.work.karmada.io", 2),
        ("update works.work.karmada.io", 0),
    ] {
        assert_eq!(of(what), for_each * TEMPLATES, "{what}: {spent:?}");
    }
    for member in ["m1", "m2"] {
        // The namespace, and each Deployment once.
        assert_eq!(writes(&plane.context, member), TEMPLATES + 1);
    }
    plane.shutdown().await;
}
