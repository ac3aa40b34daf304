//! Events that a component of this process reports. They are more than half of the objects that the propagation of a
//! template creates, and all have the same fields, so their stored form is written in one pass over the draft.

use apimachinery::meta::Time;
use apimachinery::{go_time, names, raw_json};
use bytes::Bytes;
use transport::{EventPart, NewEvent};

use crate::handlers::{Creation, Kind};

/// kube-apiserver's `--event-ttl`.
const TTL: std::time::Duration = std::time::Duration::from_secs(3600);

pub(super) const ROW: Kind = Kind { plural: "events", lifetime: Some(TTL), stored_event: stored, ..Kind::ORDINARY };
pub(super) const NEWER_ROW: Kind =
    Kind { group: "events.k8s.io", plural: "events", lifetime: Some(TTL), ..Kind::ORDINARY };

/// The fields that the writer of such an Event owns.
const OWNED: &str = concat!(
    r#"{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"#,
    r#""f:reason":{},"f:reportingComponent":{},"f:source":{"f:component":{}},"f:type":{}}"#
);

/// The members of `involvedObject` in such an Event.
const INVOLVED: [(&str, EventPart); 6] = [
    ("apiVersion", EventPart::ApiVersion),
    ("kind", EventPart::Kind),
    ("name", EventPart::Name),
    ("namespace", EventPart::Namespace),
    ("resourceVersion", EventPart::ResourceVersion),
    ("uid", EventPart::Uid),
];

/// The stored form that the general path yields for an Event; `None` if it lacks a field, or may be invalid.
fn stored(event: &NewEvent, creation: &Creation<'_>) -> Option<Bytes> {
    let (name, draft, namespace) = (&event.name, &*event.draft, creation.namespace);
    let (about, message) = (draft.text(EventPart::Namespace), draft.text(EventPart::Message));
    let is_valid = (about == namespace || about.is_empty() && namespace == "default")
        && names::is_dns1123_subdomain(name).is_empty()
        && !message.is_empty()
        && !draft.reason.is_empty()
        && !draft.component.is_empty();
    let at = Time::new(draft.at).to_string();
    // A year of five digits or before our era is invalid.
    if !is_valid || go_time::rfc3339_error(&at).is_some() {
        return None;
    }
    let mut out = Written(Vec::with_capacity(1280));
    let now = creation.now.to_string();
    out.member(r#"{"apiVersion":"v1","kind":"Event","metadata":{"creationTimestamp":"#, &now);
    out.raw(r#","managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":"#);
    out.raw(OWNED);
    out.member(r#","manager":"#, creation.manager);
    out.member(r#","operation":"Update","time":"#, &now);
    out.member(r#"}],"name":"#, name);
    out.member(r#","namespace":"#, namespace);
    out.member(r#","uid":"#, creation.uid);
    out.member(r#"},"count":1,"eventTime":null,"firstTimestamp":"#, &at);
    let mut before = r#","involvedObject":{""#;
    for (field, part) in INVOLVED {
        let text = draft.text(part);
        if !text.is_empty() {
            out.raw(before);
            out.raw(field);
            out.member("\":", text);
            before = ",\"";
        }
    }
    // One without a member is no object of a component.
    (before == ",\"").then_some(())?;
    out.member(r#"},"lastTimestamp":"#, &at);
    out.member(r#","message":"#, message);
    out.member(r#","reason":"#, draft.reason);
    out.member(r#","reportingComponent":"#, &draft.component);
    out.member(r#","reportingInstance":"","source":{"component":"#, &draft.component);
    out.member(r#"},"type":"#, draft.type_.as_str());
    out.raw("}");
    Some(out.0.into())
}

struct Written(Vec<u8>);

impl Written {
    fn raw(&mut self, part: &str) {
        self.0.extend_from_slice(part.as_bytes());
    }

    fn member(&mut self, before: &str, text: &str) {
        self.raw(before);
        raw_json::write_text(text, &mut self.0);
    }
}
