//! Content negotiation on every kind of reply.

use serde_json::json;

use super::{CM, get, with_config_maps};
use crate::parity::send;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const TABLE_V1BETA1: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
const METADATA_V1BETA1: &str = "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io";
const PROTOBUF_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PROTOBUF_TABLE: &str = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
const NONE: &str = "406 NotAcceptable only the following media types are accepted: application/json, application/yaml, \
                    application/vnd.kubernetes.protobuf";

#[tokio::test]
async fn a_response_has_the_requested_form_and_version() {
    let server = with_config_maps().await;
    let one = format!("{CM}/a");
    for (path, accept, code, media_type, head) in [
        (one.as_str(), TABLE, 200, "application/json", "meta.k8s.io/v1 Table"),
        (&one, TABLE_V1BETA1, 200, "application/json", "meta.k8s.io/v1beta1 Table"),
        (&one, METADATA_V1BETA1, 200, "application/json", "meta.k8s.io/v1beta1 PartialObjectMetadata"),
        (CM, TABLE_V1BETA1, 200, "application/json", "meta.k8s.io/v1beta1 Table"),
        (CM, "application/yaml", 200, "application/yaml", ""),
        (&one, PROTOBUF_METADATA, 200, "application/vnd.kubernetes.protobuf", ""),
        (&one, PROTOBUF_TABLE, 406, "application/json", NONE),
        (CM, PROTOBUF_TABLE, 406, "application/json", NONE),
        (&one, "application/json;as=Table;g=meta.k8s.io", 406, "application/json", NONE),
        (&one, "application/json;v=v1", 406, "application/json", NONE),
        (&one, "*/*, application/yaml", 200, "application/yaml", ""),
        (
            CM,
            "text/html",
            406,
            "application/json",
            "406 NotAcceptable 406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf, application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch",
        ),
    ] {
        let reply = get(&server, path, accept).await;
        assert_eq!(reply.code, code, "{path} {accept}");
        // Errors about the form itself are sent in an available form.
        if code == 200 {
            assert_eq!(reply.headers["content-type"], media_type, "{path} {accept}");
            let tree = reply.json();
            let kind = |key: &str| tree[key].as_str().unwrap_or_default().to_owned();
            let found = format!("{} {}", kind("apiVersion"), kind("kind"));
            assert_eq!(found.trim(), head, "{path} {accept}");
        } else if !accept.contains("protobuf") {
            assert_eq!(reply.shown(), head, "{path} {accept}");
        }
    }
}

#[tokio::test]
async fn resources_without_columns_have_no_table() {
    let server = with_config_maps().await;
    let review = r#"{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let refused = send(&server, "POST", reviews, &[("accept", TABLE)], review).await;
    assert_eq!(refused.shown(), NONE);
    // Reviews are read as every other object is.
    let strict = format!("{reviews}?fieldValidation=Strict");
    for (path, body, expected) in [
        (reviews, review, "201"),
        (
            &strict,
            r#"{"spec":{"bogus":1,"nonResourceAttributes":{"path":"/","verb":"get"}}}"#,
            "400 BadRequest SelfSubjectAccessReview in version \"v1\" cannot be handled as a SelfSubjectAccessReview: strict \
             decoding error: unknown field \"spec.bogus\"",
        ),
        (
            reviews,
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            "400 BadRequest Pod in version \"v1\" cannot be handled as a SelfSubjectAccessReview: converting (v1.Pod) to \
             (authorization.SelfSubjectAccessReview): unknown conversion",
        ),
    ] {
        let text = send(&server, "POST", path, &[], body).await.shown();
        assert!(text.starts_with(expected), "{body}: {text}");
    }
}

#[tokio::test]
async fn the_end_of_the_initial_events_is_marked_in_tables() {
    let server = with_config_maps().await;
    let all = format!(
        "{CM}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    );
    for (include, items) in [("None", json!(null)), ("Metadata", json!("PartialObjectMetadata"))] {
        let events = super::lines(&get(&server, &format!("{all}&includeObject={include}"), TABLE).await);
        let kinds: Vec<_> = events.iter().map(|event| event["object"]["kind"].clone()).collect();
        assert_eq!(kinds, vec![json!("Table"); 4], "three and a bookmark");
        assert_eq!(events[0]["object"]["rows"][0]["object"]["kind"], items);
        let mark = &events[3]["object"]["rows"][0];
        assert_eq!(mark["cells"][0], json!(""), "no name");
        // Clients wait for the mark, and find it nowhere else.
        assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{include}");
    }
}

#[tokio::test]
async fn rows_of_tables_carry_the_requested_objects() {
    let server = with_config_maps().await;
    for path in [format!("{CM}/a"), CM.to_owned()] {
        for (include, expected) in [
            ("None", json!(null)),
            ("Metadata", json!(["meta.k8s.io/v1", "PartialObjectMetadata"])),
            ("Object", json!(["v1", "ConfigMap"])),
        ] {
            let table = get(&server, &format!("{path}?includeObject={include}"), TABLE).await.json();
            let row = table["rows"][0].as_object().expect("a row").clone();
            let object = row.get("object").expect("even when there is none");
            let found = if object.is_null() { json!(null) } else { json!([object["apiVersion"], object["kind"]]) };
            assert_eq!(found, expected, "{path} {include}");
        }
    }
    let deleted = send(&server, "DELETE", CM, &[("accept", TABLE)], "").await.json();
    assert_eq!((&deleted["kind"], deleted["rows"].as_array().map(Vec::len)), (&json!("Table"), Some(3)));
}

#[tokio::test]
async fn a_status_has_the_requested_form() {
    let server = with_config_maps().await;
    for (name, accept, media_type, start) in [
        ("a", "application/yaml", "application/yaml", &b"apiVersion: v1"[..]),
        ("b", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", b"k8s\0"),
        ("c", TABLE, "application/json", b"{"),
        ("none", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", b"k8s\0"),
    ] {
        let reply = send(&server, "DELETE", &format!("{CM}/{name}"), &[("accept", accept)], "").await;
        assert_eq!(reply.headers["content-type"], media_type, "{name}");
        assert!(reply.body.starts_with(start), "{name}: {:?}", reply.body);
    }
    // People read it.
    let pretty = get(&server, &format!("{CM}/none"), "application/json;pretty=1").await;
    assert!(pretty.body.starts_with(b"{\n  \"kind\": \"Status\""), "{}", pretty.shown());
}
