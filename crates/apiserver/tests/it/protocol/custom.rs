//! Custom resources and their definitions, where their protocol differs from that of built-in kinds.

use apiserver::ApiServer;
use serde_json::{Value, json};

use super::get;
use crate::parity::{Reply, send};

const WIDGETS: &str = "/apis/g.example/v1/widgets";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.g.example";

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "replicas": {"type": "integer"}}},
        "status": {"type": "object", "default": {"phase": "New"}, "properties": {
            "phase": {"type": "string"}, "replicas": {"type": "integer"}}}}});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}, "scale": scale},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]}]}})
}

async fn server() -> ApiServer {
    let store = crate::engine::store().await;
    let (server, _client) = crate::crds::start(&store, vec![definition()]).await.expect("an empty store");
    server
}

async fn write(server: &ApiServer, method: &str, path: &str, body: &Value) -> Reply {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    send(server, method, path, &[("content-type", content_type)], &body.to_string()).await
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "g.example/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

#[tokio::test]
async fn a_new_object_has_the_default_of_its_status() {
    let server = server().await;
    let mut object = widget(&json!({}));
    object["status"] = json!({"phase": "Old"});
    let created = write(&server, "POST", WIDGETS, &object).await;
    assert_eq!((created.code, &created.json()["status"]), (201, &json!({"phase": "New"})));
    let owners = created.json()["metadata"]["managedFields"].to_string();
    assert!(!owners.contains("f:status"), "{owners}");
}

#[tokio::test]
async fn custom_resources_are_served_by_the_verb_of_the_request() {
    let server = server().await;
    write(&server, "POST", WIDGETS, &widget(&json!({"replicas": 1}))).await;
    let list = get(&server, WIDGETS, "application/json").await.json();
    assert_eq!(list["metadata"]["continue"], "", "lists of untyped objects always have it");
    let table = get(&server, WIDGETS, "application/json;as=Table;g=meta.k8s.io;v=v1").await.json();
    let described = "Custom resource definition column (in JSONPath format): .spec.a";
    assert_eq!(table["columnDefinitions"][1]["description"], described);
    assert_eq!(table["metadata"].get("continue"), None);
    for (method, path, code, message) in [
        ("HEAD", "", 200, ""),
        ("HEAD", "/a", 200, ""),
        ("HEAD", "/none", 404, ""),
        ("GET", "/a/part", 404, "widgets.g.example \"a\" not found"),
        ("POST", "/a/status", 405, "create is not supported on resources of kind \"widgets.g.example\""),
        ("OPTIONS", "", 405, " is not supported on resources of kind \"widgets.g.example\""),
        ("PUT", "", 400, "name must be provided"),
        ("DELETE", "/a/scale", 405, "delete is not supported on resources of kind \"widgets.g.example\""),
    ] {
        let reply = send(&server, method, &format!("{WIDGETS}{path}"), &[], "").await;
        assert_eq!(reply.code, code, "{method} {path}: {}", reply.shown());
        assert!(method == "HEAD" || reply.json()["message"] == message, "{method} {path}: {}", reply.shown());
    }
    for (method, path) in [
        ("HEAD", "/apis/g.example/v1"),
        ("POST", "/apis/g.example"),
        ("DELETE", "/apis/g.example/v1/watch/widgets?timeoutSeconds=1&resourceVersion=0"),
    ] {
        assert_eq!(send(&server, method, path, &[], "").await.code, 200, "{method} {path}");
    }
    assert_eq!(get(&server, &format!("{WIDGETS}/a"), "application/json").await.code, 200, "a watch deletes nothing");
    for path in
        ["/apis/g.example/v1/nope", "/apis/g.example/v1/namespaces/default/widgets", "/apis/g.example/v2/widgets"]
    {
        assert_eq!(send(&server, "GET", path, &[], "").await.shown(), "404 404 page not found", "{path}");
    }
    let mut unversioned = widget(&json!({}));
    unversioned["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
    let refused = write(&server, "PUT", &format!("{WIDGETS}/a"), &unversioned).await.json();
    let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(refused["message"], format!("widgets.g.example \"a\" is invalid: {why}"));
}

#[tokio::test]
async fn findings_about_fields_are_in_upstreams_order() {
    let server = server().await;
    let strict = "?fieldValidation=Strict&fieldManager=m";
    let body = r#"{"apiVersion":"g.example/v1","kind":"Widget","metadata":{"name":"b","zz":1},"aa":1,"spec":{"q":1}}"#;
    let json = [("content-type", "application/json")];
    let unknown = ["metadata.zz", "aa", "spec.q"].map(|field| format!("unknown field \"{field}\"")).join(", ");
    let refused = send(&server, "POST", &format!("{WIDGETS}{strict}"), &json, body).await;
    let expected = format!(
        "400 BadRequest Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: {unknown}"
    );
    assert_eq!(refused.shown(), expected);
    let other = body.replace("Widget", "Other");
    let refused = send(&server, "POST", &format!("{WIDGETS}{strict}"), &json, &other).await;
    assert_eq!(refused.shown(), expected, "its kind is validated after that");
    let warned = send(&server, "POST", WIDGETS, &json, &other).await;
    assert_eq!((warned.code, warned.headers.get_all("warning").iter().count()), (422, 3));
    let apply = [("content-type", "application/apply-patch+yaml")];
    let twice = "{apiVersion: g.example/v1, kind: Widget, metadata: {name: b}, spec: {a: x, a: y}}";
    let refused = send(&server, "PATCH", &format!("{WIDGETS}/b{strict}"), &apply, twice).await;
    let why = "error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"a\" already set in map";
    assert_eq!(refused.shown(), format!("400 BadRequest error strict decoding YAML: {why}"));
}

#[tokio::test]
async fn an_empty_list_of_owners_is_none() {
    let server = server().await;
    let owners_after = async |list: Value| {
        let mut object = widget(&json!({"a": "x"}));
        object["metadata"]["managedFields"] = list.clone();
        let path = format!("{WIDGETS}/a");
        let patch = json!({"metadata": {"managedFields": list}, "spec": {"a": "y"}});
        let created = write(&server, "POST", WIDGETS, &object).await.json();
        let patched = write(&server, "PATCH", &path, &patch).await.json();
        send(&server, "DELETE", &path, &[], "").await;
        [created, patched].map(|object| object["metadata"]["managedFields"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(owners_after(json!([])).await, [1, 1]);
    assert_eq!(owners_after(json!([{}])).await, [1, 0]);
}

#[tokio::test]
async fn the_scale_of_a_custom_resource_omits_zero() {
    let server = server().await;
    write(&server, "POST", WIDGETS, &widget(&json!({"replicas": 2}))).await;
    let scale = format!("{WIDGETS}/a/scale");
    let scaled = write(&server, "PATCH", &scale, &json!({"spec": {"replicas": 0}})).await;
    assert_eq!((scaled.code, &scaled.json()["spec"]), (200, &json!({})));
    assert_eq!(get(&server, &scale, "application/json").await.json()["spec"], json!({}));
    let refused = write(&server, "PATCH", &scale, &json!({"spec": {"replicas": -1}})).await.json();
    let why = ".spec.replicas: Invalid value: -1: should be a non-negative integer";
    assert_eq!(refused["message"], format!("Widget.g.example \"a\" is invalid: {why}"));
}

#[tokio::test]
async fn schemas_within_schemas_are_read_strictly() {
    let server = server().await;
    let change = |schema: Value| {
        json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": schema}}}}]}})
    };
    let items = json!({"type": "array", "items": {"type": "string", "maxLength": "5"}});
    let refused = write(&server, "PATCH", DEFINITION, &change(items)).await;
    let field = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items.maxLength";
    let why = format!("json: cannot unmarshal string into Go struct field {field} of type int64");
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.code == 422 && message.ends_with(&why), "{}", refused.shown());
    let values = json!({"type": "object", "additionalProperties": {"type": "string", "readOnly": true}});
    let changed = write(&server, "PATCH", DEFINITION, &change(values)).await;
    let version = &changed.json()["spec"]["versions"][0];
    let pruned = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["additionalProperties"];
    assert_eq!((changed.code, pruned), (200, &json!({"type": "string"})));
    assert_eq!(changed.headers.get("warning"), None, "upstream does not report them");
    // Nulls in raw JSON stay.
    let default = json!({"type": "object", "nullable": true, "default": {"a": null},
        "additionalProperties": {"type": "string", "nullable": true}});
    let mut replaced = get(&server, DEFINITION, "application/json").await.json();
    replaced["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "properties": {"f": default}});
    let changed = write(&server, "PUT", DEFINITION, &replaced).await;
    let version = &changed.json()["spec"]["versions"][0];
    let stored = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["f"]["default"];
    assert_eq!((changed.code, stored), (200, &json!({"a": null})), "{}", changed.shown());
}

#[tokio::test]
async fn fields_of_objects_without_declared_fields_are_unknown() {
    let store = crate::engine::store().await;
    let mut definition = definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object", "properties": {
        "bare": {"type": "object"}, "text": {"type": "string"},
        "bares": {"type": "object", "additionalProperties": {"type": "object"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "whole": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"q": {"type": "string"}}}}});
    definition["spec"]["versions"][0]["subresources"] = json!({});
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
    let (server, _client) = crate::crds::start(&store, vec![definition]).await.expect("an empty store");
    for (spec, unknown) in [
        (json!({"bare": {"x": 1}}), "spec.bare.x"),
        (json!({"bares": {"k": {"x": 1}}}), "spec.bares.k.x"),
        (json!({"whole": {"apiVersion": "v1", "kind": "K", "x": 1}}), "spec.whole.x"),
        (json!({"text": {"x": 1}}), "spec.text.x"),
        (json!({"text": [{"x": 1}]}), "spec.text[0].x"),
        (json!({"free": {"x": 1}}), ""),
        (json!({"bares": {"x": {}}}), ""),
    ] {
        let path = |validation: &str| format!("{WIDGETS}?dryRun=All&fieldValidation={validation}");
        let strict = write(&server, "POST", &path("Strict"), &widget(&spec)).await;
        let warned = write(&server, "POST", &path("Warn"), &widget(&spec)).await;
        let warning = warned.headers.get("warning").and_then(|text| text.to_str().ok()).unwrap_or_default();
        if unknown.is_empty() {
            assert_eq!((strict.code, warned.code, warning), (201, 201, ""), "{spec}");
            continue;
        }
        let why = format!("strict decoding error: unknown field \"{unknown}\"");
        let expected = format!("400 BadRequest Widget in version \"v1\" cannot be handled as a Widget: {why}");
        assert_eq!(strict.shown(), expected, "{spec}");
        assert_eq!(warning, format!("299 - \"unknown field \\\"{unknown}\\\"\""), "{spec}");
    }
}

#[tokio::test]
async fn a_write_of_the_status_takes_nothing_else_from_its_document() {
    let server = server().await;
    let created = write(&server, "POST", WIDGETS, &widget(&json!({"a": "x"}))).await.json();
    let status = format!("{WIDGETS}/a/status");
    for (method, change, code) in [
        ("PATCH", json!({"apiVersion": "v9", "kind": "Other", "status": {"phase": "1"}}), 200),
        ("PATCH", json!({"apiVersion": "", "status": {"phase": "2"}}), 422),
        ("PATCH", json!({"kind": "", "status": {"phase": "2"}}), 422),
        ("PUT", json!({"kind": "Other", "status": {"phase": "3"}}), 200),
        ("PUT", json!({"apiVersion": "v9", "status": {"phase": "4"}}), 400),
    ] {
        let mut body = change.clone();
        if method == "PUT" {
            body = get(&server, &format!("{WIDGETS}/a"), "application/json").await.json();
            for (name, value) in change.as_object().expect("an object") {
                body[name] = value.clone();
            }
        }
        let written = write(&server, method, &status, &body).await;
        assert_eq!(written.code, code, "{method} {change}: {}", written.shown());
    }
    let stored = get(&server, &format!("{WIDGETS}/a"), "application/json").await.json();
    assert_eq!((&stored["kind"], &stored["apiVersion"]), (&created["kind"], &created["apiVersion"]));
    assert_eq!((&stored["spec"], &stored["status"]["phase"]), (&created["spec"], &json!("3")));
}

#[tokio::test]
async fn resources_without_a_namespace_are_not_selected_by_one() {
    let server = server().await;
    let listed = async |path: &str| {
        get(&server, &format!("{path}?fieldSelector=metadata.namespace%3Ddefault"), "application/json").await
    };
    assert_eq!(listed(WIDGETS).await.shown(), "400 BadRequest field label not supported: metadata.namespace");
    assert_eq!(listed("/api/v1/namespaces").await.code, 200, "as upstream");
}

#[tokio::test]
async fn a_taken_name_beside_a_generated_one() {
    let server = server().await;
    let mut object = widget(&json!({}));
    let taken = "409 AlreadyExists widgets.g.example \"a\" already exists";
    assert_eq!(write(&server, "POST", WIDGETS, &object).await.code, 201);
    assert_eq!(write(&server, "POST", WIDGETS, &object).await.shown(), taken);
    object["metadata"]["generateName"] = "b-".into();
    let unable = format!("{taken}, the server was not able to generate a unique name for the object");
    assert_eq!(write(&server, "POST", WIDGETS, &object).await.shown(), unable);
}

#[tokio::test]
async fn an_applied_configuration_may_have_unknown_fields_below_a_schema_that_preserves_them() {
    let store = crate::engine::store().await;
    let mut definition = definition();
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}});
    let part = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"part": part, "list": keyed, "a": {"type": "string"}, "replicas": {"type": "integer"}}});
    let (server, _client) = crate::crds::start(&store, vec![definition]).await.expect("an empty store");
    for (body, expected) in [
        (json!({"spec": {"part": {"a": "x", "b": 1}}}), Ok(json!({"part": {"a": "x"}}))),
        (json!({"spec": {"list": [{"k": "x", "b": [1]}]}}), Ok(json!({"list": [{"k": "x"}]}))),
        (json!({"spec": {"b": {"c": 1}}}), Ok(json!({"b": {"c": 1}}))),
        (json!({"status": {"b": 1}}), Err(".status.b: field not declared in schema")),
        (json!({"metadata": {"name": "a", "b": 1}}), Err(".metadata.b: field not declared in schema")),
    ] {
        let mut object = json!({"apiVersion": "g.example/v1", "kind": "Widget", "metadata": {"name": "a"}});
        for (name, value) in body.as_object().expect("an object") {
            object[name] = value.clone();
        }
        let apply = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{WIDGETS}/a?fieldManager=m&dryRun=All");
        let applied = send(&server, "PATCH", &path, &apply, &object.to_string()).await;
        match expected {
            Ok(spec) => assert_eq!((applied.code, &applied.json()["spec"]), (201, &spec), "{body}"),
            Err(why) => {
                let expected =
                    format!("500  failed to create typed patch object (/a; g.example/v1, Kind=Widget): {why}");
                assert_eq!(applied.shown(), expected, "{body}");
            }
        }
    }
}
