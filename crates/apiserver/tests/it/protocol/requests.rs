//! The requests that kubectl 1.27 to 1.36 and kube-controller-manager really send, in order, with their responses.
//! `requests.txt` lists them; bodies are generated here, in the form of the request's content type.

use serde_json::{Value, json};

use super::lines;
use crate::parity::{Reply, send};

const REQUESTS: &str = include_str!("requests.txt");

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const WATCH_LIST: &str =
    "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=1&watch=true";

/// The header that a word of the list abbreviates.
fn accept(word: &str) -> String {
    match word {
        "json" => "application/json".into(),
        "any" => "application/json, */*".into(),
        "table" => TABLE.into(),
        "protobuf" => "application/vnd.kubernetes.protobuf,application/json".into(),
        "discovery-1.27" => format!("{V2BETA1},application/json"),
        "discovery-1.30" => format!("{V2},{V2BETA1},application/json"),
        "discovery-1.36" => format!("{V2};profile=nopeer,{V2},{V2BETA1},application/json"),
        "openapi" => "application/com.github.proto-openapi.spec.v2@v1.0+protobuf".into(),
        other => panic!("{other} is not in the list"),
    }
}

fn content_type(word: &str) -> &'static str {
    match word {
        "-" => "",
        "json" => "application/json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "patch" => "application/json-patch+json",
        "apply" => "application/apply-patch+yaml",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        other => panic!("{other} is not in the list"),
    }
}

/// A body that fits the request.
fn body(method: &str, path: &str, content: &str) -> Value {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kv"}, "spec": {
        "selector": {"matchLabels": {"app": "kv"}}, "template": {"metadata": {"labels": {"app": "kv"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
    match (method, content) {
        ("GET", _) => Value::Null,
        ("DELETE", _) => json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
        ("PATCH", "patch") => json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]),
        ("PATCH", "apply") if path.contains("clusterroles") => {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "admin"}, "rules": []})
        }
        ("PATCH", "apply") => deployment,
        ("PATCH", _) if path.contains("/scale") => json!({"spec": {"replicas": 2}}),
        ("PATCH", _) => json!({"metadata": {"labels": {"x": "y"}}}),
        _ if path.contains("deployments") => deployment,
        _ if path.contains("selfsubjectaccessreviews") => {
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})
        }
        _ if path.contains("tokenreviews") => {
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}})
        }
        _ if path.contains("leases") => json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "h"}}),
        _ if path.contains("events") => json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "q"}}),
        _ if path.contains("serviceaccounts") => {
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "namespace-controller"}})
        }
        _ => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "q"}}),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_kubectl_and_the_controller_manager_succeed() {
    let (server, _client) = crate::objects::server().await;
    for namespace in ["kube-system"] {
        let body = json!({"metadata": {"name": namespace}}).to_string();
        assert_eq!(send(&server, "POST", "/api/v1/namespaces", &[], &body).await.code, 201);
    }
    for line in REQUESTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [code, method, path, accepted, content] = words[..] else { panic!("{line}") };
        let mut path = path.to_owned();
        let mut document = body(method, &path, content);
        if method == "PUT" {
            // Based on the existing object.
            let read = send(&server, "GET", path.split('?').next().unwrap_or(&path), &[], "").await.json();
            document["metadata"]["resourceVersion"] = read["metadata"]["resourceVersion"].clone();
        }
        if path.contains("/openapi/v3/") {
            let index = send(&server, "GET", "/openapi/v3", &[], "").await.json();
            let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL").to_owned();
            path = format!("{url}&timeout=32s");
        }
        let encoded = match content {
            "protobuf" => kubernetes_api::protobuf::encode(document.to_string().as_bytes()).expect("a built-in kind"),
            _ if document.is_null() => Vec::new(),
            _ => document.to_string().into_bytes(),
        };
        let accepted = accept(accepted);
        let headers = [("accept", accepted.as_str()), ("content-type", content_type(content))];
        let reply = send_bytes(&server, method, &path, &headers, encoded).await;
        assert_eq!(reply.code.to_string(), code, "{line}: {}", reply.shown());
    }
}

/// Every watchable resource, watched like by informers, and like by the garbage collector.
#[tokio::test(start_paused = true)]
async fn every_resource_can_be_followed() {
    let (server, _client) = crate::objects::server().await;
    let mut followed = 0;
    for resource in kubernetes_api::resources() {
        let named = &resource.info.resource;
        if !resource.info.verbs.iter().any(|verb| verb == "watch") {
            continue;
        }
        let path = format!("{}/{}", named.group_version().url_prefix(), named.plural);
        for (accepted, kind) in
            [(accept("protobuf"), named.kind.as_str()), (METADATA.to_owned(), "PartialObjectMetadata")]
        {
            let reply = send(&server, "GET", &format!("{path}?{WATCH_LIST}"), &[("accept", &accepted)], "").await;
            assert_eq!(reply.code, 200, "{path}: {}", reply.shown());
            let events = lines(&reply);
            let last = events.last().expect("the mark");
            assert_eq!(last["object"]["kind"], kind, "{path}");
            assert_eq!(last["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{path}");
        }
        followed += 1;
    }
    assert!(followed >= 55, "{followed}");
}

async fn send_bytes(
    server: &apiserver::ApiServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Reply {
    let headers: Vec<(&str, &str)> = headers.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
    crate::parity::send_body(server, method, path, &headers, body.into()).await
}
