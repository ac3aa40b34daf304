//! Control planes with a damaged store: nothing is deleted or overwritten in a member because an object of the control
//! plane cannot be read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use karmada::engine::Kind;
use karmada::up::{ControlPlane, Options};
use serde_json::{Value, json};
use world::World;

use crate::plane::{Plane, deployment, deployments, nginx, options, policies, policy};

/// Flips a bit at the beginning of each stored object of a kind.
fn damage(store: &Path, api_version: &str, kind: &str) {
    let path = store.join("store.sqlite");
    let mut file = std::fs::read(&path).expect("the file");
    let text = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",\"metadata\"");
    let found = file.windows(text.len()).enumerate().filter(|(_, at)| *at == text.as_bytes());
    let places: Vec<usize> = found.map(|(place, _)| place + 3).collect();
    assert!(!places.is_empty(), "no {kind} is in the file");
    places.into_iter().for_each(|place| file[place] ^= 1);
    std::fs::write(path, file).expect("the file");
}

fn on_disk(options: &mut Options, data_dir: &Path) {
    options.server.data_dir = data_dir.to_owned();
    options.server.store = Kind::Embedded;
    options.member_store = Kind::Embedded;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let (from, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("an entry");
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).expect("a file");
        }
    }
}

fn overrides() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies")
}

/// Without it members would get an object without the annotation.
fn override_policy() -> Value {
    let annotation = json!({"operator": "add", "value": {"overridden": "yes"}});
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "overrideRules": [{"overriders": {"annotationsOverrider": [annotation]}}]}})
}

/// The desired object in a member.
fn desired(object: &Value) -> Value {
    json!({"uid": object["metadata"]["uid"], "generation": object["metadata"]["generation"],
        "deletionTimestamp": object["metadata"]["deletionTimestamp"],
        "overridden": object["metadata"]["annotations"]["overridden"], "spec": object["spec"]})
}

#[tokio::test(start_paused = true)]
async fn unreadable_objects_delete_nothing_in_members() {
    let root = tempfile::tempdir().expect("a directory");
    let whole: PathBuf = root.path().join("whole");
    let plane = Plane::start_with(|options| on_disk(options, &whole)).await;
    plane.client().create(&policies(), &policy(json!({"clusterAffinity": {}}))).await.expect("a policy");
    plane.client().create(&deployments(), &deployment(2)).await.expect("a template");
    plane.client().create(&overrides(), &override_policy()).await.expect("an override policy");
    plane.until(&[("member1", 2), ("member2", 2), ("member3", 2)]).await;
    let mut before = Vec::new();
    for member in plane.plane.members().iter() {
        let overridden = async {
            loop {
                let object = nginx(member.client()).await.expect("it is there");
                if object["metadata"]["annotations"]["overridden"] == "yes" {
                    break object;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let object =
            tokio::time::timeout(Duration::from_secs(60), overridden).await.expect("the override policy holds");
        before.push(desired(&object));
    }
    plane.plane.stop().await.expect("it stops");

    for (api_version, kind) in [
        ("work.karmada.io/v1alpha1", "Work"),
        ("work.karmada.io/v1alpha2", "ResourceBinding"),
        ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
        ("apps/v1", "Deployment"),
        ("cluster.karmada.io/v1alpha1", "Cluster"),
        ("policy.karmada.io/v1alpha1", "OverridePolicy"),
        ("v1", "Namespace"),
        ("v1", "Secret"),
    ] {
        let data_dir = root.path().join(kind);
        copy(&whole, &data_dir);
        damage(&data_dir.join("store"), api_version, kind);
        let mut options = options(&data_dir);
        on_disk(&mut options, &data_dir);
        let world = World::simulated("2026-11-22T00:00:00Z".parse().expect("a time"), 8);
        let plane = ControlPlane::start_inside(&options, &world).await.expect("the control plane starts");
        // Members listen on new ports. The Clusters may be among the damaged objects.
        let joined = plane.members().join(plane.client()).await;
        assert!(joined.is_ok() || ["Cluster", "Namespace", "Secret"].contains(&kind), "{kind}: {joined:?}");
        tokio::time::sleep(Duration::from_secs(900)).await;
        for (member, before) in plane.members().iter().zip(&before) {
            let after = nginx(member.client()).await.unwrap_or_else(|| panic!("{kind}: deleted in {}", member.name()));
            assert_eq!(desired(&after), *before, "{kind} in {}", member.name());
        }
        let key = ObjectKey::namespaced("default", "nginx");
        let read = plane.client().get_opt(&deployments(), &key).await;
        assert_eq!(read.is_err(), kind == "Deployment", "{kind}: a template is there, or unknown: {read:?}");
        let answer = plane.server().shared().health.answer("/readyz/storage-integrity", "").expect("a health path");
        assert_eq!(answer.status(), 500, "{kind}");
        let metrics = plane.server().shared().metrics.text();
        let damaged = metrics.lines().find_map(|line| line.strip_prefix("karmada_store_damaged "));
        assert!(damaged.is_some_and(|count| count != "0"), "{kind}: {damaged:?}");
        plane.stop().await.expect("it stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_store_is_not_recreated() {
    let root = tempfile::tempdir().expect("a directory");
    let plane = Plane::start_with(|options| on_disk(options, root.path())).await;
    plane.plane.stop().await.expect("it stops");
    std::fs::remove_dir_all(root.path().join("store")).expect("the store");
    let mut options = options(root.path());
    on_disk(&mut options, root.path());
    let world = World::simulated("2026-11-22T00:00:00Z".parse().expect("a time"), 8);
    let Err(error) = ControlPlane::start_inside(&options, &world).await else { panic!("it started") };
    let message = format!("{error:#}");
    for part in ["store.sqlite is missing", "restore", "start-empty"] {
        assert!(message.contains(part), "{message}");
    }
}

/// Only a restart helps, so that `/livez` has to report it.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_writes_until_a_restart_fails_the_health_checks() {
    let root = tempfile::tempdir().expect("a directory");
    let plane = Plane::start_with(|options| on_disk(options, root.path())).await;
    let health = plane.plane.server().shared().health.clone();
    let answer = |path| health.answer(path, "").expect("a health path").status().as_u16();
    assert_eq!([answer("/livez"), answer("/livez/etcd")], [200, 200]);
    let store = root.path().join("store");
    std::fs::rename(&store, root.path().join("moved")).expect("moved");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let error = plane.client().create(&maps, &map).await.expect_err("the store is gone").to_string();
    assert!(error.contains("removed or replaced"), "{error}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let paths = ["/livez", "/livez/etcd", "/readyz", "/healthz"];
    assert_eq!(paths.map(answer), [500; 4]);
    std::fs::rename(root.path().join("moved"), &store).expect("moved back");
    plane.plane.stop().await.expect("it stops");
}
