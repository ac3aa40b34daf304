//! The text of one object: `Label: value`, nested by two blanks, values of neighbouring lines in one column.

use apimachinery::age::human_duration;
use apimachinery::object::ObjectTree as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::kinds::{self, Related};
use super::lines::Lines;
use crate::table::printable;

/// The limit of the JSON decoder.
const MAX_DEPTH: usize = 128;

/// Metadata fields that are printed at the top, or not at all.
const SKIPPED: [&str; 6] = ["managedFields", "name", "namespace", "labels", "annotations", "selfLink"];

/// The page; `related` is for kinds with a special page; `events` is `None` if they are not requested.
pub fn page(object: &Value, related: Option<&Related>, events: Option<&[Value]>, now: Timestamp) -> String {
    let mut lines = Lines::default();
    let has_events = match related {
        Some(related) => kinds::page(&mut lines, object, related, now),
        None => {
            fields(&mut lines, object);
            true
        }
    };
    if let Some(events) = events.filter(|_| has_events) {
        event_lines(&mut lines, events, now);
    }
    lines.render()
}

/// Every field of the object.
fn fields(lines: &mut Lines, object: &Value) {
    let metadata = &object["metadata"];
    lines.pair(0, "Name:", metadata["name"].as_str().unwrap_or_default());
    lines.pair(0, "Namespace:", metadata["namespace"].as_str().unwrap_or_default());
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    lines.pair(0, "API Version:", &shown(&object["apiVersion"]));
    lines.pair(0, "Kind:", &shown(&object["kind"]));
    let mut rest = map.clone();
    rest.remove("apiVersion");
    rest.remove("kind");
    if let Some(metadata) = rest.metadata_mut() {
        metadata.retain(|key, _| !SKIPPED.contains(&key.as_str()));
    }
    content(lines, 0, &rest);
}

fn content(lines: &mut Lines, level: usize, map: &Map<String, Value>) {
    if level > MAX_DEPTH {
        return;
    }
    for (key, value) in map {
        let label = format!("{}:", label(key));
        match value {
            Value::Object(map) => {
                lines.plain(level, &label);
                content(lines, level + 1, map);
            }
            Value::Array(items) => {
                lines.plain(level, &label);
                for item in items {
                    match item {
                        Value::Object(map) => content(lines, level + 1, map),
                        other => lines.plain(level + 1, &printed(other)),
                    }
                }
            }
            other => lines.pair(level, &label, &printed(other)),
        }
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        // Multi-line strings keep their lines, without terminal control characters.
        other => shown(other).lines().map(printable).collect::<Vec<_>>().join("\n"),
    }
}

fn shown(value: &Value) -> String {
    apimachinery::jsonpath::shown(value)
}

/// `creationTimestamp` is `Creation Timestamp`, `apiVersion` is `API Version`.
fn label(field: &str) -> String {
    const ACRONYMS: [&str; 4] = ["API", "URL", "UID", "GUID"];
    if field.chars().any(|c| !c.is_alphabetic() && c != '-') {
        return field.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let chars: Vec<char> = field.chars().collect();
    for (position, &c) in chars.iter().enumerate() {
        let before = position.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(position + 1);
        // A capital begins a word, and so does the last one of several before a small letter.
        let begins = match before {
            None => true,
            Some(before) if c == '-' || before == '-' => c != before,
            Some(before) => {
                c.is_uppercase() && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
            }
        };
        match words.last_mut().filter(|_| !begins) {
            Some(word) => word.push(c),
            None => words.push(c.to_string()),
        }
    }
    // As in kubectl, several capitals stay with the word after them: `nonResourceURLs` is `Non Resource URLs`.
    let mut merged: Vec<String> = Vec::new();
    let mut is_merged = false;
    for word in words {
        let is_word = word.starts_with(char::is_uppercase);
        let is_acronym = |it: &String| it.chars().count() > 1 && it.chars().all(char::is_uppercase);
        match merged.last_mut().filter(|last| !is_merged && is_word && is_acronym(last)) {
            Some(last) => {
                last.push_str(&word);
                is_merged = true;
            }
            None => {
                merged.push(word);
                is_merged = false;
            }
        }
    }
    let titled = merged.into_iter().map(|word| {
        let upper = word.to_uppercase();
        if ACRONYMS.contains(&upper.as_str()) {
            return upper;
        }
        let mut chars = word.chars();
        chars.next().map(|first| first.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
    });
    titled.collect::<Vec<_>>().join(" ")
}

fn event_lines(lines: &mut Lines, events: &[Value], now: Timestamp) {
    if events.is_empty() {
        return lines.pair(0, "Events:", "<none>");
    }
    lines.plain(0, "Events:");
    let row = |cells: [&str; 5]| {
        let mut row: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
        row[0] = format!("  {}", row[0]);
        row
    };
    lines.cells(row(["Type", "Reason", "Age", "From", "Message"]));
    lines.cells(row(["----", "------", "----", "----", "-------"]));
    for event in events {
        let text = |value: &Value| printable(value.as_str().unwrap_or_default());
        let source = match text(&event["source"]["component"]) {
            component if component.is_empty() => text(&event["reportingComponent"]),
            component => component,
        };
        let cells = [
            &*text(&event["type"]),
            &*text(&event["reason"]),
            &*age(event, now),
            &*source,
            &*printable(event["message"].as_str().unwrap_or_default().trim()),
        ];
        lines.cells(row(cells));
    }
}

/// `5s`, or `5s (x3 over 2m)` of an event that happened several times.
fn age(event: &Value, now: Timestamp) -> String {
    let since = |value: &Value| {
        let at: Timestamp = value.as_str()?.parse().ok()?;
        Some(human_duration(now.as_second() - at.as_second()))
    };
    let first = since(&event["firstTimestamp"]).or_else(|| since(&event["eventTime"]));
    let last = since(&event["lastTimestamp"]).or_else(|| first.clone()).unwrap_or_else(|| "<unknown>".into());
    match (event["count"].as_i64().filter(|count| *count > 1), first) {
        (Some(count), Some(first)) => format!("{last} (x{count} over {first})"),
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn field_names_are_split_into_words() {
        for (field, expected) in [
            ("creationTimestamp", "Creation Timestamp"),
            ("apiVersion", "API Version"),
            ("uid", "UID"),
            ("clusterIPs", "Cluster I Ps"),
            ("podCIDR", "Pod CIDR"),
            ("nonResourceURLs", "Non Resource URLs"),
            ("externalURLPath", "External URLPath"),
            ("app.kubernetes.io/name", "app.kubernetes.io/name"),
            ("type", "Type"),
        ] {
            assert_eq!(label(field), expected);
        }
    }

    #[test]
    fn objects_read_as_kubectl_describes_custom_resources() {
        let object = json!({"apiVersion": "a.io/v1", "kind": "Thing", "metadata": {"name": "x", "namespace": "n",
            "labels": {"a": "1", "b": "2"}, "uid": "u", "generation": 1},
            "spec": {"names": ["m1", "m2"], "rules": [{"apiVersion": "v1", "n": 2}], "priority": 0}});
        let event = json!({"type": "Normal", "reason": "Done", "count": 3, "message": "it is\n",
            "source": {"component": "c"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z"});
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().expect("a time");
        expect![[r#"
            Name:         x
            Namespace:    n
            Labels:       a=1
                          b=2
            Annotations:  <none>
            API Version:  a.io/v1
            Kind:         Thing
            Metadata:
              Generation:  1
              UID:         u
            Spec:
              Names:
                m1
                m2
              Priority:  0
              Rules:
                API Version:  v1
                N:            2
            Events:
              Type    Reason  Age               From  Message
              ----    ------  ----              ----  -------
              Normal  Done    60s (x3 over 2m)  c     it is
        "#]]
        .assert_eq(&page(&object, None, Some(&[event]), now));
    }
}
