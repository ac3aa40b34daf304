//! kube-apiserver's admission plugins on a server: the fields they set, and the requests they refuse.

use apimachinery::{ApiResource, ObjectKey};
use apiserver::ApiServer;
use apiserver::admit::plugins::{self, Switches};
use client::{Client, Patch, PatchOptions};
use serde_json::{Value, json};
use world::World;

use crate::objects::server_with;

async fn server(disable: &[&str]) -> (ApiServer, Client) {
    let switches = Switches { enable: Vec::new(), disable: disable.iter().map(|name| (*name).to_owned()).collect() };
    let plugins = plugins::built_in(Default::default(), &World::system(), &switches).expect("known names");
    server_with(plugins).await
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let all = kubernetes_api::resources().into_iter().map(|resource| resource.info.resource.clone());
    let mut found = all.filter(|resource| resource.api_version() == api_version && resource.kind == kind);
    found.next().expect("a built-in kind")
}

async fn create(client: &Client, object: Value) -> Result<Value, String> {
    let text = |field: &str| object[field].as_str().expect("a text").to_owned();
    let created = client.create(&resource(&text("apiVersion"), &text("kind")), &object).await;
    created.map(|object| object.to_value().expect("json")).map_err(|error| error.to_string())
}

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
    object.as_object_mut().expect("a map").extend(rest.as_object().cloned().expect("a map"));
    object
}

fn pod(name: &str, container: Value) -> Value {
    let mut container = container;
    container["name"] = "c".into();
    container["image"] = "i:1".into();
    object("v1", "Pod", name, json!({"spec": {"containers": [container]}}))
}

#[tokio::test]
async fn pods_are_completed_and_limited() {
    let (_server, client) = server(&[]).await;
    let missing = create(&client, pod("p", json!({}))).await.expect_err("there is no account");
    let why = "pods \"p\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found";
    assert!(missing.contains(why), "{missing}");
    create(&client, object("v1", "ServiceAccount", "default", json!({}))).await.expect("an account");
    let made = create(&client, pod("p", json!({}))).await.expect("a pod");
    let spec = &made["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    let volume = spec["volumes"][0]["name"].as_str().expect("a volume");
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(0), &json!("PreemptLowerPriority")));
    // A manifest that is applied again does not contain them.
    let mut put = made.clone();
    let filled = put["spec"].as_object_mut().expect("a spec");
    filled.retain(|field, _| !matches!(field.as_str(), "priority" | "preemptionPolicy"));
    filled["containers"][0]["image"] = "i:2".into();
    let put = client.update(&resource("v1", "Pod"), &put).await.expect("only the image changed").to_value();
    let put = put.expect("json");
    assert_eq!(
        (&put["spec"]["priority"], &put["spec"]["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );

    let limits = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}]}});
    create(&client, object("v1", "LimitRange", "l", limits)).await.expect("limits");
    let made = create(&client, pod("q", json!({}))).await.expect("a pod");
    assert_eq!(made["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "500m"}));
    let greedy = pod("r", json!({"resources": {"limits": {"cpu": "2"}}}));
    let refused = create(&client, greedy).await.expect_err("too much");
    assert!(refused.contains("maximum cpu usage per Container is 1, but limit is 2"), "{refused}");
    let unknown = json!({"spec": {"runtimeClassName": "x", "containers": [{"name": "c", "image": "i"}]}});
    let refused = create(&client, object("v1", "Pod", "s", unknown)).await.expect_err("no such class");
    assert!(refused.contains("pod rejected: RuntimeClass \"x\" not found"), "{refused}");
    let heavy = json!({"spec": {"overhead": {"cpu": "1"}, "containers": [{"name": "c", "image": "i"}]}});
    let refused = create(&client, object("v1", "Pod", "t", heavy)).await.expect_err("no class");
    let why =
        "pods \"t\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert!(refused.contains(why), "{refused}");
}

#[tokio::test]
async fn namespaces_enforce_their_pod_security_level() {
    let (_server, client) = server(&["ServiceAccount"]).await;
    let namespace = |name: &str, level: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}})
    };
    let refused = create(&client, namespace("bad", "nope")).await.expect_err("no such level");
    assert!(
        refused
            .contains("metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"nope\": must be one of"),
        "{refused}"
    );
    create(&client, namespace("strict", "baseline")).await.expect("a namespace");
    let privileged = |namespace: &str| {
        let mut pod = pod("p", json!({"securityContext": {"privileged": true}}));
        pod["metadata"]["namespace"] = namespace.into();
        pod
    };
    let refused = create(&client, privileged("strict")).await.expect_err("privileged");
    assert!(
        refused.contains("violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not"),
        "{refused}"
    );
    create(&client, privileged("default")).await.expect("nothing is required of it there");
}

#[tokio::test]
async fn classes_finalizers_and_taints_are_filled_in() {
    let (_server, client) = server(&[]).await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p", "metadata":
        {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    create(&client, class).await.expect("a class");
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = create(&client, object("v1", "PersistentVolumeClaim", "c", claim)).await.expect("a claim");
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let node = create(&client, node).await.expect("a node");
    assert_eq!(node["spec"]["taints"][0]["key"], "node.kubernetes.io/not-ready");
}

#[tokio::test]
async fn a_quota_holds_under_concurrent_writes() {
    let (_server, client) = server(&[]).await;
    create(&client, object("v1", "ResourceQuota", "q", json!({"spec": {"hard": {"configmaps": "5"}}})))
        .await
        .expect("a quota");
    let (quotas, key) = (resource("v1", "ResourceQuota"), ObjectKey::namespaced("default", "q"));
    let counted = Patch::Merge(json!({"status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}}}));
    client.patch(&quotas, &key, &counted, &PatchOptions::status()).await.expect("a status");
    let creates = (0..20).map(|number| create(&client, object("v1", "ConfigMap", &format!("m{number}"), json!({}))));
    let answers = futures::future::join_all(creates).await;
    let refused: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused.len(), 15, "{refused:?}");
    let why = "exceeded quota: q, requested: configmaps=1, used: configmaps=5, limited: configmaps=5";
    assert!(refused.iter().all(|refusal| refusal.contains(why)), "{refused:?}");
    let quota = client.get(&quotas, &key).await.expect("the quota").to_value().expect("json");
    assert_eq!(quota["status"]["used"], json!({"configmaps": "5"}));
}

/// Refuses ConfigMaps of one name, after all other plugins.
struct Last;

impl apiserver::Admission for Last {
    fn validate<'a>(
        &'a self,
        request: &'a apiserver::AdmissionRequest<'_>,
    ) -> futures::future::BoxFuture<'a, Result<(), apimachinery::Status>> {
        let refused = request.key.name() == "refused";
        let status = apimachinery::Status::forbidden("", "configmaps", request.key.name(), "it comes last");
        Box::pin(async move { if refused { Err(status) } else { Ok(()) } })
    }
}

#[tokio::test]
async fn quota_of_a_rejected_create_is_released() {
    let switches = Switches { enable: Vec::new(), disable: vec!["ServiceAccount".into()] };
    let mut plugins = plugins::built_in(Default::default(), &World::system(), &switches).expect("known names");
    plugins.push(std::sync::Arc::new(Last));
    let (_server, client) = server_with(plugins).await;
    for name in ["q", "r"] {
        create(&client, object("v1", "ResourceQuota", name, json!({"spec": {"hard": {"configmaps": "5"}}})))
            .await
            .expect("a quota");
        let key = ObjectKey::namespaced("default", name);
        let counted = json!({"status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}}});
        let status = PatchOptions::status();
        client.patch(&resource("v1", "ResourceQuota"), &key, &Patch::Merge(counted), &status).await.expect("a status");
    }
    let used = async |name: &str| {
        let key = ObjectKey::namespaced("default", name);
        let quota = client.get(&resource("v1", "ResourceQuota"), &key).await.expect("the quota");
        quota.to_value().expect("json")["status"]["used"]["configmaps"].clone()
    };
    create(&client, object("v1", "ConfigMap", "a", json!({}))).await.expect("within the quota");
    for name in ["refused", "a"] {
        create(&client, object("v1", "ConfigMap", name, json!({}))).await.expect_err("refused, or there already");
        assert_eq!((used("q").await, used("r").await), (json!("1"), json!("1")), "{name}");
    }
    // A usage that the first quota permits and the second refuses is released in the first.
    let full = json!({"status": {"hard": {"configmaps": "1"}}});
    let key = ObjectKey::namespaced("default", "r");
    let status = PatchOptions::status();
    client.patch(&resource("v1", "ResourceQuota"), &key, &Patch::Merge(full), &status).await.expect("a status");
    for _ in 0..8 {
        create(&client, object("v1", "ConfigMap", "b", json!({}))).await.expect_err("the second quota is full");
        assert_eq!(used("q").await, json!("1"));
    }
    let hard = json!({"status": {"hard": {"configmaps": "5"}}});
    client.patch(&resource("v1", "ResourceQuota"), &key, &Patch::Merge(hard), &status).await.expect("a status");
    // Of two objects created concurrently under one name, one is stored and one is counted.
    let twins = (0..8).map(|_| create(&client, object("v1", "ConfigMap", "twin", json!({}))));
    let stored = futures::future::join_all(twins).await.into_iter().filter(Result::is_ok).count();
    assert_eq!((stored, used("q").await, used("r").await), (1, json!("2"), json!("2")));
}

/// `TestPriorityClassAdmission`: a second default class is refused, also by an update.
#[tokio::test]
async fn one_priority_class_is_the_default() {
    let (_server, client) = server(&[]).await;
    let class = |name: &str, is_default: bool| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": 1, "globalDefault": is_default})
    };
    let why = "PriorityClass a is already marked as default. Only one default can exist";
    let mut first = create(&client, class("a", true)).await.expect("the first one");
    let refused = create(&client, class("b", true)).await.expect_err("a second one");
    assert!(refused.contains(why), "{refused}");
    let mut second = create(&client, class("b", false)).await.expect("another one");
    second["globalDefault"] = true.into();
    let classes = resource("scheduling.k8s.io/v1", "PriorityClass");
    let refused = client.update(&classes, &second).await.expect_err("a second one").to_string();
    assert!(refused.contains(why), "{refused}");
    first["metadata"]["labels"] = json!({"a": "b"});
    client.update(&classes, &first).await.expect("it stays the default");
}
