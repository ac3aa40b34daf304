//! Events that a component of this process reports. They are more than half of the objects that the propagation of a
//! template creates, and all have the same fields, so their stored form is written in one pass over the draft.

use apimachinery::{go_time, names, raw_json};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::handlers::{Kind, NewObject};

/// kube-apiserver's `--event-ttl`.
const TTL: std::time::Duration = std::time::Duration::from_secs(3600);

pub(super) const ROW: Kind = Kind { plural: "events", lifetime: Some(TTL), stored_form: stored, ..Kind::ORDINARY };
pub(super) const NEWER_ROW: Kind =
    Kind { group: "events.k8s.io", plural: "events", lifetime: Some(TTL), ..Kind::ORDINARY };

/// The fields that the writer of such an Event owns.
const OWNED: &str = concat!(
    r#"{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"#,
    r#""f:reason":{},"f:reportingComponent":{},"f:source":{"f:component":{}},"f:type":{}}"#
);

/// The members of `involvedObject` in such an Event.
const INVOLVED: [&str; 6] = ["apiVersion", "kind", "name", "namespace", "resourceVersion", "uid"];

/// The stored form that the general path yields for a draft; `None` if the draft has other fields than such an Event,
/// lacks one, or may be invalid.
fn stored(draft: &Value, new: &NewObject<'_>) -> Option<Bytes> {
    let event = draft.as_object()?;
    let text = |field: &str| event.get(field)?.as_str();
    let set = |field: &str| text(field).filter(|text| !text.is_empty());
    let time = |field: &str| text(field).filter(|time| is_time(time));
    let involved = members(event.get("involvedObject")?, &INVOLVED)?;
    let [component] = strings(event.get("source")?, ["component"])?;
    let [name, namespace] = strings(event.get("metadata")?, ["name", "namespace"])?;
    let is_of_kind = event.len() == 13 && text("apiVersion")? == "v1" && text("kind")? == "Event";
    let about = involved.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let is_valid = is_of_kind
        && event.get("count")?.as_i64()? == 1
        && text("reportingInstance")?.is_empty()
        && matches!(text("type")?, "Normal" | "Warning")
        && (namespace, name) == (new.namespace, new.name)
        && (about == namespace || about.is_empty() && namespace == "default")
        && names::is_dns1123_subdomain(name).is_empty();
    if !is_valid || component.is_empty() {
        return None;
    }
    let mut out = Written(Vec::with_capacity(1280));
    let now = new.now.to_string();
    out.member(r#"{"apiVersion":"v1","kind":"Event","metadata":{"creationTimestamp":"#, &now);
    out.raw(r#","managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":"#);
    out.raw(OWNED);
    out.member(r#","manager":"#, new.manager);
    out.member(r#","operation":"Update","time":"#, &now);
    out.member(r#"}],"name":"#, name);
    out.member(r#","namespace":"#, namespace);
    out.member(r#","uid":"#, new.uid);
    out.member(r#"},"count":1,"eventTime":null,"firstTimestamp":"#, time("firstTimestamp")?);
    let mut before = r#","involvedObject":{""#;
    for (field, value) in involved {
        if let Some(value) = value.as_str().filter(|value| !value.is_empty()) {
            out.raw(before);
            out.raw(field);
            out.member("\":", value);
            before = ",\"";
        }
    }
    // One without a member is no object of a component.
    (before == ",\"").then_some(())?;
    out.member(r#"},"lastTimestamp":"#, time("lastTimestamp")?);
    out.member(r#","message":"#, set("message")?);
    out.member(r#","reason":"#, set("reason")?);
    out.member(r#","reportingComponent":"#, set("reportingComponent")?);
    out.member(r#","reportingInstance":"","source":{"component":"#, component);
    out.member(r#"},"type":"#, text("type")?);
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

/// A time as this program prints it.
fn is_time(text: &str) -> bool {
    text.len() == "2006-01-02T15:04:05Z".len() && text.ends_with('Z') && go_time::rfc3339_error(text).is_none()
}

/// The members of an object, all of which are known texts.
fn members<'v>(value: &'v Value, known: &[&str]) -> Option<&'v Map<String, Value>> {
    let members = value.as_object()?;
    members.iter().all(|(name, value)| known.contains(&name.as_str()) && value.is_string()).then_some(members)
}

/// The texts of an object that has these members alone.
fn strings<'v, const N: usize>(value: &'v Value, fields: [&str; N]) -> Option<[&'v str; N]> {
    let members = members(value, &fields)?;
    let texts = fields.map(|field| members.get(field).and_then(Value::as_str));
    let found = texts.iter().all(Option::is_some);
    found.then(|| texts.map(Option::unwrap_or_default))
}
