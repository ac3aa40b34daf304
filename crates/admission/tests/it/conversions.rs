//! Conversion webhooks of custom resources.

use futures::StreamExt as _;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};
use crate::policies::{binding, policy, put};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/g.example/v1/namespaces/default/xs";
const V2: &str = "/apis/g.example/v2/namespaces/default/xs";

fn definition(hooks: &Hooks, path: &str) -> Value {
    let version = |name: &str, field: &str, storage: bool| {
        let spec =
            json!({"type": "object", "properties": {field: {"type": "integer"}, "replicas": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}], "subresources": {"status": {}, "scale": scale}})
    };
    let config = json!({"url": format!("{}/{path}", hooks.url), "caBundle": hooks.ca});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "xs.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
            "names": {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList"},
            "versions": [version("v1", "one", true), version("v2", "two", false)],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}}})
}

async fn define(plane: &Plane, hooks: &Hooks, path: &str) {
    let reply = plane.post(DEFINITIONS, &definition(hooks, path)).await;
    assert_eq!((reply.code, reply.warnings.as_slice()), (201, &[] as &[String]), "{}", reply.body);
    while plane.send(Method::GET, V2, "application/json", &Value::Null).await.code == 404 {
        tokio::task::yield_now().await;
    }
}

async fn point(plane: &Plane, hooks: &Hooks, path: &str) {
    let patch = json!({"spec": {"conversion": definition(hooks, path)["spec"]["conversion"]}});
    let before = plane.server.shared().registry.snapshot().generation;
    assert_eq!(plane.patch(&format!("{DEFINITIONS}/xs.g.example"), &patch).await.code, 200);
    plane.server.shared().registry.newer_than(before).await;
}

fn object(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("g.example/{version}"), "kind": "X", "metadata": {"name": name}, "spec": spec})
}

async fn get(plane: &Plane, path: &str) -> Value {
    plane.send(Method::GET, path, "application/json", &Value::Null).await.body
}

#[tokio::test]
async fn every_verb_converts_and_the_stored_version_stays() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    let made = plane.post(V2, &object("v2", "a", json!({"two": 1}))).await;
    assert_eq!((made.code, &made.body["spec"]), (201, &json!({"two": 1})), "{}", made.body);
    assert_eq!(made.body["metadata"]["generation"], 1, "metadata stays, but for labels and annotations");
    let stored = get(&plane, &format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"one": 1}));
    assert_eq!(stored["metadata"]["annotations"], json!({"via": "g.example/v1"}));
    let one = format!("{V2}/a");
    assert_eq!(plane.patch(&one, &json!({"spec": {"two": 2}})).await.body["spec"], json!({"two": 2}));
    let mut whole = get(&plane, &one).await;
    whole["spec"]["two"] = json!(3);
    assert_eq!(plane.put(&one, &whole).await.body["spec"], json!({"two": 3}));
    let applied = object("v2", "a", json!({"two": 4}));
    let apply = format!("{one}?fieldManager=m&force=true");
    let reply = plane.send(Method::PATCH, &apply, "application/apply-patch+yaml", &applied).await;
    assert_eq!((reply.code, &reply.body["spec"]), (200, &json!({"two": 4})), "{}", reply.body);
    let status = plane.patch(&format!("{one}/status"), &json!({"status": {"replicas": 5}})).await;
    assert_eq!((status.code, &status.body["status"]["replicas"]), (200, &json!(5)), "{}", status.body);
    let scale = plane.patch(&format!("{one}/scale"), &json!({"spec": {"replicas": 6}})).await;
    assert_eq!((scale.code, &scale.body["spec"]["replicas"]), (200, &json!(6)), "{}", scale.body);
    let stored = get(&plane, &format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"one": 4, "replicas": 6}));
    assert_eq!(stored["apiVersion"], "g.example/v1");
    let definition = get(&plane, &format!("{DEFINITIONS}/xs.g.example")).await;
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(plane.delete(&one).await.code, 200);
    assert_eq!(get(&plane, V1).await["items"], json!([]));
}

#[tokio::test]
async fn a_list_is_one_review_and_watchers_share_one() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    let watch = async || {
        let request = http::Request::get(format!("{V2}?watch=true")).body(transport::empty()).expect("a request");
        let response = plane.client.send(request).await.expect("a response");
        response.into_body().into_data_stream()
    };
    let (mut first, mut second) = (watch().await, watch().await);
    for name in ["a", "b", "c"] {
        assert_eq!(plane.post(V1, &object("v1", name, json!({"one": 1}))).await.code, 201);
    }
    for watch in [&mut first, &mut second] {
        // Events that are near each other share a frame.
        let mut text = Vec::new();
        while text.iter().filter(|byte| **byte == b'\n').count() < 3 {
            text.extend(watch.next().await.expect("a frame").expect("bytes"));
        }
        for (line, name) in text.split(|byte| *byte == b'\n').zip(["a", "b", "c"]) {
            let event: Value = serde_json::from_slice(line).expect("JSON");
            let object = &event["object"];
            let found = (&event["type"], &object["metadata"]["name"], &object["spec"]["two"]);
            assert_eq!(found, (&json!("ADDED"), &json!(name), &json!(1)));
        }
    }
    assert_eq!(hooks.requests("convert").len(), 3, "one for each event");
    hooks.take_paths();
    let list = get(&plane, V2).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(list["items"][2]["spec"], json!({"two": 1}));
    let requests = hooks.requests("convert");
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["objects"].as_array().map(Vec::len), Some(3));
    get(&plane, V1).await;
    assert_eq!(hooks.requests("convert").len(), 1, "the stored version needs none");
    assert_eq!(hooks.connections(), 1);
}

#[tokio::test]
async fn selectors_are_those_of_the_requested_version() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    for (name, one) in [("a", 1), ("b", 2), ("c", 1)] {
        assert_eq!(plane.post(V1, &object("v1", name, json!({"one": one}))).await.code, 201);
    }
    let names = async |selector: &str| {
        let list = get(&plane, &format!("{V2}?fieldSelector=spec.two{selector}")).await;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> =
            items.iter().filter_map(|item| item["metadata"]["name"].as_str()).map(str::to_owned).collect();
        (names.concat(), list["metadata"]["continue"].as_str().unwrap_or_default().to_owned())
    };
    for (selector, expected) in [("%3D1", "ac"), ("!%3D1", "b"), ("%3D", ""), ("%3D1,metadata.name%3Dc", "c")] {
        assert_eq!(names(selector).await.0, expected, "{selector}");
    }
    let (page, token) = names("%3D1&limit=1").await;
    assert_eq!((page.as_str(), names(&format!("%3D1&limit=1&continue={token}")).await.0.as_str()), ("a", "c"));

    let request = http::Request::get(format!("{V2}?watch=true&fieldSelector=spec.two%3D2"));
    let request = request.body(transport::empty()).expect("a request");
    let mut events = plane.client.send(request).await.expect("a response").into_body().into_data_stream();
    // Into the selection, changed in it, and out of it.
    for (name, spec) in [("a", json!({"one": 2})), ("a", json!({"replicas": 1})), ("b", json!({"one": 3}))] {
        assert_eq!(plane.patch(&format!("{V1}/{name}"), &json!({"spec": spec})).await.code, 200);
    }
    let mut text = Vec::new();
    while text.iter().filter(|byte| **byte == b'\n').count() < 4 {
        text.extend(events.next().await.expect("a frame").expect("bytes"));
    }
    let events = text.split(|byte| *byte == b'\n').take(4).map(|line| {
        let event: Value = serde_json::from_slice(line).expect("JSON");
        let object = &event["object"];
        format!("{} {} {}", event["type"], object["metadata"]["name"], object["spec"]["two"]).replace('"', "")
    });
    // One that leaves the selection is shown as it was in it.
    assert_eq!(events.collect::<Vec<_>>(), ["ADDED b 2", "ADDED a 2", "MODIFIED a 2", "DELETED b 2"]);

    // Nothing else is deleted.
    let all_but_two = format!("{V2}?fieldSelector=spec.two!%3D2");
    assert_eq!(plane.delete(&all_but_two).await.code, 200);
    let left = get(&plane, V1).await;
    assert_eq!((left["items"].as_array().map(Vec::len), &left["items"][0]["metadata"]["name"]), (Some(1), &json!("a")));
    point(&plane, &hooks, "convert-no").await;
    let refused = plane.send(Method::GET, &all_but_two, "application/json", &Value::Null).await;
    assert_eq!(refused.code, 500, "it is unknown what the selector selects");
    assert_eq!(plane.delete(&all_but_two).await.code, 500);
    assert_eq!(get(&plane, V1).await["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn failures_are_errors_and_lose_nothing() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    assert_eq!(plane.post(V1, &object("v1", "a", json!({"one": 1}))).await.code, 201);
    let subject = "conversion webhook for g.example/v1, Kind=X";
    let post = |path: &str| format!("Post \"{}/{path}?timeout=30s\"", hooks.url);
    for (path, message) in [
        ("convert-no", format!("{subject} failed: not today")),
        ("convert-lies/renames", format!("{subject} returned invalid object: must have the same name: a != other")),
        ("close", format!("{subject} failed: {}: EOF", post("close"))),
        (
            "code/500",
            format!("{subject} failed: an error on the server (\"body\") has prevented the request from succeeding"),
        ),
        (
            "allow",
            format!(
                "{subject} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=AdmissionReview"
            ),
        ),
    ] {
        point(&plane, &hooks, path).await;
        let reply = get(&plane, &format!("{V2}/a")).await;
        assert_eq!((&reply["code"], &reply["message"]), (&json!(500), &json!(message)), "{path}");
        let list = get(&plane, V2).await;
        assert_eq!(list["kind"], "Status", "no list without some of its objects: {list}");
        let made = plane.post(V2, &object("v2", "b", json!({"two": 1}))).await;
        assert_eq!(made.code, 500, "{path}: {}", made.body);
        assert_eq!(get(&plane, &format!("{V1}/a")).await["spec"], json!({"one": 1}), "{path}");
        assert_eq!(get(&plane, V1).await["items"].as_array().map(Vec::len), Some(1), "nothing was stored");
    }
    point(&plane, &hooks, "html").await;
    let refused = plane.delete(&format!("{V2}/a")).await;
    assert_eq!(refused.code, 500, "{}", refused.body);
    assert_eq!(plane.delete(&format!("{V1}/a")).await.code, 200);
}

/// A webhook decides nothing about the identity of objects and their number.
#[tokio::test]
async fn lies_are_refused_or_have_no_effect() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    for name in ["a", "b"] {
        let mut made = object("v1", name, json!({"one": 1}));
        made["metadata"]["finalizers"] = json!(["example.com/f"]);
        assert_eq!(plane.post(V1, &made).await.code, 201);
    }
    let stored = get(&plane, V1).await;
    let lists = "conversion webhook for g.example/v1, Kind=XList returned ";
    for (lie, of_list, of_object) in [
        ("drops", "1 objects, expected 2", "0 objects, expected 1"),
        ("adds", "3 objects, expected 2", "2 objects, expected 1"),
        ("repeats", "invalid converted object at index 1: must have the same name: b != a", ""),
        ("reorders", "invalid converted object at index 0: must have the same name: a != b", ""),
        (
            "renames",
            "invalid converted object at index 1: must have the same name: b != other",
            "same name: a != other",
        ),
        (
            "moves",
            "invalid converted object at index 1: must have the same namespace: default != kube-system",
            "namespace",
        ),
        ("retypes", "invalid converted object at index 1: invalid kind (expected X, received Secret)", "invalid kind"),
        (
            "keeps",
            "invalid converted object at index 1: invalid groupVersion (expected g.example/v2, received g.example/v3)",
            "groupVersion",
        ),
        ("identity", "invalid converted object at index 1: must have the same UID: ", "same UID"),
        ("strips", "invalid converted object at index 1: must have the same name: b != ", "same name: a != "),
        ("nulls", "invalid converted object at index 1: invalid groupVersion", "groupVersion"),
        ("labels", "invalid metadata in object at index 1: metadata.labels: Invalid value", "invalid metadata"),
    ] {
        point(&plane, &hooks, &format!("convert-lies/{lie}")).await;
        let list = get(&plane, V2).await;
        let message = list["message"].as_str().unwrap_or_default();
        assert!(list["code"] == 500 && message.starts_with(&format!("{lists}{of_list}")), "{lie}: {list}");
        if of_object.is_empty() {
            continue;
        }
        let one = get(&plane, &format!("{V2}/a")).await;
        let message = one["message"].as_str().unwrap_or_default();
        assert!(one["code"] == 500 && message.contains(of_object), "{lie}: {one}");
        for refused in [
            plane.post(V2, &object("v2", "c", json!({"two": 1}))).await,
            plane.patch(&format!("{V2}/a"), &json!({"spec": {"two": 2}})).await,
            plane.delete(&format!("{V2}/a")).await,
        ] {
            assert_eq!(refused.code, 500, "{lie}: {}", refused.body);
        }
        assert_eq!(get(&plane, V1).await["items"], stored["items"], "{lie}: nothing was written");
    }
    point(&plane, &hooks, "convert-lies/metadata").await;
    let (before, shown) = (&stored["items"][0]["metadata"], get(&plane, &format!("{V2}/a")).await);
    for field in ["uid", "resourceVersion", "creationTimestamp", "finalizers", "generation", "managedFields"] {
        assert_eq!(shown["metadata"][field], before[field], "{field}");
    }
    assert_eq!(plane.patch(&format!("{V2}/a"), &json!({"spec": {"two": 2}})).await.code, 200);
    let after = get(&plane, &format!("{V1}/a")).await;
    for field in ["uid", "creationTimestamp", "finalizers"] {
        assert_eq!(after["metadata"][field], before[field], "{field}");
    }
    assert_eq!((&after["spec"], &after["metadata"]["deletionTimestamp"]), (&json!({"one": 2}), &Value::Null));
}

#[tokio::test]
async fn a_hanging_webhook_blocks_no_other_request() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    assert_eq!(plane.post(V1, &object("v1", "a", json!({"one": 1}))).await.code, 201);
    point(&plane, &hooks, "hang").await;
    let hanging = get(&plane, V2);
    tokio::pin!(hanging);
    assert!(futures::poll!(hanging.as_mut()).is_pending());
    assert_eq!(get(&plane, V1).await["items"].as_array().map(Vec::len), Some(1));
    assert!(futures::poll!(hanging.as_mut()).is_pending());
    tokio::time::pause();
    let reply = hanging.await;
    let message = reply["message"].as_str().expect("a text");
    assert!(message.ends_with("context deadline exceeded"), "{message}");
}

#[tokio::test]
async fn a_service_is_resolved() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let port: u16 = hooks.url.rsplit(':').next().expect("a port").parse().expect("a number");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    assert_eq!(plane.post("/api/v1/namespaces/default/services", &service).await.code, 201);
    let mut definition = definition(&hooks, "convert");
    let config = json!({"service": {"namespace": "default", "name": "hook", "path": "/convert", "port": port}, "caBundle": hooks.ca});
    definition["spec"]["conversion"]["webhook"]["clientConfig"] = config;
    assert_eq!(plane.post(DEFINITIONS, &definition).await.code, 201);
    while plane.send(Method::GET, V2, "application/json", &Value::Null).await.code == 404 {
        tokio::task::yield_now().await;
    }
    let made = plane.post(V2, &object("v2", "a", json!({"two": 1}))).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(get(&plane, &format!("{V1}/a")).await["spec"], json!({"one": 1}));
}

#[tokio::test]
async fn admission_webhooks_get_the_version_of_their_rules() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["g.example"], "apiVersions": ["v1"], "resources": ["xs"]}]);
    plane.configure("Validating", "w", vec![hooks.webhook("w", "allow", json!({"rules": rules}))]).await;
    let made = plane.post(V2, &object("v2", "a", json!({"two": 1}))).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let requests = hooks.requests("allow");
    assert_eq!(requests[0]["object"]["spec"], json!({"one": 1}));
    assert_eq!(requests[0]["object"]["apiVersion"], "g.example/v1");
}

#[tokio::test]
async fn policies_get_the_version_of_their_rules() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["g.example"], "apiVersions": ["v1"], "resources": ["xs"]}]);
    let of = |kind: &str, more: Value| {
        let mut spec = json!({"matchConstraints": {"resourceRules": rules, "matchPolicy": "Equivalent"}});
        spec.as_object_mut().expect("a map").extend(more.as_object().cloned().expect("a map"));
        json!({"kind": kind, "metadata": {"name": "p"}, "spec": spec})
    };
    let mutation = json!([{"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{one: object.spec.one + 1}}"}}]);
    let mutating = of("MutatingAdmissionPolicy", json!({"mutations": mutation, "reinvocationPolicy": "Never"}));
    let validation =
        json!([{"expression": "object.spec.one == 2", "messageExpression": "'it is ' + string(object.spec.one)"}]);
    let validating = of("ValidatingAdmissionPolicy", json!({"validations": validation}));
    for (plural, policy) in [("mutating", mutating), ("validating", validating)] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}admissionpolic");
        let made = plane.post(&format!("{path}ies"), &policy).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let mut binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
        if plural == "validating" {
            binding["spec"]["validationActions"] = json!(["Deny"]);
        }
        let made = plane.post(&format!("{path}ybindings"), &binding).await;
        assert_eq!(made.code, 201, "{}", made.body);
    }
    plane.observed().await;
    let made = plane.post(V2, &object("v2", "a", json!({"two": 1}))).await;
    assert_eq!((made.code, &made.body["spec"]), (201, &json!({"two": 2})), "{}", made.body);
    let refused = plane.post(V2, &object("v2", "b", json!({"two": 2}))).await;
    assert!(refused.code == 422 && refused.message().ends_with("denied request: it is 3"), "{}", refused.body);
}

/// As upstream: the webhook sees objects that a quota refuses, and objects that it denies are not charged.
#[tokio::test]
async fn quotas_are_charged_after_webhooks() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/configmaps": "0"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    assert_eq!(plane.post(quotas, &quota).await.code, 201);
    let status = json!({"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "0"}}});
    assert_eq!(plane.patch(&format!("{quotas}/q/status"), &status).await.code, 200);
    plane.configure("Validating", "w", vec![hooks.webhook("w", "allow", json!({}))]).await;
    let refused = plane.post(crate::harness::CONFIG_MAPS, &crate::harness::config_map("a")).await;
    assert!(refused.message().contains("exceeded quota"), "{}", refused.body);
    assert_eq!(hooks.requests("allow").len(), 1);
}

/// Parameters have the version that the policy names; objects that cannot be converted are subject to its failure
/// policy.
#[tokio::test]
async fn policies_read_their_own_versions() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    assert_eq!(plane.post(V1, &object("v1", "limit", json!({"one": 1}))).await.code, 201);
    let of = |version: &str, resources: &str| {
        json!({"matchConstraints": {"resourceRules": [
            {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": [version], "resources": [resources]}]}})
    };
    let mut spec = of("v1", "configmaps");
    spec["paramKind"] = json!({"apiVersion": "g.example/v2", "kind": "X"});
    spec["validations"] =
        json!([{"expression": "false", "messageExpression": "string(params.apiVersion) + string(params.spec.two)"}]);
    put(&plane, "validatingadmissionpolicies", &policy("p", spec)).await;
    let reference = json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}});
    put(&plane, "validatingadmissionpolicybindings", &binding("b", "p", reference)).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert!(reply.message().ends_with("denied request: g.example/v21"), "{reply:?}");
    point(&plane, &hooks, "convert-no").await;
    for (failure_policy, expected) in [
        (
            "Fail",
            "denied request: failed to configure binding: failed to convert object version: conversion webhook for",
        ),
        ("Ignore", ""),
    ] {
        let mut spec = of("v2", "xs");
        spec["validations"] = json!([{"expression": "true"}]);
        spec["failurePolicy"] = failure_policy.into();
        put(&plane, "validatingadmissionpolicies", &policy("q", spec)).await;
        put(&plane, "validatingadmissionpolicybindings", &binding("c", "q", json!({}))).await;
        let reply = plane.post(&format!("{V1}?dryRun=All"), &object("v1", "b", json!({"one": 1}))).await;
        assert!(reply.message().contains(expected) && expected.is_empty() == (reply.code == 201), "{reply:?}");
    }
}

fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let own = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
    own.map(|entry| entry["fieldsV1"]["f:spec"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn owners_are_compared_in_their_own_versions() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    define(&plane, &hooks, "convert").await;
    let apply = async |version: &str, manager: &str, spec: Value| {
        let base = if version == "v1" { V1 } else { V2 };
        let object = object(version, "a", spec);
        plane
            .send(Method::PATCH, &format!("{base}/a?fieldManager={manager}"), "application/apply-patch+yaml", &object)
            .await
    };
    assert_eq!(apply("v2", "m", json!({"two": 1, "replicas": 1})).await.code, 201);
    let conflict = apply("v1", "n", json!({"one": 2})).await;
    let causes = &conflict.body["details"]["causes"];
    assert_eq!((conflict.code, &causes[0]["field"]), (409, &json!(".spec.two")), "{}", conflict.body);
    assert_eq!(apply("v1", "n", json!({"one": 1})).await.code, 200);
    // In the version of its last configuration, the field that its manager gives up has another owner.
    let given_up = apply("v1", "m", json!({"replicas": 1})).await.body;
    assert_eq!(given_up["spec"], json!({"one": 1, "replicas": 1}));
    let released = apply("v2", "n", json!({})).await.body;
    assert_eq!(released["spec"], json!({"replicas": 1}), "{released}");
    assert_eq!(apply("v2", "m", json!({"two": 1, "replicas": 1})).await.code, 200);
    let one = format!("{V1}/a?fieldManager=o");
    let patched = plane.patch(&one, &json!({"spec": {"one": 3}})).await.body;
    assert_eq!((owned(&patched, "m"), owned(&patched, "o")), (json!({"f:replicas": {}}), json!({"f:one": {}})));

    // Without the webhook, a write that needs no conversion keeps the owners.
    point(&plane, &hooks, "status/500").await;
    let patched = plane.patch(&one, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!((patched.code, owned(&patched.body, "m")), (200, json!({"f:replicas": {}})), "{}", patched.body);
    assert_eq!(apply("v1", "n", json!({"one": 3})).await.code, 500);
}
