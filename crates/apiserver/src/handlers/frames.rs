//! Encoding of watch events: JSON lines, or length-prefixed protobuf.

use apimachinery::Status;
use apimachinery::meta::Time;
use apimachinery::resource::Resource;
use bytes::Bytes;
use futures::{FutureExt as _, Stream, StreamExt as _};
use kubernetes_api::protobuf;
use serde_json::{Value, json};
use transport::{BoxError, WatchEvent, WatchStream};
use world::World;

use crate::flow::Watching;
use crate::metrics::streams::Watched;
use crate::wire::negotiate::{Encoding, Shape};
use crate::wire::respond::no_protobuf;
use crate::wire::shape::{self, Form, Include};

/// Available events are sent together up to this many bytes, because a write to the socket costs as much as several
/// events.
const TOGETHER: usize = 32 << 10;

/// The frames of a watch as the body sends them.
pub(super) fn stream(events: WatchStream, frames: Frames) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    // The end may be read behind the last events; it is read again for the end of the body.
    futures::stream::unfold((events.fuse(), Box::new(frames)), async |(mut events, mut frames)| {
        let mut out = Vec::new();
        frames.count_and_put(events.next().await?, &mut out);
        while out.len() < TOGETHER
            && let Some(Some(event)) = events.next().now_or_never()
        {
            frames.count_and_put(event, &mut out);
        }
        Some((Ok(out.into()), (events, frames)))
    })
}

/// The form of one watch.
pub(super) struct Frames {
    pub resource: Resource,
    pub form: Form,
    pub encoding: Encoding,
    /// Ages in tables are those of the moment an event is sent.
    pub world: World,
    /// The first table names the columns.
    pub first: bool,
    pub watched: Watched,
    #[expect(dead_code, reason = "counted until it is dropped")]
    pub watching: Watching,
}

impl Frames {
    pub fn content_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            Encoding::Json | Encoding::Yaml => "application/json",
        }
    }

    fn count_and_put(&mut self, event: WatchEvent, out: &mut Vec<u8>) {
        let before = out.len();
        self.put(event, out);
        self.watched.sent(out.len() - before);
    }

    /// Appends the frame of an event.
    pub fn put(&mut self, event: WatchEvent, out: &mut Vec<u8>) {
        let (type_, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Error(status) => return self.error(&status, out),
            WatchEvent::Bookmark { resource_version, initial_end } => {
                let bookmark = self.bookmark(resource_version, initial_end);
                return self.shown("BOOKMARK", bookmark, out);
            }
        };
        if self.form.shape == Shape::Whole && self.encoding != Encoding::Protobuf {
            let json = object.json();
            out.reserve(json.len() + 40);
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(type_.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            out.extend_from_slice(&json);
            out.extend_from_slice(b"}\n");
            return;
        }
        if self.form.shape == Shape::Whole {
            return put_protobuf(type_, &object.json(), out);
        }
        let now = Time::new(self.world.now());
        match shape::shaped(&self.resource, &object, self.form, now) {
            Ok(shown) => self.shown(type_, shown, out),
            Err(status) => self.error(&status, out),
        }
    }

    fn shown(&mut self, type_: &str, mut shown: Value, out: &mut Vec<u8>) {
        if self.form.shape == Shape::Table && !std::mem::take(&mut self.first) {
            shown["columnDefinitions"] = Value::Null;
        }
        self.frame(type_, &shown, out);
    }

    fn error(&self, status: &Status, out: &mut Vec<u8>) {
        self.frame("ERROR", &json!(status), out);
    }

    fn frame(&self, type_: &str, object: &Value, out: &mut Vec<u8>) {
        if self.encoding == Encoding::Protobuf {
            return put_protobuf(type_, object.to_string().as_bytes(), out);
        }
        out.extend_from_slice(format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").as_bytes());
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let named = &self.resource.info.resource;
        let object = json!({"kind": named.kind, "apiVersion": named.api_version(), "metadata": metadata});
        let mut form = self.form;
        if initial_end && form.include == Include::None {
            // The mark is in the metadata.
            form.include = Include::Metadata;
        }
        let mut shown = form.of(&self.resource, object, Time::new(self.world.now()));
        if let Some(name) = shown.pointer_mut("/rows/0/cells/0").filter(|name| name.is_null()) {
            *name = "".into();
        }
        shown
    }
}

fn put_protobuf(type_: &str, json: &[u8], out: &mut Vec<u8>) {
    let frame = protobuf::encode_event(type_, json).unwrap_or_else(|error| {
        let status = json!(no_protobuf(error)).to_string();
        // A Status has a protobuf form, so this cannot fail in turn; an empty frame would end the client's watch.
        protobuf::encode_event("ERROR", status.as_bytes()).unwrap_or_default()
    });
    out.extend_from_slice(&frame);
}
