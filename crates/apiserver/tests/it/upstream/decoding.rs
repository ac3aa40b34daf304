//! `test/integration/apiserver/field_validation_test.go`, and invalid bodies.

use serde_json::json;

use super::{APPLY, JSON_PATCH, call, definition, patch, version, warnings};
use crate::parity::send;

const CM: &str = "/api/v1/namespaces/default/configmaps";

fn foos() -> serde_json::Value {
    let spec = json!({"type": "object", "properties": {"known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}}});
    let embedded =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "embedded": embedded,
        "more": {"type": "object", "additionalProperties": embedded}}});
    definition("foos", "Foo", json!([version("v1", schema)]))
}

/// Only the first document of a YAML stream is read.
#[tokio::test]
async fn only_the_first_document_is_read() {
    let (server, _client) = crate::objects::server().await;
    let named = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
    let yaml = [("content-type", "application/yaml")];
    for (name, stream) in [
        ("a", format!("{}---\n{}", named("a"), named("x"))),
        ("b", format!("# first\n--- \n{}--- # second\n[", named("b"))),
        ("c", format!("{}...\n", named("c"))),
    ] {
        let created = send(&server, "POST", CM, &yaml, &stream).await;
        assert_eq!((created.code, &created.json()["metadata"]["name"]), (201, &json!(name)), "{}", created.shown());
    }
    let applied = format!("--- # one\n{}data: {{k: \"---\"}}\n---\n{}", named("d"), named("x"));
    assert_eq!(patch(&server, &format!("{CM}/d?fieldManager=m"), APPLY, &applied).await.json()["data"]["k"], "---");
}

/// For custom resources, duplicate fields are reported first, then unknown ones; of JSON and of YAML.
#[tokio::test]
async fn all_unknown_and_duplicate_fields_are_reported() {
    let (server, _client) = crate::crds::server(vec![foos()]).await;
    let path = "/apis/it.example/v1/foos?dryRun=All";
    let body = r#"{"apiVersion":"it.example/v1","kind":"Foo","metadata":{"name":"a"},
        "spec":{"odd":"1","twice":"1","twice":"2","known":"1","known":"2","list":[{"a":1,"a":2,"b":1}]}}"#;
    let unknown = ["unknown field \"spec.list[0].b\"", "unknown field \"spec.odd\"", "unknown field \"spec.twice\""];
    let twice =
        ["duplicate field \"spec.twice\"", "duplicate field \"spec.known\"", "duplicate field \"spec.list[0].a\""];
    let expected = [twice, unknown].concat();
    let json = [("content-type", "application/json")];
    assert_eq!(warnings(&send(&server, "POST", path, &json, body).await), expected);
    let strict = send(&server, "POST", &format!("{path}&fieldValidation=Strict"), &json, body).await.shown();
    assert!(strict.ends_with(&format!("strict decoding error: {}", expected.join(", "))), "{strict}");

    let body = "apiVersion: it.example/v1\nkind: Foo\nmetadata:\n  name: a\nspec:\n  odd: 1\n  twice: 1\n  twice: 2\n  known: x\n  \
                known: z\n  list:\n  - a: 1\n    a: 2\n    b: 1\n";
    let yaml = [("content-type", "application/yaml")];
    let lines = [(8, "twice"), (10, "known"), (13, "a")]
        .map(|(line, key)| format!("line {line}: key {key:?} already set in map"));
    let reply = send(&server, "POST", path, &yaml, body).await;
    let expected = [&lines[..], &unknown.map(str::to_owned)].concat();
    assert_eq!(warnings(&reply), expected, "{}", reply.shown());
    let strict = send(&server, "POST", &format!("{path}&fieldValidation=Strict"), &yaml, body).await.shown();
    let all = format!("yaml: unmarshal errors:\n  {}, {}", lines.join("\n  "), unknown.join(", "));
    assert!(strict.ends_with(&format!("strict decoding error: {all}")), "{strict}");

    let applied = "{\n\"apiVersion\": \"it.example/v1\",\n\"kind\": \"Foo\",\n\"spec\": {\"known\": \"1\",\n\"known\": \"2\",\n\"known\": \"3\"}}";
    let warned =
        warnings(&patch(&server, "/apis/it.example/v1/foos/a?dryRun=All&fieldManager=m", APPLY, applied).await);
    assert_eq!(warned, [5, 6].map(|line| format!("line {line}: key \"known\" already set in map")));
}

/// A field of a built-in kind that is unknown and there twice is unknown, once.
#[tokio::test]
async fn unknown_fields_are_reported_once() {
    let (server, _client) = crate::objects::server().await;
    let body = r#"{"metadata":{"name":"a"},"odd":1,"odd":2,"data":{"k":"1","k":"2"}}"#;
    let json = [("content-type", "application/json")];
    let warned = warnings(&send(&server, "POST", &format!("{CM}?dryRun=All"), &json, body).await);
    assert_eq!(warned, ["unknown field \"odd\"", "duplicate field \"data.k\""]);
}

/// Operations of JSON patches have four members; a path that is not there shows when the patch is applied.
#[tokio::test]
async fn patch_operations_with_unknown_members() {
    let (server, _client) = crate::objects::server().await;
    assert_eq!(call(&server, "POST", CM, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.code, 201);
    let body = r#"[{"op":"add","path":"/data/x","value":"1","foo":"bar"},{"op":"add","path":"/data/y","path":"/data/z","value":"1"}]"#;
    let path = format!("{CM}/a?dryRun=All");
    let expected = ["json patch unknown field \"[0].foo\"", "json patch duplicate field \"[1].path\""];
    let patched = patch(&server, &path, JSON_PATCH, body).await;
    assert_eq!(
        (warnings(&patched), &patched.json()["data"]),
        (expected.map(str::to_owned).to_vec(), &json!({"k": "v", "x": "1", "z": "1"}))
    );
    let strict = patch(&server, &format!("{path}&fieldValidation=Strict"), JSON_PATCH, body).await.shown();
    assert!(strict.ends_with(&format!("strict decoding error: {}", expected.join(", "))), "{strict}");
    assert_eq!(warnings(&patch(&server, &format!("{path}&fieldValidation=Ignore"), JSON_PATCH, body).await), [""; 0]);
    for body in [r#"[{"op":"add"}]"#, r#"[{}]"#, r#"[{"op":"remove","path":null}]"#] {
        let refused = patch(&server, &path, JSON_PATCH, body).await.shown();
        assert_eq!(refused, "422 Invalid the server rejected our request due to an error in our request", "{body}");
    }
}

/// `TestPostInvalidObjectMeta` and `TestEmbeddedResources`: metadata is metadata, wherever it is.
#[tokio::test]
async fn metadata_of_a_wrong_type_is_refused() {
    let (server, _client) = crate::crds::server(vec![foos()]).await;
    let foo = |member: &str, value: serde_json::Value| json!({"apiVersion": "it.example/v1", "kind": "Foo", "metadata": {"name": "a"}, member: value});
    let pod = |metadata: serde_json::Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    let path = "/apis/it.example/v1/foos?dryRun=All";
    let why = "json: cannot unmarshal number into Go struct field ObjectMeta.namespace of type string";
    let time = r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#;
    for (body, expected) in [
        (foo("embedded", pod(json!({"name": "n"}))), None),
        (
            foo("embedded", pod(json!({"namespace": 42}))),
            Some(format!("embedded.metadata: Invalid value: {{\"namespace\":42}}: {why}")),
        ),
        (
            foo("more", json!({"k": pod(json!({"namespace": 42}))})),
            Some(format!("more[k].metadata: Invalid value: {{\"namespace\":42}}: {why}")),
        ),
        (foo("metadata", json!({"name": "a", "creationTimestamp": "x"})), Some(time.to_owned())),
    ] {
        let reply = call(&server, "POST", path, &body).await;
        match expected {
            None => assert_eq!(reply.code, 201),
            Some(why) => {
                let expected = format!("400 BadRequest Foo in version \"v1\" cannot be handled as a Foo: {why}");
                assert_eq!(reply.shown(), expected, "{body}");
            }
        }
    }
}

/// An error is not a Table: it is sent as JSON.
#[tokio::test]
async fn media_type_errors_are_json() {
    let (server, _client) = crate::objects::server().await;
    let accept = [("accept", "application/yaml;as=Table;g=meta.k8s.io;v=v1")];
    let refused = send(&server, "GET", &format!("{CM}?watch=1"), &accept, "").await;
    let expected = "406 NotAcceptable only the following media types are accepted: application/json;stream=watch, \
                    application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(refused.shown(), expected);
}
