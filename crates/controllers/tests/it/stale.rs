//! Caches may be outdated: nothing is deleted because of that. Each test delays a cache at the critical time.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use client::{DeleteOptions, PatchOptions};
use futures::FutureExt;
use http::{Method, StatusCode};
use karmada_api::ApiType;
use karmada_api::scope::{Override, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::by_hand::{bind, bindings, config_maps, demo, targets, work_in};
use crate::failures::messages_of;
use crate::harness::{Plane, get, namespaces};
use crate::network::{CONTROL, NetworkFaults, Sent};

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

/// A binding loses a cluster and regains it before the event of the loss arrives.
#[tokio::test(start_paused = true)]
async fn a_work_that_is_required_again_is_kept() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let before = plane.get(&Work::api_resource(), &work_in("m1")).await.expect("the work");
    let copy = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the copy");

    plane.network.set_faults(Some(NetworkFaults { seed: 1, lost: 0, lag: Duration::from_secs(1) }));
    for members in [&["m2"][..], &["m1", "m2"]] {
        plane.merge(&bindings(), &demo("thing-configmap"), targets(members), PatchOptions::default()).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    plane.network.set_faults(None);
    plane.settle().await;
    let after = plane.get(&Work::api_resource(), &work_in("m1")).await.expect("the work");
    assert_eq!(uid(&before), uid(&after));
    let now = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the copy");
    assert_eq!(uid(&copy), uid(&now));

    // A real removal is executed.
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m2"]), PatchOptions::default()).await;
    let m1 = plane.member("m1");
    plane.until("it is gone", async || get(&m1, &config_maps(), &demo("thing")).await.is_none().then_some(())).await;
    plane.shutdown().await;
}

/// A Work has ended, and another process has created one of the same name, whose object is in the member: the end of
/// the first must not be executed again.
#[tokio::test(start_paused = true)]
async fn a_completed_deletion_is_not_repeated() {
    let plane = Plane::start().await;
    let (m1, works, key) = (plane.member("m1"), Work::api_resource(), work_in("m1"));
    let (space, name) = (key.namespace().expect("a namespace").to_owned(), key.name().to_owned());
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo",
        "labels": {"karmada.io/managed": "true"},
        "annotations": {"work.karmada.io/namespace": space, "work.karmada.io/name": name}}});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"namespace": space, "name": name, "finalizers": ["karmada.io/execution-controller"]},
        "spec": {"workload": {"manifests": [manifest]}}});
    plane.create(works.clone(), work.clone()).await;
    plane.until("the object", async || get(&m1, &config_maps(), &demo("thing")).await).await;
    plane.settle().await;

    // From the removal of the Work's finalizer on, events of Works are withheld.
    let (network, of_work) = (Arc::downgrade(&plane.network), format!("/works/{name}"));
    plane.network.set_guard(Arc::new(move |sent: Sent| {
        if sent.method == Method::PATCH && sent.path.ends_with(&of_work) {
            network.upgrade().expect("it exists").hold("works");
        }
        std::future::ready(()).boxed()
    }));
    plane.client.delete(&works, &key, &DeleteOptions::background()).await.expect("the deletion");
    plane.until("the end", async || plane.get(&works, &key).await.is_none().then_some(())).await;
    assert_eq!(get(&m1, &config_maps(), &demo("thing")).await, None);

    let second = plane.create(works.clone(), work).await.uid().to_owned();
    let object = m1.create(&config_maps(), &manifest).await.expect("the object");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let there = get(&m1, &config_maps(), &demo("thing")).await.expect("the object of the second");
    assert_eq!(uid(&there), object.uid());

    plane.network.release("works");
    plane
        .until("the second is applied", async || {
            let work = plane.get(&works, &key).await?;
            let conditions = work["status"]["conditions"].as_array()?;
            conditions.iter().any(|it| it["type"] == "Applied" && it["status"] == "True").then_some(())
        })
        .await;
    let there = get(&m1, &config_maps(), &demo("thing")).await.expect("the object of the second");
    assert_eq!(uid(&there), object.uid());
    let left = plane.get(&works, &key).await.expect("the second work");
    assert_eq!(uid(&left), second.as_str());
    plane.shutdown().await;
}

/// Another process's status of an object is corrected, also when it is written after this one's.
#[tokio::test(start_paused = true)]
async fn a_status_of_another_process_is_corrected() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let (works, key) = (Work::api_resource(), work_in("m1"));
    let reported = plane.get(&works, &key).await.expect("the work")["status"].clone();
    let wrong = json!({"status": {"conditions": [{"type": "Applied", "status": "False", "reason": "AppliedFailed",
        "message": "late", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "manifestStatuses": null}});
    plane.merge(&works, &key, wrong, PatchOptions::status()).await;
    plane.settle().await;
    let now = plane.get(&works, &key).await.expect("the work")["status"].clone();
    let short = |status: &Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut all: Vec<String> = conditions.iter().map(|it| format!("{}={}", it["type"], it["status"])).collect();
        all.sort();
        (all, status["manifestStatuses"].clone())
    };
    assert_eq!(short(&now), short(&reported));

    let of = demo("thing-configmap");
    let items = |binding: &Value| binding["status"]["aggregatedStatus"].clone();
    let reported = items(&plane.get(&bindings(), &of).await.expect("the binding"));
    assert_eq!(reported.as_array().map(Vec::len), Some(2));
    let wrong =
        json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Unhealthy"}]}});
    plane.merge(&bindings(), &of, wrong, PatchOptions::status()).await;
    plane.settle().await;
    assert_eq!(items(&plane.get(&bindings(), &of).await.expect("the binding")), reported);

    // The rechecks end.
    let before = plane.network.writes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(plane.network.writes(), before);
    plane.shutdown().await;
}

/// A member is unreachable between two probes, and caches without events would wait.
#[tokio::test(start_paused = true)]
async fn a_recovered_member_is_read_again() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let m1 = plane.member("m1");
    for away in [12, 17, 18, 19, 20, 300] {
        plane.network.cut("m1");
        tokio::time::sleep(Duration::from_secs(away)).await;
        m1.delete(&config_maps(), &demo("thing"), &DeleteOptions::background()).await.expect("the deletion");
        plane.network.heal("m1");
        // Probes run every 10 s, the cache's own next attempt some 12 s after the member recovers from 17 to 20 s; a
        // member that was not ready for long is ready again after 30 s.
        tokio::time::sleep(Duration::from_secs(if away < 60 { 11 } else { 45 })).await;
        assert!(get(&m1, &config_maps(), &demo("thing")).await.is_some(), "away for {away} s");
        plane.settle().await;
    }
    plane.shutdown().await;
}

/// A member is restored from a backup: it lacks objects, has old ones, and its versions start again. A watch that
/// continues from the last version would return nothing for a long time.
#[tokio::test(start_paused = true)]
async fn a_restored_member_is_read_again() {
    for is_missing in [true, false] {
        let mut plane = Plane::start().await;
        bind(&plane, &["m1", "m2"]).await;
        let data = |value: &str| json!({"data": {"k": value}});
        for value in ["1", "2", "3"] {
            plane.merge(&config_maps(), &demo("thing"), data(value), PatchOptions::default()).await;
            plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m1"]), PatchOptions::default()).await;
            plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m1", "m2"]), PatchOptions::default()).await;
        }
        let noise =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "n-", "namespace": "demo"}});
        for _ in 0..100 {
            plane.member("m1").create(&config_maps(), &noise).await.expect("noise");
        }
        plane.settle().await;
        let mut copy = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the copy");
        let mut demo_there = get(&plane.member("m1"), &namespaces(), &ObjectKey::cluster("demo")).await.expect("demo");

        plane.network.cut("m1");
        tokio::time::sleep(Duration::from_secs(1)).await;
        plane.replace_member("m1").await;
        let m1 = plane.member("m1");
        for old in [&mut copy, &mut demo_there] {
            for field in ["uid", "resourceVersion"] {
                old["metadata"].as_object_mut().expect("metadata").remove(field);
            }
        }
        if !is_missing {
            copy["data"]["k"] = json!("old");
            m1.create(&namespaces(), &demo_there).await.expect("the namespace");
            m1.create(&config_maps(), &copy).await.expect("the old copy");
        }
        plane.network.heal("m1");
        tokio::time::sleep(Duration::from_secs(45)).await;
        let value = async || Some(get(&m1, &config_maps(), &demo("thing")).await?["data"]["k"].clone());
        assert_eq!(value().await, Some(json!("3")), "lacks: {is_missing}");
        m1.delete(&config_maps(), &demo("thing"), &DeleteOptions::background()).await.expect("the deletion");
        plane.settle().await;
        assert_eq!(value().await, Some(json!("3")), "drift, lacks: {is_missing}");
        plane.shutdown().await;
    }
}

/// The object is deleted between the read of the cache and the update.
#[tokio::test(start_paused = true)]
async fn an_object_deleted_without_an_event_is_recreated() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let vanishing = plane.member("m1");
    plane.network.set_guard(Arc::new(move |sent: Sent| {
        let updated = sent.server == "m1" && sent.method == Method::PUT && sent.path.ends_with("/configmaps/thing");
        let vanishing = vanishing.clone();
        async move {
            if updated {
                vanishing.delete(&config_maps(), &demo("thing"), &DeleteOptions::background()).await.expect("gone");
            }
        }
        .boxed()
    }));
    plane.merge(&config_maps(), &demo("thing"), json!({"data": {"k": "2"}}), PatchOptions::default()).await;
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m2", "m1"]), PatchOptions::default()).await;
    plane.settle().await;
    let thing = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("recreated");
    assert_eq!(thing["data"]["k"], "2");
    let failures = messages_of(&plane, "SyncFailed", work_in("m1").name()).await;
    assert!(failures.iter().all(|failure| !failure.contains("updating")), "{failures:?}");
    plane.shutdown().await;
}

/// A Work that overwrites ends while its member finds that the object exists: the other owner's object is not changed.
#[tokio::test(start_paused = true)]
async fn a_deleted_work_overwrites_nothing() {
    let plane = Plane::start().await;
    let (m1, works, key) = (plane.member("m1"), Work::api_resource(), work_in("m1"));
    m1.create(&namespaces(), &json!({"metadata": {"name": "demo"}})).await.ok();
    let other_object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"},
        "data": {"k": "theirs"}});
    m1.create(&config_maps(), &other_object).await.expect("their object");
    let (client, of_works) = (plane.client.clone(), works.clone());
    plane.network.set_guard(Arc::new(move |sent: Sent| {
        let created = sent.server == "m1" && sent.method == Method::POST && sent.path.ends_with("/configmaps");
        let (client, works, key) = (client.clone(), of_works.clone(), work_in("m1"));
        async move {
            if created {
                client.delete(&works, &key, &DeleteOptions::background()).await.expect("the deletion");
            }
        }
        .boxed()
    }));
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "ours"},
        "metadata": {"name": "thing", "namespace": "demo", "labels": {"karmada.io/managed": "true"},
            "annotations": {"work.karmada.io/conflict-resolution": "overwrite",
                "work.karmada.io/namespace": key.namespace(), "work.karmada.io/name": key.name()}}});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"namespace": key.namespace(), "name": key.name(), "finalizers": ["karmada.io/execution-controller"]},
        "spec": {"workload": {"manifests": [manifest]}}});
    plane.create(works.clone(), work.clone()).await;
    plane.until("the end", async || plane.get(&works, &key).await.is_none().then_some(())).await;
    let thing = get(&m1, &config_maps(), &demo("thing")).await.expect("still there");
    assert_eq!(thing["data"]["k"], "theirs");
    let failures = messages_of(&plane, "SyncFailed", work_in("m1").name()).await;
    assert!(failures.is_empty(), "{failures:?}");

    // A Work that remains overwrites.
    plane.network.set_guard(Arc::new(|_| std::future::ready(()).boxed()));
    plane.create(works.clone(), work).await;
    plane
        .until("it is taken over", async || {
            (get(&m1, &config_maps(), &demo("thing")).await?["data"]["k"] == "ours").then_some(())
        })
        .await;
    plane.shutdown().await;
}

/// A proxy of a member returns 404, which does not concern an object, or a page: the object's Work does not end.
#[tokio::test(start_paused = true)]
async fn a_404_of_a_proxy_completes_no_deletion() {
    for (path, method, code, of) in [
        ("/configmaps/thing", None, StatusCode::NOT_FOUND, "the object"),
        ("/configmaps/thing", Some(Method::DELETE), StatusCode::NOT_FOUND, "its deletion"),
        ("/configmaps/thing", Some(Method::DELETE), StatusCode::OK, "its deletion"),
        ("", None, StatusCode::NOT_FOUND, "everything"),
    ] {
        let plane = Plane::start().await;
        bind(&plane, &["m1", "m2"]).await;
        plane.network.set_answers(Some(Arc::new(move |sent: &Sent| {
            let is_answered = method.as_ref().is_none_or(|method| sent.method == *method);
            (sent.server == "m1" && sent.path.ends_with(path) && is_answered).then_some(code)
        })));
        plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m2"]), PatchOptions::default()).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(plane.get(&Work::api_resource(), &work_in("m1")).await.is_some(), "{code} for {of}");
        plane.network.set_answers(None);
        let m1 = plane.member("m1");
        plane
            .until("it is gone", async || get(&m1, &config_maps(), &demo("thing")).await.is_none().then_some(()))
            .await;
        plane
            .until("its end", async || plane.get(&Work::api_resource(), &work_in("m1")).await.is_none().then_some(()))
            .await;
        plane.shutdown().await;
    }
}

/// The passes of its binding fail until a deleted Work is gone, and are retried with growing pauses.
#[tokio::test(start_paused = true)]
async fn a_work_that_is_required_while_it_ends_is_recreated_at_its_end() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let work = async || plane.get(&Work::api_resource(), &work_in("m1")).await;
    let former = work().await.expect("the work");
    plane.network.cut("m1");
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m2"]), PatchOptions::default()).await;
    let deleted = async || work().await.filter(|it| it["metadata"]["deletionTimestamp"].is_string());
    plane.until("the work is deleted", deleted).await;
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m1", "m2"]), PatchOptions::default()).await;
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(uid(&former), uid(&work().await.expect("it waits for its member")));
    plane.network.heal("m1");
    plane.until("its end", async || work().await.is_none_or(|it| uid(&it) != uid(&former)).then_some(())).await;
    let ended = Instant::now();
    plane.until("another one", async || work().await.filter(|it| uid(it) != uid(&former))).await;
    assert!(ended.elapsed() < Duration::from_secs(10), "after {:?}", ended.elapsed());
    plane.shutdown().await;
}

/// The control plane is behind a load balancer that returns 404 for a while: the deletion of a Work is executed later.
#[tokio::test(start_paused = true)]
async fn a_404_of_a_load_balancer_postpones_a_deletion() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
        let is_work = sent.server == CONTROL && sent.path.ends_with(work_in("m1").name());
        (is_work && sent.method == Method::GET).then_some(StatusCode::NOT_FOUND)
    })));
    plane.merge(&bindings(), &demo("thing-configmap"), targets(&["m2"]), PatchOptions::default()).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    plane.network.set_answers(None);
    let m1 = plane.member("m1");
    plane.until("it is gone", async || get(&m1, &config_maps(), &demo("thing")).await.is_none().then_some(())).await;
    plane.shutdown().await;
}

/// An override policy that does not select a template by its labels does not reconcile it: without a policy its copies
/// are unchanged.
#[tokio::test(start_paused = true)]
async fn unrelated_overrides_change_nothing() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let edit = json!({"metadata": {"labels": {"app": "a"}}, "data": {"k": "2"}});
    plane.merge(&config_maps(), &demo("thing"), edit, PatchOptions::default()).await;
    plane.settle().await;
    let m1 = plane.member("m1");
    let resource = Override::api_resource(Scope::Namespaced);
    for (app, expected) in [("b", Value::Null), ("a", json!("2"))] {
        let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": app}}});
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": app, "namespace": "demo"}, "spec": {"resourceSelectors": [selector], "overrideRules": []}});
        plane.create(resource.clone(), policy).await;
        plane.settle().await;
        let thing = get(&m1, &config_maps(), &demo("thing")).await.expect("the copy");
        assert_eq!(thing["data"]["k"], expected, "app={app}");
    }
    plane.shutdown().await;
}

/// A Work is written twice before the cache receives the first write, and finally equals its initial state: the member
/// is still updated.
#[tokio::test(start_paused = true)]
async fn a_change_reverted_immediately_is_reverted_in_members() {
    let plane = Plane::start().await;
    bind(&plane, &["m1", "m2"]).await;
    let overrides = Override::api_resource(Scope::Namespaced);
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "late", "namespace": "demo"}, "spec": {"overrideRules": [
            {"overriders": {"labelsOverrider": [{"operator": "add", "value": {"late": "yes"}}]}}]}});
    let late = async || {
        let work = plane.get(&Work::api_resource(), &work_in("m1")).await.expect("the work");
        work["spec"]["workload"]["manifests"][0]["metadata"]["labels"]["late"].clone()
    };
    plane.network.hold("works");
    plane.create(overrides.clone(), policy).await;
    plane.settle().await;
    assert_eq!(late().await, "yes");
    plane.client.delete(&overrides, &demo("late"), &DeleteOptions::background()).await.expect("the deletion");
    plane.settle().await;
    assert_eq!(late().await, Value::Null);
    plane.network.release("works");
    plane.settle().await;
    let copy = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the copy");
    assert_eq!(copy["metadata"]["labels"]["late"], Value::Null);
    plane.shutdown().await;
}
