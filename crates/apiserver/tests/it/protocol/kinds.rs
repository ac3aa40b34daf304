//! The kind and version in a body: built-in kinds may omit them, custom resources may not.

use super::CM;
use crate::crds;
use crate::parity::send;

const WIDGETS: &str = "/apis/g.example/v1/namespaces/default/widgets";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[tokio::test]
async fn bodies_contain_kind_and_version() {
    let (server, _client) = crds::server(vec![crds::widget_definition()]).await;
    let widget = r#"{"apiVersion":"g.example/v1","kind":"Widget","metadata":{"name":"a"}}"#;
    assert_eq!(send(&server, "POST", WIDGETS, &[("content-type", JSON)], widget).await.code, 201);
    let map = r#"{"metadata":{"name":"a"}}"#;
    assert_eq!(send(&server, "POST", CM, &[("content-type", JSON)], map).await.code, 201, "a kind left out");
    let unrecognized = |kind: &str, why: &str| {
        format!("400 BadRequest the object provided is unrecognized (must be of type {kind}): {why}")
    };
    let unusable = |sent: &str, version: &str, kind: &str, why: &str| {
        format!("400 BadRequest {sent} in version {version:?} cannot be handled as a {kind}: {why}")
    };
    let widget_a = format!("{WIDGETS}/a");
    let ignoring = format!("{WIDGETS}?fieldValidation=Ignore");
    let map_a = format!("{CM}/a");
    let json_parse = "couldn't get version/kind; json parse error: json: cannot unmarshal";
    let other_version = |sent: &str| {
        format!(
            "400 BadRequest the API version in the data ({sent}) does not match the expected API version (g.example/v1)"
        )
    };
    let table: Vec<(&str, &str, &str, &str, String)> = vec![
        (
            "POST",
            WIDGETS,
            JSON,
            r#"{"metadata":{"name":"b"}}"#,
            unrecognized(
                "Widget",
                r#"Object 'Kind' is missing in '{"metadata":{"name":"b"}}' ({"metadata":{"name":"b"}})"#,
            ),
        ),
        (
            "PUT",
            &widget_a,
            JSON,
            r#"{"kind":null}"#,
            unrecognized("Widget", r#"Object 'Kind' is missing in '{"kind":null}' ({"kind":null})"#),
        ),
        ("POST", WIDGETS, YAML, "a: 1\n", unrecognized("Widget", "Object 'Kind' is missing in 'a: 1\n' (613a20310a)")),
        ("POST", &ignoring, JSON, "{}", unusable("Widget", "v1", "Widget", "Object 'Kind' is missing in '{}'")),
        (
            "POST",
            WIDGETS,
            JSON,
            r#"{"kind":"Widget"}"#,
            other_version(""),
        ),
        (
            "POST",
            WIDGETS,
            JSON,
            r#"{"apiVersion":"v1","kind":"List","items":[]}"#,
            other_version("v1"),
        ),
        (
            "POST",
            WIDGETS,
            JSON,
            r#"{"apiVersion":"g.example/v2","kind":"Widget"}"#,
            other_version("g.example/v2"),
        ),
        (
            "PATCH",
            &widget_a,
            MERGE,
            r#"{"apiVersion":"g.example/v2"}"#,
            "422 Invalid Widget.g.example \"a\" is invalid: apiVersion: Invalid value: \"g.example/v2\": must be g.example/v1"
                .into(),
        ),
        (
            "PATCH",
            &widget_a,
            MERGE,
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            "422 Invalid Pod \"a\" is invalid: [kind: Invalid value: \"Pod\": must be Widget, apiVersion: Invalid value: \"v1\": must be g.example/v1]"
                .into(),
        ),
        (
            "POST",
            WIDGETS,
            JSON,
            r#"{"apiVersion":"g.example/v1","kind":"Other","metadata":{"name":"b"}}"#,
            "422 Invalid Other.g.example \"b\" is invalid: kind: Invalid value: \"Other\": must be Widget".into(),
        ),
        (
            "PATCH",
            &widget_a,
            MERGE,
            r#"{"kind":"Other"}"#,
            "422 Invalid Other.g.example \"a\" is invalid: kind: Invalid value: \"Other\": must be Widget".into(),
        ),
        (
            "POST",
            WIDGETS,
            JSON,
            r#"{"apiVersion":"g.example/v1","kind":"Widget","metadata":"b"}"#,
            unusable("Widget", "v1", "Widget", "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        ),
        (
            "POST",
            CM,
            JSON,
            r#"{"kind":5}"#,
            unrecognized(
                "ConfigMap",
                &format!("{json_parse} number into Go struct field .kind of type string ({{\"kind\":5}})"),
            ),
        ),
        (
            "POST",
            CM,
            JSON,
            "[]",
            unrecognized(
                "ConfigMap",
                &format!(
                    r#"{json_parse} array into Go value of type struct {{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }} (5b5d)"#
                ),
            ),
        ),
        (
            "POST",
            CM,
            JSON,
            r#"{"apiVersion":"a/b/c"}"#,
            unrecognized("ConfigMap", r#"unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})"#),
        ),
        (
            "POST",
            CM,
            JSON,
            r#"{"apiVersion":"v7"}"#,
            unusable("ConfigMap", "v7", "ConfigMap", r#"no kind "ConfigMap" is registered for version "v7""#),
        ),
        (
            "POST",
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            JSON,
            r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler"}"#,
            "400 BadRequest the API version in the data (autoscaling/v1) does not match the expected API version \
             (autoscaling/v2)"
                .into(),
        ),
        (
            "POST",
            CM,
            JSON,
            r#"{"metadata":5}"#,
            unusable(
                "ConfigMap",
                "v1",
                "ConfigMap",
                "json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            ),
        ),
    ];
    for (method, path, media_type, body, expected) in table {
        let reply = send(&server, method, path, &[("content-type", media_type)], body).await;
        assert_eq!(reply.shown(), expected, "{method} {path} {body}");
    }

    for (path, media_type, body, expected) in [
        (&map_a, MERGE, r#"{"kind":"Secret"}"#, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (&widget_a, JSON_PATCH, r#"[{"op":"replace","path":"/kind","value":null}]"#, "Object 'Kind' is missing in '{"),
    ] {
        let text = send(&server, "PATCH", path, &[("content-type", media_type)], body).await.shown();
        assert!(text.starts_with("422 Invalid  \"\" is invalid: patch: Invalid value: "), "{body}: {text}");
        assert!(text.contains(expected), "{body}: {text}");
    }
    // A strategic patch is computed in the object's type.
    let before = send(&server, "GET", &map_a, &[], "").await.json();
    let body = r#"{"kind":"Secret","apiVersion":"v9"}"#;
    let reply = send(&server, "PATCH", &map_a, &[("content-type", STRATEGIC)], body).await;
    assert_eq!((reply.code, reply.json()), (200, before), "{body}");
}
