//! Pods: binding by a scheduler, graceful deletion, eviction within a budget.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions};
use http::Method;
use serde_json::{Value, json};

use crate::objects::server;
use crate::parity::send;

fn pods() -> ApiResource {
    ApiResource::namespaced("", "v1", "Pod", "pods")
}

fn budgets() -> ApiResource {
    ApiResource::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

async fn create_pod(client: &Client, name: &str) -> Value {
    let pod = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    client.create(&pods(), &pod).await.expect("a pod").to_value().expect("json")
}

/// Posts to a subresource; the outcome is the answer or the refusal's text.
async fn post(client: &Client, name: &str, subresource: &str, body: &Value) -> Result<Value, String> {
    let path = format!("/api/v1/namespaces/default/pods/{name}/{subresource}");
    let answer = client.request(Method::POST, &path, Some(body.clone())).await.map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&answer).expect("json"))
}

#[tokio::test]
async fn only_a_bound_pod_has_a_grace_period() {
    let (server, client) = server().await;
    let created = create_pod(&client, "p").await;
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let answer = post(&client, "p", "binding", &binding).await.expect("a free pod");
    assert_eq!(answer["status"], "Success");
    let pod = client.get(&pods(), &key("p")).await.expect("the pod").to_value().expect("json");
    assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["generation"]), (&json!("n"), &json!(1)));
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let twice = post(&client, "p", "binding", &binding).await.expect_err("it has a node");
    assert!(twice.contains("pod p is already assigned to node \"n\""), "{twice}");

    client.delete(&pods(), &key("p"), &DeleteOptions::default()).await.expect("delete");
    let leaving = client.get(&pods(), &key("p")).await.expect("it has 30 seconds").to_value().expect("json");
    assert_eq!(leaving["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    client.delete(&pods(), &key("p"), &now).await.expect("delete");
    assert!(client.get_opt(&pods(), &key("p")).await.expect("get").is_none());

    create_pod(&client, "q").await;
    let gone = send(&server, "DELETE", "/api/v1/namespaces/default/pods/q", &[], "").await.json();
    assert_eq!((&gone["kind"], &gone["metadata"]["name"]), (&json!("Pod"), &json!("q")), "the pod is returned: {gone}");
    // As kube-apiserver, which stores the mark before it removes the pod.
    assert_eq!(
        (&gone["metadata"]["deletionGracePeriodSeconds"], &gone["metadata"]["generation"]),
        (&json!(0), &json!(2)),
        "{gone}"
    );
    assert!(gone["metadata"]["deletionTimestamp"].is_string(), "{gone}");
    assert!(client.get_opt(&pods(), &key("q")).await.expect("get").is_none());
}

#[tokio::test]
async fn an_eviction_spends_the_budget() {
    let (_server, client) = server().await;
    let budget = json!({"metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}});
    let mut budget = client.create(&budgets(), &budget).await.expect("a budget").to_value().expect("json");
    budget["status"] = json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
        "observedGeneration": 1});
    client.update_status(&budgets(), &budget).await.expect("the controller counts");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    for name in ["p", "q"] {
        let mut pod = create_pod(&client, name).await;
        let binding = json!({"target": {"name": "n"}});
        post(&client, name, "binding", &binding).await.expect("a free pod");
        pod["metadata"]["resourceVersion"] = Value::Null;
        pod["status"] =
            json!({"phase": "Running", "qosClass": "BestEffort", "conditions": [{"type": "Ready", "status": "True"}]});
        client.update_status(&pods(), &pod).await.expect("it runs");
    }
    post(&client, "p", "eviction", &eviction).await.expect("the budget allows one");
    assert!(client.get(&pods(), &key("p")).await.expect("it has 30 seconds").is_deleting());
    let spent = client.get(&budgets(), &key("b")).await.expect("the budget").to_value().expect("json");
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    let mut other = eviction.clone();
    other["metadata"]["name"] = "q".into();
    let refused = post(&client, "q", "eviction", &other).await.expect_err("it is spent");
    assert!(refused.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{refused}");
}

#[tokio::test]
async fn an_eviction_names_its_pod() {
    let (_server, client) = server().await;
    create_pod(&client, "p").await;
    for (subresource, kind) in [("eviction", "Eviction"), ("binding", "Binding")] {
        let body = json!({"metadata": {"name": "other"}, "target": {"name": "n"}});
        let refused = post(&client, "p", subresource, &body).await.expect_err("another pod is named");
        assert!(refused.contains(&format!("name in URL does not match name in {kind} object")), "{refused}");
    }
}

#[tokio::test]
async fn a_pod_without_a_node_has_an_empty_log() {
    let (server, client) = server().await;
    create_pod(&client, "p").await;
    let log = "/api/v1/namespaces/default/pods/p/log";
    let empty = send(&server, "GET", log, &[], "").await;
    assert_eq!((empty.code, &empty.body[..]), (200, &b""[..]), "{}", empty.shown());
    assert_eq!(empty.headers["content-type"], "text/plain");
    let check = async |query: &str, expected: &str| {
        let refused = send(&server, "GET", &format!("{log}?{query}"), &[], "").await.shown();
        assert!(refused.contains(expected), "{query}: {refused}");
    };
    check("tailLines=-1", "422 Invalid PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1").await;
    check("limitBytes=x", "400 BadRequest strconv.ParseInt").await;
    check("container=x", "400 BadRequest container x is not valid for pod p").await;
    let by_hand = send(&server, "GET", &format!("{log}?container=x"), &[("user-agent", "curl/8")], "").await;
    assert!(by_hand.body.starts_with(b"{\n  \"kind\": \"Status\""), "{}", by_hand.shown());
    post(&client, "p", "binding", &json!({"target": {"name": "n"}})).await.expect("a free pod");
    check("container=c", "the kubelet of node n").await;
}

#[tokio::test]
async fn streams_and_proxies_name_the_reason_for_their_absence() {
    let (server, client) = server().await;
    create_pod(&client, "p").await;
    let nodes = ApiResource::cluster("", "v1", "Node", "nodes");
    client.create(&nodes, &json!({"metadata": {"name": "n"}})).await.expect("a node");
    let services = ApiResource::namespaced("", "v1", "Service", "services");
    let service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 443}]}});
    client.create(&services, &service).await.expect("a service");
    let check = async |path: &str, expected: &str| {
        let refused = send(&server, "GET", &format!("/api/v1/{path}"), &[], "").await.shown();
        assert!(refused.starts_with(expected), "{path}: {refused}");
    };
    let core = "namespaces/default";
    for (path, expected) in [
        ("pods/p/exec?command=ls", "400 BadRequest pod p does not have a host assigned"),
        ("pods/p/exec?container=x", "400 BadRequest container x is not valid for pod p"),
        ("pods/q/attach", "404 NotFound pods \"q\" not found"),
        ("pods/p:80/proxy/x", "400 BadRequest address not allowed"),
        ("pods/q:80/proxy", "404 NotFound pods \"q\" not found"),
        ("pods/ftp:p:80/proxy/", "400 BadRequest invalid pod request \"ftp:p:80\""),
        ("services/s/proxy/", "503 ServiceUnavailable no endpoints available for service \"s\""),
        ("services/https:s:80/proxy/", "503 ServiceUnavailable no service port 80 found for service \"s\""),
        ("services/t/proxy/", "404 NotFound services \"t\" not found"),
    ] {
        check(&format!("{core}/{path}"), expected).await;
    }
    check("nodes/n/proxy/metrics", "503 ServiceUnavailable node n cannot be reached").await;
    check("nodes/m:10250/proxy/", "404 NotFound nodes \"m\" not found").await;
}
