//! Failures of controllers are reported in statuses and events.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{ListOptions, Patch, PatchOptions};
use http::{Method, StatusCode};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::by_hand::{bind, bindings, config_maps, demo, targets, work_in};
use crate::harness::{Plane, namespaces};
use crate::network::Sent;

/// The namespace of events of cluster-scoped objects.
async fn with_default_namespace() -> Plane {
    let plane = Plane::start().await;
    let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    plane.create(namespaces(), default).await;
    plane
}

/// The messages of all events with a reason about an object.
pub async fn messages_of(plane: &Plane, reason: &str, name: &str) -> Vec<String> {
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let list = plane.client.list(&events, None, &ListOptions::default()).await.expect("events");
    let events = list.items.iter().map(|event| event.to_value().expect("an event"));
    events
        .filter(|event| event["reason"] == reason && event["involvedObject"]["name"] == name)
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn ready(cluster: &Value) -> Option<&Value> {
    cluster["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Ready")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_tainted() {
    let plane = with_default_namespace().await;
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
        let taints = sent.method == Method::PATCH && sent.path.ends_with("/clusters/m1");
        taints.then_some(StatusCode::SERVICE_UNAVAILABLE)
    })));
    plane.network.cut("m1");
    plane
        .until("it is reported", async || {
            let messages = messages_of(&plane, "TaintClusterFailed", "m1").await;
            messages.iter().any(|it| it.contains("writing cluster m1: the server answered 503")).then_some(())
        })
        .await;
    let taints = async || {
        let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster("m1")).await.expect("the cluster");
        cluster["spec"]["taints"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(taints().await, 0);
    plane.network.set_answers(None);
    plane.until("it is done", async || (taints().await == 1).then_some(())).await;
    plane.shutdown().await;
}

/// Members that answer the probe, and not with 200.
#[tokio::test(start_paused = true)]
async fn an_unhealthy_member() {
    for (code, reason, expected) in [
        (StatusCode::ACCEPTED, "ClusterNotReady", "cluster is reachable but health endpoint responded without ok"),
        (
            StatusCode::UNAUTHORIZED,
            "ClusterNotReachable",
            "cluster is not reachable: its API server answers 401 to Karmada's credentials",
        ),
        (StatusCode::BAD_GATEWAY, "ClusterNotReachable", "cluster is not reachable"),
    ] {
        let plane = with_default_namespace().await;
        plane.network.set_answers(Some(Arc::new(move |sent: &Sent| {
            (sent.server == "m1" && sent.path == "/readyz").then_some(code)
        })));
        let key = ObjectKey::cluster("m1");
        let condition = plane
            .until("it is not ready", async || {
                let cluster = plane.get(&Cluster::api_resource(), &key).await?;
                ready(&cluster).filter(|ready| ready["status"] == "False").cloned()
            })
            .await;
        assert_eq!(condition["reason"], reason);
        let message = condition["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(&format!("{expected} (since 2026-")), "{message}");
        plane.shutdown().await;
    }
}

/// A member is never reached without credentials.
#[tokio::test(start_paused = true)]
async fn a_member_without_a_token() {
    let plane = with_default_namespace().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bare", "namespace": "karmada-cluster"},
        "data": {"token": "", "caBundle": "Y2E="}});
    plane.create(ApiResource::namespaced("", "v1", "Secret", "secrets"), secret).await;
    plane.join("bare").await;
    let condition = plane
        .until("it is not ready", async || {
            let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster("bare")).await?;
            ready(&cluster).filter(|ready| ready["status"] == "False").cloned()
        })
        .await;
    assert_eq!(condition["reason"], "StatusCollectionFailed");
    let why = "the secret for cluster bare is missing a non-empty value for \"token\"";
    assert_eq!(condition["message"], format!("failed to create a ClusterClient: {why}"));
    plane.shutdown().await;
}

/// An event needs the UID of its object, which one that is in no control plane does not have.
#[tokio::test(start_paused = true)]
async fn a_member_gets_an_object_without_a_template() {
    let plane = with_default_namespace().await;
    let manifest = |name: &str, uid: &str| {
        let annotations = json!({"resourcetemplate.karmada.io/uid": uid});
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "demo", "annotations": annotations}})
    };
    let manifests = [manifest("made", ""), manifest("known", "u1")];
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "both", "namespace": "karmada-es-m1"}, "spec": {"workload": {"manifests": manifests}}});
    plane.create(Work::api_resource(), work).await;
    plane
        .until("there is an event", async || {
            (!messages_of(&plane, "SyncSucceed", "known").await.is_empty()).then_some(())
        })
        .await;
    plane.settle().await;
    let of_known = messages_of(&plane, "SyncSucceed", "known").await;
    assert_eq!(of_known, ["Successfully applied resource(demo/known) to cluster m1"]);
    assert_eq!(messages_of(&plane, "SyncSucceed", "made").await, Vec::<String>::new());
    plane.shutdown().await;
}

/// A healthy member whose discovery fails: its API enablements stay, and are no longer reported as complete.
#[tokio::test(start_paused = true)]
async fn a_member_whose_discovery_fails() {
    let plane = with_default_namespace().await;
    let complete = async |status: &str| {
        let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster("m1")).await?;
        let conditions = cluster["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|it| it["type"] == "CompleteAPIEnablements" && it["status"] == status)?;
        Some((cluster["status"]["apiEnablements"].as_array()?.clone(), found.clone()))
    };
    let (before, _) = plane.until("it is complete", async || complete("True").await).await;
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
        (sent.server == "m1" && ["/api", "/apis"].contains(&&*sent.path)).then_some(StatusCode::INTERNAL_SERVER_ERROR)
    })));
    let (kept, condition) = plane.until("it is incomplete", async || complete("False").await).await;
    assert_eq!(kept, before);
    assert_eq!(condition["reason"], "Partial");
    let message = format!("might collect partial APIEnablements({}) from the cluster", before.len());
    assert_eq!(condition["message"], message);
    plane.network.set_answers(None);
    plane.until("it is complete again", async || complete("True").await).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written() {
    let plane = with_default_namespace().await;
    bind(&plane, &["m1"]).await;
    assert_eq!(messages_of(&plane, "AggregateStatusFailed", "thing-configmap").await, [""; 0]);
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
        let of_binding = sent.path.ends_with("/resourcebindings/thing-configmap/status");
        of_binding.then_some(StatusCode::SERVICE_UNAVAILABLE)
    })));
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m1", "m2"]), Default::default()).await;
    plane
        .until("it is reported", async || {
            let messages = messages_of(&plane, "AggregateStatusFailed", "thing-configmap").await;
            let expected = "writing the status of ResourceBinding demo/thing-configmap: the server answered 503";
            messages.iter().any(|it| it.starts_with(expected)).then_some(())
        })
        .await;
    plane.network.set_answers(None);
    plane
        .until("it is written", async || {
            let binding = plane.get(&bindings(), &demo("thing-configmap")).await?;
            (binding["status"]["aggregatedStatus"].as_array()?.len() == 2).then_some(())
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    plane.shutdown().await;
}

/// Another writer of a Work was faster, as its status is written at any time.
#[tokio::test(start_paused = true)]
async fn a_work_that_changes_meanwhile() {
    let plane = with_default_namespace().await;
    bind(&plane, &["m1"]).await;
    let overtake = |times: usize| {
        let (left, client) = (Arc::new(AtomicUsize::new(times)), plane.client.clone());
        plane.network.set_guard(Arc::new(move |sent: Sent| {
            let (left, client) = (left.clone(), client.clone());
            Box::pin(async move {
                let name = sent.path.strip_prefix("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-m1/works/");
                let name =
                    name.filter(|name| sent.method == Method::PUT && name.starts_with("thing-") && !name.contains('/'));
                if let Some(name) = name
                    && let Ok(left) = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                {
                    let label = Patch::Merge(json!({"metadata": {"labels": {"left": left.to_string()}}}));
                    let key = ObjectKey::namespaced("karmada-es-m1", name);
                    client.patch(&Work::api_resource(), &key, &label, &Default::default()).await.expect("patched");
                }
            })
        }));
    };
    let resolve = async |how: &str| {
        let change = json!({"spec": {"conflictResolution": how}});
        plane.merge(&bindings(), &demo("thing-configmap"), change, Default::default()).await;
    };
    let failures = async || messages_of(&plane, "SyncWorkFailed", "thing-configmap").await;
    overtake(1);
    resolve("Overwrite").await;
    plane
        .until("the Work is written", async || {
            let works = plane.client.list(&Work::api_resource(), None, &ListOptions::default()).await.expect("works");
            let work =
                works.items.iter().find(|work| work.name().starts_with("thing-"))?.to_value().expect("an object");
            let annotations = &work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"];
            (annotations["work.karmada.io/conflict-resolution"] == "overwrite").then_some(())
        })
        .await;
    plane.settle().await;
    assert_eq!(failures().await, [""; 0]);
    overtake(usize::MAX);
    resolve("Abort").await;
    plane.until("it is reported", async || (!failures().await.is_empty()).then_some(())).await;
    plane.shutdown().await;
}

/// The name of a Work is longer than that of its object, and the name of an event is longer still.
#[tokio::test(start_paused = true)]
async fn a_work_that_is_refused() {
    let plane = with_default_namespace().await;
    let name = "a".repeat(243);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo"}});
    plane.create(config_maps(), map).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "long", "namespace": "demo"}, "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    plane.create(Policy::api_resource(Scope::Namespaced), policy).await;
    let key = demo(&format!("{name}-configmap"));
    let status = plane
        .until("the cluster is reported", async || {
            let binding = plane.get(&bindings(), &key).await?;
            let items = binding["status"]["aggregatedStatus"].as_array()?;
            (!items.is_empty()).then(|| binding["status"].clone())
        })
        .await;
    let message = status["aggregatedStatus"][0]["appliedMessage"].as_str().unwrap_or_default();
    assert!(message.ends_with("must be no more than 253 characters"), "{message}");
    let conditions = status["conditions"].as_array().expect("conditions");
    let applied = conditions.iter().find(|it| it["type"] == "FullyApplied").expect("FullyApplied");
    let message = applied["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Applied in 0 of 1 clusters; failed in m1; writing work karmada-es-m1/a"), "{message}");
    for subject in [&name, key.name()] {
        plane
            .until("it is reported", async || {
                let messages = messages_of(&plane, "SyncWorkFailed", subject).await;
                messages.iter().any(|it| it.contains("must be no more than 253 characters")).then_some(())
            })
            .await;
    }
    plane.shutdown().await;
}

/// The name of a role cannot begin that of an event, unless a client of an older version writes it.
#[tokio::test(start_paused = true)]
async fn events_about_a_role_with_colons_in_its_name() {
    let plane = with_default_namespace().await;
    let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:x"}});
    plane.create(roles, role).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "role"}, "spec": {"placement": {}, "resourceSelectors": [
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:x"}]}});
    plane.create(Policy::api_resource(Scope::Cluster), policy).await;
    let recorded = async || {
        let messages = messages_of(&plane, "ApplyPolicySucceed", "system:x").await;
        messages.contains(&"Apply cluster policy(role) succeed".to_owned()).then_some(())
    };
    plane.until("it is recorded", recorded).await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "system:x.18a1", "namespace": "default"},
        "involvedObject": {"kind": "ClusterRole", "name": "system:x"}, "reason": "Old", "message": "", "type": "Normal"});
    plane.create(ApiResource::namespaced("", "v1", "Event", "events"), event).await;
    plane.shutdown().await;
}

/// The others report without the member that does not respond to a request, and the condition names that one.
#[tokio::test(start_paused = true)]
async fn a_member_that_hangs() {
    let plane = with_default_namespace().await;
    plane.network.set_guard(Arc::new(|sent: Sent| {
        let hangs = sent.server == "m2" && sent.path.contains("/configmaps");
        Box::pin(async move {
            if hangs {
                std::future::pending().await
            }
        })
    }));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    plane.create(config_maps(), map).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "thing", "namespace": "demo"}, "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "thing"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}});
    let since = tokio::time::Instant::now();
    plane.create(Policy::api_resource(Scope::Namespaced), policy).await;
    let binding = plane
        .until("m1 is reported", async || {
            let binding = plane.get(&bindings(), &demo("thing-configmap")).await?;
            let items = binding["status"]["aggregatedStatus"].as_array()?;
            items.iter().any(|item| item["clusterName"] == "m1" && item["applied"] == true).then_some(binding.clone())
        })
        .await;
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition["type"] == "FullyApplied").expect("the condition");
    assert_eq!(
        (&condition["status"], &condition["message"]),
        (
            &json!("False"),
            &json!("Applied in 1 of 2 clusters; waiting for m2; see status.aggregatedStatus for details")
        )
    );
    plane.shutdown().await;
}

/// Upstream's texts.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_work() {
    let plane = Plane::start().await;
    let customization = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "maps"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"}, "customizations": {
        "statusReflection": {"luaScript": "function ReflectStatus(o) if o.data then error('dumb', 0) end return {a = 1} end"},
        "healthInterpretation": {"luaScript": "function InterpretHealth(o) error('none', 0) end"}}}});
    let resource = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
    );
    plane.create(resource, customization).await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    let m2 = plane.member("m2");
    m2.create(&namespaces(), &json!({"metadata": {"name": "demo"}})).await.ok();
    m2.create(&config_maps(), &theirs).await.expect("their object");
    bind(&plane, &["m1", "m2"]).await;
    let work = work_in("m2");
    let until = async |reason: &str, expected: &str| {
        let found = plane.until(reason, async || messages_of(&plane, reason, work.name()).await.first().cloned()).await;
        assert_eq!(found, expected);
    };
    let of = "object(ConfigMap/demo/thing) failed, err:";
    let script = |operation: &str, error: &str| format!("{operation} of ConfigMap thing: {error}");
    until("InterpretHealthFailed", &format!("Interpret health of {of} {}.", script("InterpretHealth", "none"))).await;
    let conflict = "resource(kind=ConfigMap, demo/thing) already exists in the cluster m2 and the \
        work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource";
    until("SyncFailed", &format!("Failed to sync work({work}) to cluster(m2), err: {conflict}")).await;
    plane.merge(&config_maps(), &demo("thing"), json!({"data": {"k": "2"}}), PatchOptions::default()).await;
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m2", "m1"]), PatchOptions::default()).await;
    until("ReflectStatusFailed", &format!("Reflect status for {of} {}.", script("InterpretStatus", "dumb"))).await;
    plane.shutdown().await;
}
