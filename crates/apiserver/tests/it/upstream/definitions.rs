//! `staging/src/k8s.io/apiextensions-apiserver/test/integration`.

use serde_json::{Value, json};

use super::{APPLY, MERGE, call, definition, patch, soon, version};
use crate::engine::on_every_engine;
use crate::parity::send;

on_every_engine! {
    alone: [
        defaults_are_those_of_the_stored_version,
        metadata_of_embedded_objects_may_have_a_schema,
        definitions_with_a_status_of_their_own,
        definitions_with_unreadable_authorities_are_not_served,
        replicas_fit_a_scale,
        changes_are_detected_for_ratcheting,
    ],
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn with(mut version: Value, member: &str, value: Value) -> Value {
    version[member] = value;
    version
}

/// `testDefaulting`: read objects get the defaults of their stored version, written ones also those of the request's
/// version.
async fn defaults_are_those_of_the_stored_version() {
    let schema = |own: &str| {
        let mut properties = json!({"a": {"type": "string", "default": "A"}, "c": {"type": "string"},
            "v1": {"type": "string"}, "v2": {"type": "string"}});
        properties[own]["default"] = own.into();
        let part = json!({"type": "object", "properties": properties});
        json!({"type": "object", "properties": {"spec": part, "status": part}})
    };
    let status = json!({"status": {}});
    let first = with(with(version("v1", schema("v1")), "storage", false.into()), "subresources", status.clone());
    let second = with(with(version("v2", schema("v2")), "served", false.into()), "subresources", status);
    let (server, _client) = crate::crds::server(vec![definition("foos", "Foo", json!([first, second]))]).await;
    let path = "/apis/it.example/v1/foos";
    let kind = json!({"apiVersion": "it.example/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {}, "status": {"a": "x"}});
    let created = call(&server, "POST", path, &kind).await.json();
    assert_eq!((&created["spec"], created.get("status")), (&json!({"a": "A", "v1": "v1", "v2": "v2"}), None));

    let change = |version: usize, property: Value| {
        let at = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties");
        let operation =
            |part: &str| json!({"op": "replace", "path": format!("{at}/{part}/properties/c"), "value": property});
        json!([operation("spec"), operation("status")]).to_string()
    };
    let definition = format!("{DEFINITIONS}/foos.it.example");
    let with_default = json!({"type": "string", "default": "C"});
    assert_eq!(patch(&server, &definition, super::JSON_PATCH, &change(1, with_default.clone())).await.code, 200);
    let item = format!("{path}/a");
    let read = || async { crate::parity::send(&server, "GET", &item, &[], "").await.json() };
    soon(async || read().await["spec"]["c"] == "C").await;
    let listed = crate::parity::send(&server, "GET", &format!("{path}?resourceVersion=0"), &[], "").await.json();
    assert_eq!(listed["items"][0]["spec"]["c"], "C");
    // The default of the requested version applies to writes.
    assert_eq!(patch(&server, &definition, super::JSON_PATCH, &change(0, with_default)).await.code, 200);
    assert_eq!(patch(&server, &definition, super::JSON_PATCH, &change(1, json!({"type": "string"}))).await.code, 200);
    soon(async || read().await["spec"].get("c").is_none()).await;
    let mut object = read().await;
    object["status"] = json!({});
    let written = call(&server, "PUT", &format!("{item}/status"), &object).await.json();
    assert_eq!((written["spec"].get("c"), &written["status"]["c"]), (None, &json!("C")));
}

/// `TestCustomResourceDefaultingOfMetaFields`: defaults of metadata lose fields that metadata does not have.
async fn metadata_of_embedded_objects_may_have_a_schema() {
    let named = json!({"type": "object", "properties": {"name": {"type": "string", "default": "Bar"}, "odd": {"type": "string", "default": "x"}}});
    let embedded = |metadata: Value| {
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "apiVersion": {"type": "string", "default": "foos/v1"}, "kind": {"type": "string", "default": "Foo"}, "metadata": metadata}})
    };
    let schema = json!({"type": "object", "properties": {
        "fields": embedded(named), "whole": embedded(json!({"type": "object", "default": {"name": "Bar", "odd": "x"}}))}});
    let (server, _client) = crate::objects::server().await;
    let create = |schema: Value| {
        let server = &server;
        async move {
            call(
                server,
                "POST",
                &format!("{DEFINITIONS}?dryRun=All"),
                &definition("foos", "Foo", json!([version("v1", schema)])),
            )
            .await
        }
    };
    let accepted = create(schema.clone()).await;
    assert_eq!(accepted.code, 201, "{}", accepted.shown());
    let mut root = schema;
    root["properties"]["metadata"] = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
    let refused = create(root).await.shown();
    assert!(refused.contains("must not specify anything other than name and generateName"), "{refused}");

    let schema = json!({"type": "object", "properties": {"fields": embedded(json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "Bar"}, "odd": {"type": "string", "default": "x"}}})),
        "whole": embedded(json!({"type": "object", "default": {"name": "Bar", "odd": "x"}}))}});
    let (server, _client) = crate::crds::server(vec![definition("foos", "Foo", json!([version("v1", schema)]))]).await;
    let kind = json!({"apiVersion": "it.example/v1", "kind": "Foo", "metadata": {"name": "a"}, "fields": {"metadata": {}}, "whole": {}});
    let created = call(&server, "POST", "/apis/it.example/v1/foos", &kind).await.json();
    let expected = json!({"apiVersion": "foos/v1", "kind": "Foo", "metadata": {"name": "Bar"}});
    assert_eq!((&created["fields"], &created["whole"]), (&expected, &expected));
}

/// `TestValidationSchemaWithStatus`, and the parts of a status that a definition's own endpoint accepts.
async fn definitions_with_a_status_of_their_own() {
    let (server, _client) = crate::objects::server().await;
    let with_root = |member: &str, value: Value| {
        let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        schema[member] = value;
        definition("foos", "Foo", json!([with(version("v1", schema), "subresources", json!({"status": {}}))]))
    };
    let path = format!("{DEFINITIONS}?dryRun=All");
    for (member, value, code) in [
        ("description", json!("x"), 201),
        ("required", json!(["spec"]), 201),
        ("nullable", json!(false), 201),
        ("minProperties", json!(1), 422),
        ("oneOf", json!([{"required": ["spec"]}]), 422),
        ("x-kubernetes-map-type", json!("atomic"), 422),
    ] {
        let reply = call(&server, "POST", &path, &with_root(member, value)).await;
        assert_eq!(reply.code, code, "{member}: {}", reply.shown());
        let why = "fields are allowed at the root of the schema if the status subresource is enabled";
        assert_eq!(reply.shown().contains(why), code == 422, "{member}");
    }
    let versions = json!([
        version("v1", json!({"type": "object"})),
        with(version("v2", json!({"type": "object"})), "storage", false.into())
    ]);
    assert_eq!(call(&server, "POST", DEFINITIONS, &definition("bars", "Bar", versions)).await.code, 201);
    let status = format!("{DEFINITIONS}/bars.it.example/status");
    for (stored, why) in [(json!(["v2"]), Some("must have the storage version v1")), (json!(["v2", "v1"]), None)] {
        let body = json!({"status": {"storedVersions": stored}}).to_string();
        let reply = patch(&server, &status, MERGE, &body).await;
        assert_eq!(reply.code, if why.is_some() { 422 } else { 200 }, "{}", reply.shown());
        assert!(why.is_none_or(|why| reply.shown().contains(why)), "{}", reply.shown());
    }
}

/// `TestInvalidCABundle`: a definition waits for readable authorities of its webhook, and keeps them.
async fn definitions_with_unreadable_authorities_are_not_served() {
    let (server, client) = crate::objects::server().await;
    let mut foos = definition("foos", "Foo", json!([version("v1", json!({"type": "object"}))]));
    foos["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1/", "caBundle": "Cg=="}}});
    assert_eq!(call(&server, "POST", DEFINITIONS, &foos).await.code, 201);
    let is_so = |crd: &Value, status: &str, reason: &str| {
        let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|found| {
            (&found["type"], &found["status"], &found["reason"])
                == (&"Established".into(), &status.into(), &reason.into())
        })
    };
    let name = "foos.it.example";
    crate::crds::until(&client, name, |crd| crd.is_some_and(|crd| is_so(crd, "False", "InvalidCABundle"))).await;
    assert_eq!(send(&server, "GET", "/apis/it.example/v1/foos", &[], "").await.code, 404);

    let pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let bundle = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
    let change =
        |bundle: &str| json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}).to_string();
    let path = format!("{DEFINITIONS}/{name}");
    assert_eq!(patch(&server, &path, MERGE, &change(&bundle)).await.code, 200);
    crate::crds::until(&client, name, |crd| crd.is_some_and(|crd| is_so(crd, "True", "InitialNamesAccepted"))).await;
    let refused = patch(&server, &path, MERGE, &change("Cg==")).await;
    assert_eq!(refused.code, 422, "{}", refused.shown());
    assert!(refused.shown().contains("unable to load root certificates"), "{}", refused.shown());
}

/// `TestScaleSubresource`: values that the endpoint could not return are not stored.
async fn replicas_fit_a_scale() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"}});
    let foos = definition("foos", "Foo", json!([with(version("v1", schema), "subresources", scale)]));
    let (server, _client) = crate::crds::server(vec![foos]).await;
    let path = "/apis/it.example/v1/foos";
    let kind = |replicas: Value| json!({"apiVersion": "it.example/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"replicas": replicas}});
    let fits = |field: &str, value: &str, why: &str| {
        format!("422 Invalid Foo.it.example \"a\" is invalid: {field}: Invalid value: {value}: {why}")
    };
    for (replicas, expected) in [
        (
            json!(9_223_372_036_854_775_807_i64),
            fits(".spec.replicas", "9223372036854775807", "should be less than or equal to 2147483647"),
        ),
        (json!(-1), fits(".spec.replicas", "-1", "should be a non-negative integer")),
        (
            json!("x"),
            fits(".spec.replicas", "0", ".spec.replicas accessor error: x is of the type string, expected int64"),
        ),
    ] {
        assert_eq!(call(&server, "POST", path, &kind(replicas)).await.shown(), expected);
    }
    assert_eq!(call(&server, "POST", path, &kind(json!(3))).await.code, 201);
    let status = |body: &'static str| patch(&server, "/apis/it.example/v1/foos/a/status", MERGE, body);
    let refused = status(r#"{"status":{"replicas":-2}}"#).await.shown();
    assert_eq!(refused, fits(".status.replicas", "-2", "should be a non-negative integer"));
    let refused = status(r#"{"status":{"selector":7}}"#).await.shown();
    assert_eq!(
        refused,
        fits(".status.selector", "\"\"", ".status.selector accessor error: 7 is of the type int64, expected string")
    );
}

/// `TestRatchetingFunctionality`: a keyed list in another order is not a change, and transition rules also validate
/// unchanged parts.
async fn changes_are_detected_for_ratcheting() {
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "x": {"type": "integer"}}});
    let once = json!({"type": "string", "x-kubernetes-validations": [{"rule": "!oldSelf.hasValue()", "optionalOldSelf": true, "message": "once"}]});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let schema = json!({"type": "object", "properties": {"list": list, "once": once}});
    let (server, _client) = crate::crds::server(vec![definition("foos", "Foo", json!([version("v1", schema)]))]).await;
    let apply = |name: &'static str, fields: Value| {
        let mut body =
            json!({"apiVersion": "it.example/v1", "kind": "Foo", "metadata": {"name": name.split('?').next()}});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let server = &server;
        async move { patch(server, &format!("/apis/it.example/v1/foos/{name}"), APPLY, &body.to_string()).await }
    };
    assert_eq!(apply("b?fieldManager=m", json!({"once": "v"})).await.code, 201);
    assert_eq!(
        apply("b?fieldManager=m", json!({"once": "v"})).await.shown(),
        "422 Invalid Foo.it.example \"b\" is invalid: once: Invalid value: \"v\": once"
    );

    let (one, two) = (json!({"name": "one"}), json!({"name": "two"}));
    assert_eq!(apply("a?fieldManager=m", json!({"list": [one, two]})).await.code, 201);
    let most =
        json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/list/maxItems", "value": 1}])
            .to_string();
    assert_eq!(patch(&server, &format!("{DEFINITIONS}/foos.it.example"), super::JSON_PATCH, &most).await.code, 200);
    let three = json!({"list": [one, two, {"name": "three"}]});
    soon(async || apply("a?fieldManager=m&dryRun=All", three.clone()).await.code == 422).await;
    let reordered = apply("a?fieldManager=m", json!({"list": [two, one]})).await;
    assert_eq!(reordered.code, 200, "{}", reordered.shown());
    let changed = apply("a?fieldManager=m", json!({"list": [two, {"name": "one", "x": 1}]})).await;
    assert_eq!(changed.code, 422, "{}", changed.shown());
}
