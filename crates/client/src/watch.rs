//! Watch streams over a socket: one JSON document per line.

use apimachinery::{ApiResource, Status};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use transport::{Body, WatchEvent, WatchStream};

use crate::{MAX_OBJECT_BYTES, codec};

#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The events of a watch of a resource. The stream ends when the server ends it; a malformed line, or an object of
/// another kind, ends it with a [`WatchEvent::Error`]. `owners`: whether objects keep their managed fields.
pub(crate) fn events(body: Body, resource: ApiResource, owners: bool) -> WatchStream {
    lines(body)
        .map(move |line| {
            line.and_then(|line| decode(&line, &resource, owners)).unwrap_or_else(|s| WatchEvent::Error(Box::new(s)))
        })
        .boxed()
}

fn decode(line: &[u8], resource: &ApiResource, owners: bool) -> Result<WatchEvent, Status> {
    let bad = |why: serde_json::Error| Status::internal(format_args!("a watch event is malformed: {why}"));
    let event: WireEvent<'_> = serde_json::from_slice(line).map_err(bad)?;
    let object = || codec::item(resource, event.object.get(), owners).map_err(bad);
    match event.type_ {
        "ADDED" => Ok(WatchEvent::Added(object()?)),
        "MODIFIED" => Ok(WatchEvent::Modified(object()?)),
        "DELETED" => Ok(WatchEvent::Deleted(object()?)),
        "BOOKMARK" => {
            let object = codec::parse(event.object.get(), owners).map_err(bad)?;
            let initial_end = object.annotation("k8s.io/initial-events-end").as_deref() == Some("true");
            Ok(WatchEvent::Bookmark { resource_version: object.revision(), initial_end })
        }
        "ERROR" => Err(serde_json::from_str(event.object.get()).map_err(bad)?),
        other => Err(Status::internal(format_args!("a watch event has the unknown type {other:?}"))),
    }
}

struct Lines {
    body: Body,
    pending: BytesMut,
    done: bool,
}

/// Splits a body into lines of at most [`MAX_OBJECT_BYTES`] plus the event's frame.
pub(crate) fn lines(body: Body) -> impl Stream<Item = Result<Bytes, Status>> + Send {
    let state = Lines { body, pending: BytesMut::new(), done: false };
    futures::stream::unfold(state, |mut state| async move {
        let mut searched = 0;
        loop {
            if state.done {
                return None;
            }
            if let Some(end) = state.pending[searched..].iter().position(|byte| *byte == b'\n') {
                let line = state.pending.split_to(searched + end + 1).freeze();
                if line.iter().all(u8::is_ascii_whitespace) {
                    searched = 0;
                    continue;
                }
                return Some((Ok(line), state));
            }
            searched = state.pending.len();
            if searched > MAX_OBJECT_BYTES + 1024 {
                state.done = true;
                let why = format_args!("a watch event is larger than {MAX_OBJECT_BYTES} bytes");
                return Some((Err(Status::internal(why)), state));
            }
            match state.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        state.pending.extend_from_slice(&data);
                    }
                }
                // A broken connection ends a watch like an orderly end: the informer resumes it.
                Some(Err(error)) => {
                    tracing::debug!(err = %error, "Watch connection broke");
                    return None;
                }
                None => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ApiResource {
        ApiResource::namespaced("", "v1", "Pod", "pods")
    }

    #[tokio::test]
    async fn an_object_of_another_kind_ends_the_watch() {
        let event = |kind| format!(r#"{{"type":"MODIFIED","object":{{{kind}"metadata":{{"name":"a"}}}}}}"#);
        let kinds = [r#""kind":"Pod","#, r#""kind":"PartialObjectMetadata","#, "", r#""kind":"Secret","#];
        let lines = kinds.map(event).join("\n") + "\n";
        let events: Vec<WatchEvent> = events(transport::full(lines), pods(), true).collect().await;
        let kinds: Vec<&str> = events[..3]
            .iter()
            .map(|event| match event {
                WatchEvent::Modified(object) => object.kind(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["Pod", "PartialObjectMetadata", "Pod"]);
        let WatchEvent::Error(status) = &events[3] else { panic!("{:?}", events[3]) };
        let expected = r#"a watch event is malformed: its kind is "Secret", not "Pod""#;
        assert!(status.message.ends_with(expected), "{}", status.message);
    }

    #[tokio::test]
    async fn events_are_read_across_frames() {
        let text = concat!(
            r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            "\n\n",
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#,
            "\n",
            r#"{"type":"DELETED","object":{"metadata":{"name":"half"#,
        );
        let frames: Vec<_> = text.as_bytes().chunks(7).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let stream = events(transport::stream(futures::stream::iter(frames)), pods(), true);
        let got: Vec<_> = stream.map(|event| format!("{event:?}").chars().take(50).collect::<String>()).collect().await;
        assert_eq!(got.len(), 3, "{got:?}");
        assert_eq!(got[0], "Added(Pod a rv=)");
        assert_eq!(got[1], "Bookmark { resource_version: 9, initial_end: true ");
        assert!(got[2].starts_with("Error(Status"), "{got:?}");
    }

    #[tokio::test]
    async fn managed_fields_are_dropped_on_request() {
        let line = concat!(
            r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"}}}"#,
            "\n"
        );
        for (owners, expected) in [
            (false, r#"{"kind":"Pod","metadata":{"name":"a","uid":"u"}}"#),
            (true, r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"}}"#),
        ] {
            let mut stream = events(transport::full(line), pods(), owners);
            let Some(WatchEvent::Added(object)) = stream.next().await else { panic!("an object was added") };
            assert_eq!(object.json(), expected);
            assert_eq!(object.uid(), "u");
        }
    }
}
