//! Events of both groups, which have the same content under different names.

use apimachinery::age::human_duration;
use apimachinery::meta::Time;
use serde_json::Value;

use super::{Function, function, int, seconds_between};

pub(super) const FUNCTIONS: &[Function] = &[
    function("event_count", &[".series", ".count", ".deprecatedCount"], |event, _| count(event).into()),
    function("event_first", &[".firstTimestamp", ".deprecatedFirstTimestamp", ".eventTime"], |event, now| {
        first(event, now).into()
    }),
    function(
        "event_last",
        &[
            ".series",
            ".lastTimestamp",
            ".deprecatedLastTimestamp",
            ".firstTimestamp",
            ".deprecatedFirstTimestamp",
            ".eventTime",
        ],
        |event, now| last(event, now).into(),
    ),
    function("event_message", &[".message", ".note"], |event, _| message(event).into()),
    function("event_object", &[".involvedObject", ".regarding"], |event, _| about(event).into()),
    function(
        "event_source",
        &[".source", ".deprecatedSource", ".reportingComponent", ".reportingController", ".reportingInstance"],
        |event, _| source(event).into(),
    ),
];

/// The first non-empty one of the fields.
fn either<'a>(event: &'a Value, fields: [&str; 2]) -> &'a Value {
    let [first, second] = fields;
    if event[first].is_null() { &event[second] } else { &event[first] }
}

fn ago(time: &Value, now: Time) -> Option<String> {
    seconds_between(time, now).map(human_duration)
}

fn first(event: &Value, now: Time) -> String {
    let stamp = either(event, ["firstTimestamp", "deprecatedFirstTimestamp"]);
    ago(stamp, now).or_else(|| ago(&event["eventTime"], now)).unwrap_or_else(|| "<unknown>".to_owned())
}

fn last(event: &Value, now: Time) -> String {
    let series = &event["series"];
    if series.is_object() {
        return ago(&series["lastObservedTime"], now).unwrap_or_else(|| "<unknown>".to_owned());
    }
    let stamp = either(event, ["lastTimestamp", "deprecatedLastTimestamp"]);
    ago(stamp, now).unwrap_or_else(|| first(event, now))
}

fn count(event: &Value) -> i64 {
    if event["series"].is_object() {
        return int(&event["series"]["count"]);
    }
    match int(either(event, ["count", "deprecatedCount"])) {
        0 => 1,
        count => count,
    }
}

fn about(event: &Value) -> String {
    let object = either(event, ["involvedObject", "regarding"]);
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    match object["name"].as_str().unwrap_or_default() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let source = either(event, ["source", "deprecatedSource"]);
    let component = source["component"].as_str().filter(|text| !text.is_empty());
    let reporting = either(event, ["reportingComponent", "reportingController"]);
    let component = component.or_else(|| reporting.as_str()).unwrap_or_default();
    let host = source["host"].as_str().filter(|text| !text.is_empty());
    match host.or_else(|| event["reportingInstance"].as_str()).unwrap_or_default() {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

fn message(event: &Value) -> String {
    either(event, ["message", "note"]).as_str().unwrap_or_default().trim().to_owned()
}
