//! Programs written for kube-rs, unchanged, against `karmada up`: typed and dynamic clients, patches, watches.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    Api, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{GroupVersionKind, PartialObjectMeta, WatchEvent};
use kube::discovery::{self, Discovery, Scope};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, wait};
use kube::{Client, Error, ResourceExt as _};
use serde_json::json;

use crate::process::Karmada;

/// The time-out of all steps.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn client(server: &Karmada) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("the server wrote it");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a complete kubeconfig")).expect("a usable configuration")
}

pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<String, String> = data.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    ConfigMap { metadata: named(name), data: Some(data), ..Default::default() }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..Default::default() }
}

pub fn deployment(name: &str) -> Deployment {
    let object = json!({
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "one", "image": "nginx"}]},
        }},
    });
    serde_json::from_value(object).expect("a Deployment")
}

/// The status code and the reason of an API error.
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("the server should have refused: {other:?}"),
    }
}

#[tokio::test]
async fn typed_objects_are_created_changed_and_deleted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::up(dir.path());
    let client = client(&server).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let post = PostParams::default();

    let mut made = maps.create(&post, &config_map("a", &[("k", "v")])).await.expect("created");
    assert!(maps.create(&post, &made).await.is_err(), "resourceVersion is set");
    let again = maps.create(&post, &config_map("a", &[])).await;
    assert_eq!(refusal(again), (409, "AlreadyExists".into()));
    let stale = made.clone();
    made.data.get_or_insert_default().insert("l".into(), "w".into());
    let replaced = maps.replace("a", &post, &made).await.expect("replaced");
    assert_ne!(replaced.resource_version(), stale.resource_version());
    assert_eq!(refusal(maps.replace("a", &post, &stale).await), (409, "Conflict".into()));
    assert!(maps.get_opt("none").await.expect("answered").is_none());

    let merged = maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": null}}))).await;
    assert_eq!(merged.expect("patched").data, Some(BTreeMap::from([("l".into(), "w".into())])));
    let metadata = maps.get_metadata("a").await.expect("metadata alone");
    assert_eq!(metadata.types.as_ref().map(|types| types.kind.as_str()), Some("PartialObjectMetadata"));
    let dry = PostParams { dry_run: true, ..Default::default() };
    maps.create(&dry, &config_map("dry", &[])).await.expect("accepted");
    assert!(maps.get_opt("dry").await.expect("answered").is_none());

    for n in 0..5 {
        maps.create(&post, &config_map(&format!("page-{n}"), &[])).await.expect("created");
    }
    let (mut names, mut page) = (Vec::new(), ListParams::default().fields("metadata.name!=kube-root-ca.crt").limit(2));
    loop {
        let list = maps.list(&page).await.expect("a page");
        names.extend(list.items.iter().map(kube::ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["a", "page-0", "page-1", "page-2", "page-3", "page-4"]);

    let uid = replaced.uid().expect("a uid");
    maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    in_time("deletion", wait::await_condition(maps.clone(), "a", wait::conditions::is_deleted(&uid)))
        .await
        .expect("watched");
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("deleted");
}

#[tokio::test]
async fn discovery_serves_dynamic_clients() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::up(dir.path());
    let client = client(&server).await;
    let version = client.apiserver_version().await.expect("a version");
    assert_eq!(version.major, "1");
    for discovery in [Discovery::new(client.clone()).run().await, Discovery::new(client.clone()).run_aggregated().await]
    {
        let discovery = discovery.expect("discovered");
        let (resource, capabilities) =
            discovery.resolve_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment")).expect("served");
        assert_eq!((resource.plural.as_str(), capabilities.scope), ("deployments", Scope::Namespaced));
        assert!(discovery.has_group("policy.karmada.io") && discovery.has_group("cluster.karmada.io"));
    }
    let gvk = GroupVersionKind::gvk("policy.karmada.io", "v1alpha1", "PropagationPolicy");
    let (resource, _) = discovery::pinned_kind(&client, &gvk).await.expect("served");
    let policies: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let policy = DynamicObject::new("web", &resource)
        .data(json!({"spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}}));
    let made = policies.create(&PostParams::default(), &policy).await.expect("created");
    assert_eq!(made.data["spec"]["schedulerName"], "default-scheduler", "defaults are filled in");
    assert_eq!(policies.list(&ListParams::default()).await.expect("listed").items.len(), 1);
}

#[tokio::test]
async fn server_side_apply_tracks_ownership() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::up(dir.path());
    let deployments: Api<Deployment> = Api::default_namespaced(client(&server).await);
    let apply = |replicas: i32| {
        let mut object = serde_json::to_value(deployment("web")).expect("an object");
        object["spec"]["replicas"] = json!(replicas);
        Patch::Apply(object)
    };
    deployments.patch("web", &PatchParams::apply("one"), &apply(2)).await.expect("created");
    match deployments.patch("web", &PatchParams::apply("two"), &apply(3)).await {
        Err(Error::Api(status)) => {
            assert!(status.is_conflict(), "{status:?}");
            let causes = status.details.clone().expect("details").causes;
            assert_eq!(causes.len(), 1);
            let cause = (causes[0].reason.as_str(), causes[0].field.as_str(), causes[0].message.as_str());
            assert_eq!(cause, ("FieldManagerConflict", ".spec.replicas", "conflict with \"one\""));
        }
        other => panic!("a conflict was due: {other:?}"),
    }
    let forced = deployments.patch("web", &PatchParams::apply("two").force(), &apply(3)).await.expect("forced");
    assert_eq!(forced.spec.and_then(|spec| spec.replicas), Some(3));

    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 3}});
    let patched = deployments.patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await;
    assert_eq!(patched.expect("patched").status.and_then(|status| status.replicas), Some(3));
    assert_eq!(deployments.get_status("web").await.expect("read").status.and_then(|status| status.replicas), Some(3));
    let scale = deployments.get_scale("web").await.expect("a scale");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(3));
    let scaled = Patch::Merge(json!({"spec": {"replicas": 7}}));
    deployments.patch_scale("web", &PatchParams::default(), &scaled).await.expect("scaled");
    assert_eq!(deployments.get("web").await.expect("read").spec.and_then(|spec| spec.replicas), Some(7));
    let strategic = json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "busybox"}]}}}});
    let patched = deployments.patch("web", &PatchParams::default(), &Patch::Strategic(strategic)).await.expect("ok");
    let pod = patched.spec.and_then(|spec| spec.template.spec).expect("a pod");
    assert_eq!(pod.containers.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["two", "one"]);
    let delete = DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..Default::default() };
    deployments.delete("web", &delete).await.expect("deleted");
    in_time("deletion", wait::await_condition(deployments, "web", |object: Option<&Deployment>| object.is_none()))
        .await
        .expect("watched");
}

#[tokio::test]
async fn pods_are_evicted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::member("m1", dir.path());
    let client = client(&server).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &deployment("web")).await.expect("created");
    let rolled = wait::await_condition(deployments.clone(), "web", wait::conditions::is_deployment_completed());
    in_time("the rollout", rolled).await.expect("watched");
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod = pods.list(&ListParams::default().labels("app=web")).await.expect("listed").items.remove(0);
    let uid = pod.uid().expect("a uid");
    pods.evict(&pod.name_any(), &EvictParams::default()).await.expect("evicted");
    in_time("eviction", wait::await_condition(pods, &pod.name_any(), wait::conditions::is_deleted(&uid)))
        .await
        .expect("watched");
}

/// The names of a store, once it has this many.
async fn follows(store: &reflector::Store<ConfigMap>, count: usize) -> Vec<String> {
    loop {
        let mut names: Vec<String> = store.state().iter().map(|map| map.name_any()).collect();
        if names.len() == count {
            names.sort();
            return names;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn reflectors_follow_by_list_and_by_stream() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    let client = client(&server).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("old", &[])).await.expect("created");
    for (name, config) in [
        ("list", watcher::Config::default().page_size(1)),
        ("stream", watcher::Config::default().streaming_lists()),
        ("metadata", watcher::Config::default().any_semantic()),
    ] {
        let (store, writer) = reflector::store();
        let stream = reflector::reflector(writer, watcher::watcher(maps.clone(), config)).default_backoff();
        let following = tokio::spawn(stream.for_each(|event| async { drop(event.expect("a healthy watch")) }));
        in_time("the first list", store.wait_until_ready()).await.expect("ready");
        assert_eq!(in_time("the list", follows(&store, 1)).await, ["old"], "{name}");
        maps.create(&PostParams::default(), &config_map("new", &[("k", "v")])).await.expect("created");
        assert_eq!(in_time("the addition", follows(&store, 2)).await, ["new", "old"], "{name}");
        assert!(store.get(&ObjectRef::new("new").within("default")).is_some());
        maps.delete("new", &DeleteParams::default()).await.expect("deleted");
        in_time("the deletion", follows(&store, 1)).await;
        following.abort();
    }
    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client.clone());
    let events = watcher::watcher(metadata, watcher::Config::default());
    let mut events = pin!(events.try_filter_map(|event| async {
        Ok(match event {
            Event::InitApply(object) | Event::Apply(object) => Some(object.name_any()),
            Event::Init | Event::InitDone | Event::Delete(_) => None,
        })
    }));
    let first = in_time("metadata", events.next()).await.expect("an object").expect("a healthy watch");
    assert_eq!(first, "old");
    watch_by_hand(&maps, &client).await;
}

/// The protocol below reflectors: bookmarks, selectors, and objects that leave a selection.
async fn watch_by_hand(maps: &Api<ConfigMap>, client: &Client) {
    let from = maps.list(&ListParams::default()).await.expect("listed").metadata.resource_version.expect("a version");
    let selected = kube::api::WatchParams::default().labels("on=yes").timeout(20);
    let mut stream = pin!(maps.watch(&selected, &from).await.expect("a watch"));
    for label in [json!("yes"), json!(null)] {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"on": label}}}));
        maps.patch("old", &PatchParams::default(), &patch).await.expect("patched");
    }
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        match next(&mut stream).await {
            WatchEvent::Added(map) => kinds.push(format!("added {}", map.name_any())),
            WatchEvent::Deleted(map) => kinds.push(format!("deleted {}", map.name_any())),
            WatchEvent::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(kinds, ["added old", "deleted old"]);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let future = namespaces.watch(&kube::api::WatchParams::default().timeout(1), "0").await.expect("a watch");
    let all: Vec<_> = in_time("a short watch", future.try_collect::<Vec<_>>()).await.expect("ends");
    assert!(all.iter().any(|event| matches!(event, WatchEvent::Added(ns) if ns.name_any() == "default")));
}

async fn next(stream: &mut (impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin)) -> WatchEvent<ConfigMap> {
    in_time("an event", stream.next()).await.expect("an open watch").expect("a healthy watch")
}
