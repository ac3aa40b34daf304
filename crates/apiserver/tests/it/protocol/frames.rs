//! Watches as protobuf: frames of a length and a `WatchEvent`, whose object is a whole document with its own envelope.

use serde_json::{Value, json};

use super::{CM, get, with_config_maps};
use crate::parity::send;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const AS_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Splits one length-delimited field off: its number and content.
fn field(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    assert_eq!(bytes[0] & 7, 2, "a length-delimited field");
    let (mut length, mut at) = (0usize, 1);
    loop {
        length |= usize::from(bytes[at] & 0x7f) << (7 * (at - 1));
        at += 1;
        if bytes[at - 1] & 0x80 == 0 {
            return (bytes[0] >> 3, &bytes[at..at + length], &bytes[at + length..]);
        }
    }
}

/// Type and object of every frame of a body, which must contain only whole frames.
fn events(mut body: &[u8]) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let (head, rest) = body.split_first_chunk::<4>().expect("a length");
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*head) as usize);
        body = rest;
        let (number, type_, more) = field(frame);
        assert_eq!(number, 1, "WatchEvent.type");
        let (number, extension, more) = field(more);
        assert_eq!((number, more), (2, &b""[..]), "WatchEvent.object");
        let (number, raw, more) = field(extension);
        assert_eq!((number, more), (1, &b""[..]), "RawExtension.raw");
        assert!(raw.starts_with(b"k8s\0"), "an envelope of its own");
        let object = kubernetes_api::protobuf::decode(raw).expect("an object");
        found.push((String::from_utf8(type_.to_vec()).expect("text"), object));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn every_event_has_a_frame() {
    let server = with_config_maps().await;
    let start = send(&server, "GET", CM, &[], "").await.json()["metadata"]["resourceVersion"].clone();
    let start = start.as_str().expect("a revision");
    let merge = [("content-type", "application/merge-patch+json")];
    assert_eq!(send(&server, "PATCH", &format!("{CM}/a"), &merge, r#"{"data":{"k":"w"}}"#).await.code, 200);
    assert_eq!(send(&server, "DELETE", &format!("{CM}/a"), &[], "").await.code, 200);
    for (accept, kind) in [(PROTOBUF, "ConfigMap"), (STREAM, "ConfigMap"), (AS_METADATA, "PartialObjectMetadata")] {
        let past = get(&server, &format!("{CM}?watch=1&timeoutSeconds=1&resourceVersion={start}"), accept).await;
        assert_eq!((past.code, &past.headers["content-type"]), (200, &STREAM.parse().expect("a header")));
        let past = events(&past.body);
        let types: Vec<&str> = past.iter().map(|(type_, _)| type_.as_str()).collect();
        assert_eq!(types, ["MODIFIED", "DELETED"], "{accept}");
        for (_, object) in &past {
            assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!(kind), &json!("a")));
            assert_eq!(object["data"]["k"], if kind == "ConfigMap" { json!("w") } else { json!(null) });
        }

        let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let now = get(&server, &format!("{CM}?watch=1&timeoutSeconds=100&{initial}"), accept).await;
        let now = events(&now.body);
        let types: Vec<&str> = now.iter().map(|(type_, _)| type_.as_str()).collect();
        // The mark, then one bookmark a minute and one before the end.
        assert_eq!(types, ["ADDED", "ADDED", "BOOKMARK", "BOOKMARK", "BOOKMARK"], "{accept}");
        let end = &now[2].1;
        assert_eq!(
            (&end["kind"], &end["metadata"]["annotations"]["k8s.io/initial-events-end"]),
            (&json!(kind), &json!("true"))
        );
        assert_eq!((&now[3].1["kind"], now[3].1["metadata"].get("annotations")), (&json!(kind), None));
        assert!(now[3].1["metadata"]["resourceVersion"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn errors_have_a_frame_too_and_tables_have_none() {
    let server = with_config_maps().await;
    server.shared().cache.store().compact(3).await.expect("the past goes");
    let old = get(&server, &format!("{CM}?watch=1&resourceVersion=1"), PROTOBUF).await;
    let found = events(&old.body);
    assert_eq!((old.code, found.len(), found[0].0.as_str()), (200, 1, "ERROR"));
    let status = &found[0].1;
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );

    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    assert_eq!(get(&server, &format!("{CM}?watch=1"), table).await.code, 406);
    let either = format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1");
    let reply = get(&server, &format!("{CM}?watch=1&timeoutSeconds=1"), &either).await;
    assert_eq!(super::lines(&reply)[0]["object"]["kind"], "Table");
}
