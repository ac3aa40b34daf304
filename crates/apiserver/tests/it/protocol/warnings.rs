//! Warnings to clients, one header each.

use serde_json::{Value, json};

use super::{CM, with_config_maps};
use crate::parity::{Reply, send};

fn warnings(reply: &Reply) -> Vec<String> {
    let texts = reply.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    let quoted = texts.filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'));
    quoted.map(|text| text.replace("\\\"", "\"")).collect()
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema},
            {"name": "v1beta1", "served": true, "storage": false, "schema": schema},
            {"name": "v1alpha1", "served": true, "storage": false, "schema": schema, "deprecated": true},
            {"name": "v1alpha2", "served": true, "storage": false, "schema": schema, "deprecated": true,
                "deprecationWarning": "please \"move\""}]}})
}

#[tokio::test]
async fn deprecated_versions_yield_warnings_in_every_response() {
    let (server, _client) =
        crate::crds::start(&crate::engine::store().await, vec![definition()]).await.expect("an empty store");
    let widget = |version: &str| {
        format!(
            r#"{{"apiVersion":"g.example/{version}","kind":"Widget","metadata":{{"name":"a","finalizers":["x","a.example/b"]}}}}"#
        )
    };
    let (current, outdated) = (widget("v1"), widget("v1alpha1"));
    let finalizer = "metadata.finalizers: \"x\": prefer a domain-qualified finalizer name to avoid accidental conflicts \
                     with other finalizer writers";
    let better = "g.example/v1alpha1 Widget is deprecated; use g.example/v1 Widget";
    for (method, path, body, expected) in [
        ("GET", "v1/widgets", "", vec![]),
        ("GET", "v1alpha1/widgets", "", vec![better]),
        ("GET", "v1alpha1/widgets/none", "", vec![better]),
        ("GET", "v1alpha2/widgets", "", vec!["please \\\"move\\\""]),
        ("POST", "v1/widgets", &current, vec![finalizer]),
        ("POST", "v1alpha1/widgets", &outdated, vec![better]),
        ("DELETE", "v1alpha1/widgets/a", "", vec![better]),
    ] {
        let path = format!("/apis/g.example/{path}");
        let reply = send(&server, method, &path, &[], body).await;
        let expected: Vec<String> = expected.into_iter().map(|text| text.replace("\\\"", "\"")).collect();
        assert_eq!(warnings(&reply), expected, "{method} {path}: {}", reply.shown());
    }
}

#[tokio::test]
async fn unknown_and_duplicate_fields_yield_warnings() {
    let server = with_config_maps().await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "bogus": 1,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i",
            "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]}}}});
    let endpoints = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    for (method, path, body, expected) in [
        (
            "POST",
            "/apis/apps/v1/namespaces/default/deployments".to_owned(),
            deployment.to_string(),
            vec![
                "unknown field \"spec.bogus\"",
                "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when \
                 using apply",
            ],
        ),
        (
            "POST",
            CM.into(),
            r#"{"metadata":{"name":"x"},"data":{"a":"1","a":"2"}}"#.into(),
            vec!["duplicate field \"data.a\""],
        ),
        // A refusal contains them, too.
        ("POST", CM.into(), r#"{"metadata":{"name":"X_"},"bogus":1}"#.into(), vec!["unknown field \"bogus\""]),
        ("PUT", format!("{CM}/a"), r#"{"metadata":{"name":"b"},"bogus":1}"#.into(), vec!["unknown field \"bogus\""]),
        ("POST", format!("{CM}?fieldValidation=Ignore"), r#"{"metadata":{"name":"y"},"bogus":1}"#.into(), vec![]),
        ("GET", "/api/v1/endpoints".into(), String::new(), vec![endpoints]),
        ("GET", "/api/v1/namespaces/default/endpoints/none".into(), String::new(), vec![endpoints]),
        ("GET", "/api/v1/componentstatuses".into(), String::new(), vec!["v1 ComponentStatus is deprecated in v1.19+"]),
    ] {
        let reply = send(&server, method, &path, &[], &body).await;
        assert_eq!(warnings(&reply), expected, "{method} {path}: {}", reply.shown());
    }
}
