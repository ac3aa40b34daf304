//! The metrics APIs over members: in the control plane's own server, and as a process behind another server.

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use http::Method;
use pki::Authority;
use serde_json::{Value, json};
use world::World;

use crate::components::{Component, args};
use crate::fleet::{Fleet, until};
use crate::plane::Plane;
use crate::search_alone::Front;

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/pods";

async fn document(client: &Client, path: &str) -> Value {
    let document = client.document(path, "application/json").await.unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&document).expect("JSON")
}

/// `NAME@CLUSTER` of the items.
fn names(list: &Value) -> Vec<String> {
    let mark = "resource.karmada.io/query-from-cluster";
    let name =
        |it: &Value| format!("{}@{}", it["metadata"]["name"], it["metadata"]["annotations"][mark]).replace('"', "");
    list["items"].as_array().into_iter().flatten().map(name).collect()
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"},
            "annotations": {"simulator.karmada.io/usage": format!("cpu={cpu}"), "simulator.karmada.io/metrics": "hits=2"}},
        "spec": {"containers": [{"name": "app", "image": "nginx"}]}})
}

#[tokio::test(start_paused = true)]
async fn the_control_plane_serves_the_metrics_of_its_members() {
    let plane = Plane::start().await;
    let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
    for (member, name, cpu) in [("member1", "web-0", "10m"), ("member2", "web-0", "20m"), ("member2", "web-1", "30m")] {
        let member = plane.plane.members().iter().find(|it| it.name() == member).expect("a member");
        member.client().create(&pods, &pod(name, cpu)).await.expect("a pod");
    }
    let client = plane.client();
    let list = until_virtual(async || {
        let list = document(client, &format!("{PODS}?labelSelector=app%3Dweb")).await;
        (names(&list).len() == 3).then_some(list)
    })
    .await;
    assert_eq!(names(&list), ["web-0@member1", "web-0@member2", "web-1@member2"]);
    let one = document(client, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/web-1").await;
    assert_eq!(one["containers"][0]["usage"]["cpu"], "30m");
    let two = client.document("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/web-0", "application/json").await;
    assert!(two.expect_err("two of them").to_string().contains("the pod(web-0) found in more than one clusters"));
    let nodes = document(client, "/apis/metrics.k8s.io/v1beta1/nodes").await;
    assert_eq!(names(&nodes).len(), 6);
    let hits = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/hits?labelSelector=app%3Dweb";
    let hits = document(client, hits).await;
    let values: Vec<&Value> = hits["items"].as_array().expect("items").iter().map(|it| &it["value"]).collect();
    assert_eq!(values, ["4", "2"]);

    // Resource metrics have a local APIService, and are discovered.
    let services = ApiResource::cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices");
    let service = client.get(&services, &ObjectKey::cluster("v1beta1.metrics.k8s.io")).await.expect("an APIService");
    let service = service.to_value().expect("JSON");
    assert_eq!(service["spec"].get("service"), None);
    assert_eq!(service["status"]["conditions"][0]["reason"], "Local");
    let groups = document(client, "/apis").await;
    let listed: Vec<&str> =
        groups["groups"].as_array().expect("groups").iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(listed.contains(&"metrics.k8s.io"), "{listed:?}");
    let known = client.discovery().await.expect("discovery");
    let found = known.resources.iter().find(|it| it.resource.group == "metrics.k8s.io" && it.resource.plural == "pods");
    assert!(found.expect("pods").can("list"));
    let openapi = document(client, "/openapi/v3/apis/metrics.k8s.io/v1beta1").await;
    assert_eq!(openapi["openapi"], "3.0.0");

    // Rights are those on the groups, as upstream.
    let rest =
        transport::Identity { user: "ann".into(), groups: vec!["system:authenticated".into()], ..Default::default() };
    let ann = Client::in_process(plane.plane.service(), rest);
    let refused = ann.document(PODS, "application/json").await.expect_err("no right").to_string();
    let expected = "User \"ann\" cannot list resource \"pods\" in API group \"metrics.k8s.io\" at the cluster scope";
    assert!(refused.contains(expected), "{refused}");
    let bindings = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregated-metrics-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    client.create(&bindings, &binding).await.expect("a binding");
    let list = until_virtual(async || ann.document(PODS, "application/json").await.ok()).await;
    assert_eq!(names(&serde_json::from_slice(&list).expect("JSON")).len(), 3);
}

/// Polls in virtual time.
async fn until_virtual<T>(check: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(found) = check().await {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it does not come about");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_from_a_process_behind_the_api_server() {
    let fleet = Fleet::start(&[]).await;
    for name in ["m1", "m2"] {
        let member = Box::leak(Box::new(fleet.member(name).await));
        fleet.join(member).await;
        fleet.reachable(name).await;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (world, kubeconfig) = (World::system(), fleet.kubeconfig());
    let (authority, _) = Authority::generate("front-proxy-ca", &world).expect("an authority");
    let pair = authority.issue_client("front-proxy-client", &[], &world).expect("a certificate");
    let ca = directory.path().join("front.crt");
    std::fs::write(&ca, authority.certificate()).expect("a file");
    let own = args(&[
        "metrics-adapter",
        "--kubeconfig",
        kubeconfig.to_str().expect("text"),
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--metrics-bind-address=0",
        "--data-dir",
        directory.path().join("data").to_str().expect("text"),
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-client-ca-file",
        ca.to_str().expect("text"),
    ]);
    let adapter = tokio::task::spawn_blocking(move || Component::start(&own, 1)).await.expect("no panic");
    let front = Front::connect(adapter.text_after("The metrics adapter is ready on "), &pair).await;
    let (code, body) = front.request("", Method::GET, PODS, None).await;
    assert!(code == 403 && body.contains("system:anonymous"), "{code} {body}");
    let nodes = "/apis/metrics.k8s.io/v1beta1/nodes";
    let found = until("the nodes of both members", async || {
        let (_, body) = front.request("ann", Method::GET, nodes, None).await;
        let found = names(&serde_json::from_str(&body).unwrap_or_default());
        (found.len() == 4).then_some(found)
    })
    .await;
    assert_eq!(found, ["m1-node-1@m1", "m1-node-2@m1", "m2-node-1@m2", "m2-node-2@m2"]);
    // The requests of the API server in front before it forwards others.
    for (path, text) in [
        ("/apis/metrics.k8s.io/v1beta1", "NodeMetrics"),
        ("/apis/custom.metrics.k8s.io/v1beta2", "APIResourceList"),
        ("/apis/external.metrics.k8s.io/v1beta1", "APIResourceList"),
        ("/openapi/v3", "apis/metrics.k8s.io/v1beta1"),
        ("/openapi/v3/apis/custom.metrics.k8s.io/v1beta1", "MetricValueList"),
        ("/openapi/v2", "PodMetrics"),
    ] {
        let (code, body) = front.request("ann", Method::GET, path, None).await;
        assert!(code == 200 && body.contains(text), "{path}: {code} {body}");
    }
    assert!(adapter.terminate());
}
