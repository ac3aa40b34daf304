//! An older copy of the store is restored: members are unchanged until a user confirms, and new objects are propagated.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{DeleteOptions, PatchOptions};
use controllers::{Context, Settings};
use http::{Method, StatusCode};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use storage::Store;
use storage::memory::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::by_hand::{bindings, config_maps, demo, work_in};
use crate::harness::{MEMBERS, Plane, get, namespaces};
use crate::network::{CONTROL, NetworkFaults, Sent};

/// Propagates every ConfigMap in `demo` to both members.
async fn propagate(plane: &Plane) {
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "demo"}, "spec": {"placement": {},
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "demo"}]}});
    plane.create(policies, policy).await;
}

async fn create(plane: &Plane, name: &str, value: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo"},
        "data": {"k": value}});
    plane.create(config_maps(), map).await;
    everywhere(plane, name, Some(value)).await;
}

async fn change(plane: &Plane, name: &str, value: &str) {
    plane.merge(&config_maps(), &demo(name), json!({"data": {"k": value}}), PatchOptions::default()).await;
    everywhere(plane, name, Some(value)).await;
}

/// Deletes the template, and its binding as the garbage collector does.
async fn delete(plane: &Plane, name: &str) {
    let binding = demo(&format!("{name}-configmap"));
    for (resource, key) in [(config_maps(), demo(name)), (bindings(), binding)] {
        plane.client.delete(&resource, &key, &DeleteOptions::background()).await.expect("the deletion");
    }
}

async fn value(plane: &Plane, member: &str, name: &str) -> Option<String> {
    let object = get(&plane.member(member), &config_maps(), &demo(name)).await?;
    Some(object["data"]["k"].as_str().unwrap_or_default().to_owned())
}

async fn everywhere(plane: &Plane, name: &str, expected: Option<&str>) {
    for member in MEMBERS {
        let what = format!("{name} is {expected:?} in {member}");
        plane.until(&what, async || (value(plane, member, name).await.as_deref() == expected).then_some(())).await;
    }
    plane.settle().await;
}

async fn condition(plane: &Plane, member: &str) -> Option<Value> {
    let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster(member)).await?;
    let conditions = cluster["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == "ResumePending").cloned()
}

async fn applied(plane: &Plane, member: &str) -> Value {
    let work = plane.get(&Work::api_resource(), &work_in(member)).await.expect("the work");
    let conditions = work["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == "Applied").unwrap_or_default()
}

async fn confirm(plane: &Plane, member: &str, time: &Value) {
    let patch = json!({"metadata": {"annotations": {"resume.karmada.io/confirmed": time}}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster(member), patch, PatchOptions::default()).await;
}

async fn resume(plane: &Plane, member: &str) {
    let pending = condition(plane, member).await.expect("the condition");
    confirm(plane, member, &pending["lastTransitionTime"]).await;
    plane.until("it is resumed", async || (condition(plane, member).await?["reason"] == "Resumed").then_some(())).await;
    plane.settle().await;
}

/// Longer than every check of a member.
async fn wait() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_store_overwrites_nothing() {
    for raised in [false, true] {
        let mut plane = Plane::start().await;
        propagate(&plane).await;
        create(&plane, "thing", "1").await;
        let backup = plane.backup();
        change(&plane, "thing", "2").await;
        plane.restore(&backup, raised).await;
        wait().await;
        for member in MEMBERS {
            assert_eq!(value(&plane, member, "thing").await.as_deref(), Some("2"), "{member}, raised: {raised}");
            let pending = condition(&plane, member).await.expect("the condition");
            assert_eq!((&pending["status"], &pending["reason"]), (&json!("True"), &json!("StoreOlderThanMember")));
            let message = pending["message"].as_str().expect("a message");
            assert!(message.contains("ConfigMap demo/thing has the mark"), "{message}");
            assert!(message.ends_with(&format!("run \"karmadactl resume {member}\"")), "{message}");
        }
        let waits = applied(&plane, "m1").await;
        assert_eq!((&waits["status"], &waits["reason"]), (&json!("False"), &json!("ResumePending")));
        let binding = plane.get(&bindings(), &demo("thing-configmap")).await.expect("the binding");
        assert_eq!(binding["status"]["aggregatedStatus"][0]["health"], "Healthy", "it is still observed");

        // New objects are propagated, changed and deleted as usual.
        tokio::time::sleep(Duration::from_secs(2)).await;
        create(&plane, "fresh", "1").await;
        change(&plane, "fresh", "2").await;
        delete(&plane, "fresh").await;
        everywhere(&plane, "fresh", None).await;

        // The hold is stable, and survives a restart and an unrelated confirmation.
        plane.restart_controllers().await;
        confirm(&plane, "m1", &json!("2020-01-01T00:00:00Z")).await;
        wait().await;
        let before = plane.network.writes();
        wait().await;
        assert_eq!(plane.network.writes(), before);
        assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("2"), "raised: {raised}");

        resume(&plane, "m1").await;
        assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("1"), "raised: {raised}");
        assert_eq!(applied(&plane, "m1").await["status"], "True");
        assert_eq!(value(&plane, "m2", "thing").await.as_deref(), Some("2"), "the other one waits");
        // A confirmation is permanent, also after a restart.
        plane.restart_controllers().await;
        wait().await;
        let done = condition(&plane, "m1").await.expect("the condition");
        assert_eq!((&done["status"], &done["reason"]), (&json!("False"), &json!("Resumed")));
        plane.shutdown().await;
    }
}

/// The cache of Works lags behind that of bindings.
#[tokio::test(start_paused = true)]
async fn a_new_object_without_a_binding_leaves_a_held_member() {
    let mut plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    let backup = plane.backup();
    change(&plane, "thing", "2").await;
    plane.restore(&backup, false).await;
    wait().await;
    create(&plane, "fresh", "1").await;
    plane.network.hold("works");
    delete(&plane, "fresh").await;
    wait().await;
    assert_eq!(plane.get(&bindings(), &demo("fresh-configmap")).await, None);
    plane.network.release("works");
    everywhere(&plane, "fresh", None).await;
    assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("2"), "the older one waits");
    plane.shutdown().await;
}

/// A plane whose object `thing` was deleted, and the store from before.
async fn deleted_after_the_backup() -> (Plane, MemoryStore) {
    let plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    let backup = plane.backup();
    delete(&plane, "thing").await;
    everywhere(&plane, "thing", None).await;
    (plane, backup)
}

#[tokio::test(start_paused = true)]
async fn objects_deleted_after_the_backup_do_not_return() {
    for raised in [false, true] {
        let (mut plane, backup) = deleted_after_the_backup().await;
        plane.restore(&backup, raised).await;
        wait().await;
        assert_eq!(value(&plane, "m1", "thing").await, None, "raised: {raised}");
        resume(&plane, "m1").await;
        assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("1"), "raised: {raised}");
        assert_eq!(value(&plane, "m2", "thing").await, None, "the other one waits");
        plane.shutdown().await;
    }
}

/// A proxy in front of the member refuses the marker, which proves neither that it is absent nor that it may not be read.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_proxy_hides_no_marker() {
    for code in [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN] {
        let (mut plane, backup) = deleted_after_the_backup().await;
        plane.network.set_answers(Some(Arc::new(move |sent: &Sent| {
            let is_marker = sent.server == "m1" && sent.path.contains("/karmada-cluster/configmaps/karmada-");
            (is_marker && sent.method == Method::GET).then_some(code)
        })));
        plane.restore(&backup, false).await;
        wait().await;
        assert_eq!(value(&plane, "m1", "thing").await, None, "{code}");
        plane.network.set_answers(None);
        wait().await;
        assert_eq!(value(&plane, "m1", "thing").await, None, "{code}");
        resume(&plane, "m1").await;
        assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("1"), "{code}");
        plane.shutdown().await;
    }
}

/// The object belongs to another Work.
#[tokio::test(start_paused = true)]
async fn a_pending_deletion_spares_a_newer_object() {
    let mut plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    plane.network.cut("m1");
    delete(&plane, "thing").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let backup = plane.backup();
    plane.network.heal("m1");
    everywhere(&plane, "thing", None).await;
    create(&plane, "thing", "2").await;
    let newer = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the newer object");
    plane.restore(&backup, false).await;
    wait().await;
    let there = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the newer object");
    assert_eq!(there["metadata"]["uid"], newer["metadata"]["uid"]);
    plane
        .until("the deletion ends", async || {
            plane.get(&Work::api_resource(), &work_in("m1")).await.is_none().then_some(())
        })
        .await;
    let there = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the newer object");
    assert_eq!(there["metadata"]["uid"], newer["metadata"]["uid"]);
    plane.shutdown().await;
}

/// Controllers of another process than the store's keep running during the restore.
#[tokio::test(start_paused = true)]
async fn a_restore_beneath_running_controllers() {
    let fill = async |plane: &Plane| {
        let filler = ObjectKey::namespaced("kube-system", "filler");
        let map = json!({"metadata": {"name": "filler", "namespace": "kube-system"}});
        plane.client.create(&config_maps(), &map).await.expect("created");
        for n in 0..200 {
            plane.merge(&config_maps(), &filler, json!({"data": {"n": n.to_string()}}), PatchOptions::default()).await;
        }
    };
    // `passed`: the restored store reaches the revision of the caches before they reconnect.
    for (raised, passed) in [(false, false), (true, false), (false, true)] {
        let mut plane = Plane::start().await;
        propagate(&plane).await;
        for name in ["thing", "gone"] {
            create(&plane, name, "1").await;
        }
        let backup = plane.backup();
        change(&plane, "thing", "2").await;
        delete(&plane, "gone").await;
        everywhere(&plane, "gone", None).await;
        if passed {
            plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
                (sent.server == CONTROL).then_some(StatusCode::SERVICE_UNAVAILABLE)
            })));
        } else {
            fill(&plane).await;
        }
        plane.restore_beneath(&backup, raised).await;
        if passed {
            fill(&plane).await;
            plane.network.set_answers(None);
        }
        wait().await;
        wait().await;
        assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("2"), "raised: {raised}");
        assert_eq!(value(&plane, "m1", "gone").await, None, "raised: {raised}");
        resume(&plane, "m1").await;
        assert_eq!(applied(&plane, "m1").await["status"], "True", "raised: {raised}");
        // Other controllers may have rendered the Work from the former store.
        if !raised {
            for name in ["thing", "gone"] {
                assert_eq!(value(&plane, "m1", name).await.as_deref(), Some("1"));
            }
        }
        plane.shutdown().await;
    }
}

/// The agent of a member in pull mode keeps running during the restore.
#[tokio::test(start_paused = true)]
async fn an_agent_holds_its_member() {
    for raised in [false, true] {
        let mut plane = Plane::of(&["m1"], Settings::default()).await;
        let (stop, client, own) = (CancellationToken::new(), plane.controlled().clone(), plane.member("m1"));
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
            "spec": {"syncMode": "Pull"}});
        plane.create(Cluster::api_resource(), cluster).await;
        let agent = Context::agent(client, plane.world.clone(), ("m1".into(), own), Settings::default(), stop.clone());
        let running = controllers::start(&agent, &[]).expect("the agent starts");
        plane.until_ready("m1").await;
        propagate(&plane).await;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"},
            "data": {"k": "1"}});
        plane.create(config_maps(), map).await;
        let until = async |plane: &Plane, expected: &str| {
            plane.until(expected, async || (value(plane, "m1", "thing").await? == expected).then_some(())).await;
        };
        until(&plane, "1").await;
        plane.settle().await;
        let backup = plane.backup();
        plane.merge(&config_maps(), &demo("thing"), json!({"data": {"k": "2"}}), PatchOptions::default()).await;
        until(&plane, "2").await;
        plane.settle().await;
        plane.restore(&backup, raised).await;
        wait().await;
        wait().await;
        assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("2"), "raised: {raised}");
        resume(&plane, "m1").await;
        until(&plane, "1").await;
        stop.cancel();
        for controller in running {
            controller.await.expect("no controller panics");
        }
        plane.shutdown().await;
    }
}

/// Neither restarts nor objects without marks, from earlier versions, hold a member.
#[tokio::test(start_paused = true)]
async fn restarts_and_unmarked_objects_hold_no_member() {
    let mut plane = Plane::start().await;
    propagate(&plane).await;
    for name in ["thing", "old"] {
        create(&plane, name, "1").await;
    }
    let unmarked = client::Patch::Merge(json!({"metadata": {"annotations": {"resume.karmada.io/mark": null}}}));
    let m1 = plane.member("m1");
    m1.patch(&config_maps(), &demo("old"), &unmarked, &PatchOptions::default()).await.expect("the patch");
    for turn in 2..5 {
        plane.restart_controllers().await;
        wait().await;
        for name in ["thing", "old"] {
            change(&plane, name, &turn.to_string()).await;
        }
        let other = format!("other-{turn}");
        create(&plane, &other, "1").await;
        delete(&plane, &other).await;
        everywhere(&plane, &other, None).await;
    }
    assert_eq!(condition(&plane, "m1").await, None);
    let marked = get(&m1, &config_maps(), &demo("old")).await.expect("the object");
    assert!(marked["metadata"]["annotations"]["resume.karmada.io/mark"].is_string());
    plane.shutdown().await;
}

/// While the list of incarnations cannot be written, new controllers write to no member.
#[tokio::test(start_paused = true)]
async fn no_write_precedes_the_record_of_its_incarnation() {
    let mut plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    plane.stop_controllers().await;
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
        let is_record = sent.server == CONTROL && sent.path.contains("/karmada-system/configmaps");
        (is_record && sent.method != Method::GET).then_some(StatusCode::SERVICE_UNAVAILABLE)
    })));
    plane.restart_controllers().await;
    plane.merge(&config_maps(), &demo("thing"), json!({"data": {"k": "2"}}), PatchOptions::default()).await;
    wait().await;
    for member in MEMBERS {
        assert_eq!(value(&plane, member, "thing").await.as_deref(), Some("1"), "{member}");
    }
    plane.network.set_answers(None);
    everywhere(&plane, "thing", Some("2")).await;
    plane.shutdown().await;
}

/// Many deletions need few writes of the marker.
#[tokio::test(start_paused = true)]
async fn the_marker_of_a_member() {
    let plane = Plane::start().await;
    propagate(&plane).await;
    const MANY: usize = 40;
    for n in 0..MANY {
        create(&plane, &format!("t{n}"), "1").await;
    }
    let before = plane.network.writes();
    // Requests take up to 60 ms.
    plane.network.set_faults(Some(NetworkFaults { seed: 1, lost: 0, lag: Duration::ZERO }));
    for n in 0..MANY {
        delete(&plane, &format!("t{n}")).await;
    }
    for n in 0..MANY {
        everywhere(&plane, &format!("t{n}"), None).await;
    }
    let marked = |(line, count): (String, u64)| {
        let is_new = before.get(&line) != Some(&count);
        (is_new && line.starts_with("m1 ") && line.contains("karmada-cluster")).then_some(count)
    };
    let writes: u64 = plane.network.writes().into_iter().filter_map(marked).sum();
    assert!((1..=15).contains(&writes), "{writes} writes for {MANY} deletions");
    plane.network.set_faults(None);
    assert!(get(&plane.member("m1"), &namespaces(), &ObjectKey::cluster("karmada-cluster")).await.is_some());

    plane.shutdown().await;
}

/// A user writes to an older copy before the controllers read it, so that its revision exceeds the lost ones.
#[tokio::test(start_paused = true)]
async fn writes_before_the_controllers_start_hide_no_loss() {
    let mut plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    let backup = plane.backup();
    change(&plane, "thing", "2").await;
    plane.stop_controllers().await;
    plane.restore_beneath(&backup, false).await;
    for value in 0..50 {
        let patch = json!({"metadata": {"labels": {"value": value.to_string()}}});
        plane.merge(&namespaces(), &ObjectKey::cluster("demo"), patch, PatchOptions::default()).await;
    }
    let patch = json!({"metadata": {"labels": {"touched": "1"}}});
    plane.merge(&config_maps(), &demo("thing"), patch, PatchOptions::default()).await;
    plane.restart_controllers().await;
    wait().await;
    for member in MEMBERS {
        assert_eq!(value(&plane, member, "thing").await.as_deref(), Some("2"), "{member}");
        assert_eq!(condition(&plane, member).await.expect("the condition")["status"], "True", "{member}");
    }
    plane.shutdown().await;
}

/// Two processes that start at the same time: the one that exits recorded its incarnation last.
#[tokio::test(start_paused = true)]
async fn the_remaining_process_resumes_writing() {
    let plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    let key = ObjectKey::namespaced("karmada-system", "karmada-incarnations");
    let listed = plane.get(&config_maps(), &key).await.expect("the list");
    let text = listed["data"]["incarnations.json"].as_str().expect("a text");
    let mut list: Value = serde_json::from_str(text).expect("a list");
    let entries = list["incarnations"].as_array_mut().expect("the entries");
    let mut other = entries.last().expect("an entry").clone();
    let number = other["number"].as_u64().expect("a number") + 1;
    (other["number"], other["id"]) = (json!(number), json!("68000000-abcdef"));
    other["after"] = json!(plane.backup().revision().await.expect("a revision"));
    entries.push(other);
    plane
        .merge(&config_maps(), &key, json!({"data": {"incarnations.json": list.to_string()}}), PatchOptions::default())
        .await;
    plane.settle().await;
    plane.merge(&config_maps(), &demo("thing"), json!({"data": {"k": "2"}}), PatchOptions::default()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(value(&plane, "m1", "thing").await.as_deref(), Some("1"), "the other process may still write");
    everywhere(&plane, "thing", Some("2")).await;
    assert_eq!(condition(&plane, "m1").await.map(|it| it["status"].clone()), None, "no member is held");
    plane.shutdown().await;
}

/// A process that has lost its leadership and has not noticed it reads the marks of its successor.
#[tokio::test(start_paused = true)]
async fn two_processes_at_once_hold_no_member() {
    let mut plane = Plane::start().await;
    propagate(&plane).await;
    create(&plane, "thing", "1").await;
    plane.overlap_controllers(Duration::from_secs(20));
    change(&plane, "thing", "2").await;
    create(&plane, "other", "1").await;
    wait().await;
    change(&plane, "thing", "3").await;
    for member in MEMBERS {
        assert_eq!(condition(&plane, member).await, None, "{member}");
    }
    plane.shutdown().await;
}
