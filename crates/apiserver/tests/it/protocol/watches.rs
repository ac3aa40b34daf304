//! Watches as JSON: their starts, their events, their errors.

use serde_json::{Value, json};

use super::{CM, get, lines, with_config_maps};
use crate::engine::on_every_engine;
use crate::parity::{config_map, send};

on_every_engine! {
    paused: [
        a_watch_begins_at_the_requested_version,
        the_end_of_the_initial_events_is_marked_in_every_shape,
        watches_that_cannot_be_served_are_refused,
        selectors_determine_event_types,
    ],
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const INITIAL: &str = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

async fn a_watch_begins_at_the_requested_version() {
    let server = with_config_maps().await;
    let now = send(&server, "GET", CM, &[], "").await.json()["metadata"]["resourceVersion"].clone();
    let now = now.as_str().expect("a revision");
    let (all, none): (&[&str], &[&str]) = (&["ADDED", "ADDED", "ADDED"], &[]);
    let marked = ["ADDED", "ADDED", "ADDED", "BOOKMARK"];
    for (query, expected) in [
        ("watch=1&timeoutSeconds=1".to_owned(), all),
        ("watch&timeoutSeconds=1".into(), all),
        ("watch=true&timeoutSeconds=1&resourceVersion=0".into(), all),
        ("watch=true&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true".into(), &marked),
        // Upstream takes both for a request for initial events.
        ("watch=true&timeoutSeconds=1&allowWatchBookmarks=true".into(), &marked),
        (format!("watch=1&timeoutSeconds=1&resourceVersion={now}"), none),
        (INITIAL.into(), all),
        (format!("{INITIAL}&allowWatchBookmarks=true"), &marked),
        (format!("{INITIAL}&allowWatchBookmarks=true&resourceVersion={now}"), &marked),
        // No existing objects, only later changes.
        (INITIAL.replace("=true", "=false"), none),
        (INITIAL.replace("=true", "=false") + "&resourceVersion=0&allowWatchBookmarks=true", none),
    ] {
        let events = lines(&get(&server, &format!("{CM}?{query}"), "application/json").await);
        assert_eq!(types(&events), expected, "{query}");
    }
    // The older form, with the resource's collection and with one name, whether or not it exists.
    for (path, expected) in [
        ("/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1", 3),
        ("/api/v1/watch/configmaps?timeoutSeconds=1", 3),
        ("/api/v1/watch/namespaces/default/configmaps/a?timeoutSeconds=1", 1),
        ("/api/v1/watch/namespaces/default/configmaps/none?timeoutSeconds=1", 0),
        ("/api/v1/watch/namespaces?timeoutSeconds=1", 1),
        ("/api/v1/watch/namespaces/default?timeoutSeconds=1", 1),
    ] {
        assert_eq!(lines(&get(&server, path, "application/json").await).len(), expected, "{path}");
    }
    let plain = get(&server, &format!("{CM}/a?watch=1"), "application/json").await.json();
    assert_eq!(plain["kind"], "ConfigMap", "one object is read, with any parameter");
}

async fn the_end_of_the_initial_events_is_marked_in_every_shape() {
    let server = with_config_maps().await;
    let mark = json!({"k8s.io/initial-events-end": "true"});
    for (accept, pointer, kind) in [
        ("application/json", "/object/metadata/annotations", "v1 ConfigMap"),
        ("application/json;stream=watch", "/object/metadata/annotations", "v1 ConfigMap"),
        (METADATA, "/object/metadata/annotations", "meta.k8s.io/v1 PartialObjectMetadata"),
    ] {
        let path = format!("{CM}?{INITIAL}&allowWatchBookmarks=true&fieldSelector=metadata.name%3Da");
        let reply = get(&server, &path, accept).await;
        assert!(reply.body.starts_with(b"{\"type\":\"ADDED\",\"object\":{"), "{accept}");
        let events = lines(&reply);
        assert_eq!(types(&events), ["ADDED", "BOOKMARK"], "{accept}");
        let bookmark = &events[1];
        assert_eq!(bookmark.pointer(pointer), Some(&mark), "{accept}");
        let object = &bookmark["object"];
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(format!("{} {}", text("apiVersion"), text("kind")), kind);
    }
    // Rows are sent only to clients that request them with a version. Columns are sent with the first event, even if
    // that is the bookmark, and never again.
    for (name, count) in [("a", 2), ("none", 1)] {
        let query = "watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1";
        let path = format!("{CM}?{query}&fieldSelector=metadata.name%3D{name}");
        let events = lines(&get(&server, &path, TABLE).await);
        assert_eq!(events.len(), count);
        for (place, event) in events.iter().enumerate() {
            assert_eq!(event["object"]["columnDefinitions"].is_array(), place == 0, "{name} {event}");
        }
        let last = events.last().and_then(|event| event.pointer("/object/rows/0/object/metadata/annotations"));
        assert_eq!(last, Some(&mark));
    }
}

async fn watches_that_cannot_be_served_are_refused() {
    let server = with_config_maps().await;
    let streams = "406 NotAcceptable only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    let forms = "406 NotAcceptable only the following media types are accepted: application/json, application/yaml, \
                 application/vnd.kubernetes.protobuf";
    for (query, accept, expected) in [
        ("watch=1", "application/yaml, text/plain", streams),
        ("watch=1", "application/json;stream=other", forms),
        (
            "watch=1&includeObject=Bad",
            TABLE,
            "400 BadRequest Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be \
             'Metadata', 'Object', 'None', or empty",
        ),
        ("watch=1&timeoutSeconds=x", "*/*", "400 BadRequest strconv.ParseInt: parsing \"x\": invalid syntax"),
        (
            "watch=1&labelSelector=a%20in%20(",
            "*/*",
            "400 BadRequest unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            "*/*",
            "422 Invalid ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents \
             requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": \
             supported values: \"NotOlderThan\"]",
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999",
            "*/*",
            "504 Timeout Timeout: Too large resource version: 99999, current: ",
        ),
    ] {
        let reply = get(&server, &format!("{CM}?{query}"), accept).await;
        let found = if accept.starts_with("application/yaml") {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert!(text.contains("reason: NotAcceptable"), "{text}");
            streams.to_owned()
        } else {
            reply.shown()
        };
        assert!(found.starts_with(expected), "{query} {accept}: {found}");
    }
}

async fn selectors_determine_event_types() {
    let server = with_config_maps().await;
    let start = send(&server, "GET", CM, &[], "").await.json()["metadata"]["resourceVersion"].clone();
    let merge = [("content-type", "application/merge-patch+json")];
    let mut last = Value::Null;
    for label in [json!("x"), json!("x"), json!(null)] {
        let patch =
            json!({"metadata": {"labels": {"l": label}, "annotations": {"n": last["metadata"]["resourceVersion"]}}});
        last = send(&server, "PATCH", &format!("{CM}/a"), &merge, &patch.to_string()).await.json();
    }
    assert_eq!(send(&server, "POST", CM, &[], &config_map("d")).await.code, 201);
    let gone = send(&server, "DELETE", &format!("{CM}/b"), &[], "").await;
    assert_eq!(gone.code, 200);
    let watch = |selector: &str| {
        let start = start.as_str().expect("a revision");
        format!("{CM}?watch=1&timeoutSeconds=1&resourceVersion={start}&{selector}")
    };
    let events = lines(&get(&server, &watch("labelSelector=l%3Dx"), "application/json").await);
    assert_eq!(types(&events), ["ADDED", "MODIFIED", "DELETED"]);
    let left = &events[2]["object"]["metadata"];
    assert_eq!(left["labels"]["l"], "x", "as it was");
    assert_eq!(left["resourceVersion"], last["metadata"]["resourceVersion"], "when it ceased");
    let events = lines(&get(&server, &watch("fieldSelector=metadata.name%3Db"), "application/json").await);
    assert_eq!(types(&events), ["DELETED"]);
}
