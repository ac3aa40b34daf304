//! Events of both groups. Errors name the fields of the stored form, for requests of either group; the newer group
//! requires more fields and makes more of them immutable.

use apimachinery::field::ErrorList;
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, invalid, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("event", event), ("new_event", new_event)];

/// The maximum length of `action`, `reason` and `reportingInstance`.
const WORD: usize = 128;
const NOTE: usize = 1024;

/// Stored name, name in `events.k8s.io/v1`.
const FIXED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

fn event(event: &Object, at: &At<'_>, errors: &mut ErrorList) {
    sensible(event, at, "involvedObject", "message", "reportingComponent", errors);
}

fn new_event(event: &Object, at: &At<'_>, errors: &mut ErrorList) {
    sensible(event, at, "regarding", "note", "reportingController", errors);
    series(event, at, errors);
    if !is_set(event.get("eventTime")) {
        required(errors, &at.child("eventTime"), "");
    }
    let type_ = text(event, "type");
    if !matches!(type_, "Normal" | "Warning") {
        invalid(errors, &at.child("type"), &"".into(), &format!("has invalid value: {type_}"));
    }
    for (stored, served) in [
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
        ("source", "deprecatedSource"),
    ] {
        if is_set(event.get(served)) {
            invalid(errors, &at.child(stored), &"".into(), "needs to be unset");
        }
    }
}

/// Fields that are immutable in the newer group.
pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (Some(was), Some(is)) = (old.as_object(), new.as_object()) else { return };
    let root = At::root();
    sensible(is, &root, "regarding", "note", "reportingController", errors);
    if was.get("series") != is.get("series") {
        series(is, &root, errors);
    }
    for (stored, served) in FIXED {
        let (was, is) = (was.get(*served), is.get(*served));
        if was != is && (is_set(was) || is_set(is)) {
            invalid(errors, &root.child(stored), is.unwrap_or(&Value::Null), "field is immutable");
        }
    }
}

/// Checks of both groups. An event with `eventTime` is of the newer form, in requests of either group.
fn sensible(event: &Object, at: &At<'_>, about: &str, message: &str, reporter: &str, errors: &mut ErrorList) {
    let metadata = event.get("metadata");
    let namespace = metadata.and_then(|metadata| metadata["namespace"].as_str()).unwrap_or_default();
    let specified = object(event, about).map_or("", |about| text(about, "namespace"));
    let is_new = is_set(event.get("eventTime"));
    let agrees = match (specified, is_new) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (specified, false) => specified == namespace,
        (_, true) => true,
    };
    if !agrees {
        let at = at.child("involvedObject");
        invalid(errors, &at.child("namespace"), &specified.into(), "does not match event.namespace");
    }
    if !is_new {
        return;
    }
    let (at_reporter, controller) = (at.child(reporter), text(event, reporter));
    if controller.is_empty() {
        required(errors, &at_reporter, "");
    }
    for complaint in names::is_qualified_name(controller) {
        invalid(errors, &at_reporter, &controller.into(), &complaint);
    }
    for word in ["reportingInstance", "action", "reason"] {
        let letters = text(event, word).len();
        if letters == 0 {
            required(errors, &at.child(word), "");
        } else if letters > WORD {
            invalid(errors, &at.child(word), &"".into(), &format!("can have at most {WORD} characters"));
        }
    }
    if text(event, message).len() > NOTE {
        invalid(errors, &at.child("message"), &"".into(), &format!("can have at most {NOTE} characters"));
    }
}

fn series(event: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(series) = object(event, "series") else { return };
    if series.get("count").and_then(Value::as_i64).unwrap_or_default() < 2 {
        invalid(errors, &at.child("series.count"), &"".into(), "should be at least 2");
    }
    if !is_set(series.get("lastObservedTime")) {
        required(errors, &at.child("series.lastObservedTime"), "");
    }
}

/// Whether a value differs from the zero value of its type.
fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() != Some(0),
        Some(Value::Object(map)) => map.values().any(|value| is_set(Some(value))),
        Some(_) => true,
    }
}
