//! The differences between a recorded response and one of this server.

use http::HeaderMap;
use serde_json::Value;

/// Represent values that differ between two runs.
const PLACEHOLDERS: [&str; 11] =
    ["<uid>", "<time>", "<rv>", "<ip>", "<jwt>", "<port>", "<host>", "<continue>", "<ca>", "<n>", "<binary bytes>"];

/// The places that differ, with both values.
pub(super) fn reply(exchange: &Value, code: u16, headers: &HeaderMap, body: &Value) -> Vec<String> {
    let mut places = Vec::new();
    if exchange["status"] != code {
        places.push(format!("status: {} here {code}", exchange["status"]));
    }
    for (name, expected) in exchange["reply_headers"].as_object().expect("headers") {
        let found = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let found: Value = found.collect::<Vec<_>>().into();
        if !fits(expected, &found) {
            places.push(format!("headers.{name}: {expected} here {found}"));
        }
    }
    for name in ["warning", "retry-after", "location"] {
        if exchange["reply_headers"][name].is_null()
            && let Some(value) = headers.get(name)
        {
            places.push(format!("headers.{name}: none here {value:?}"));
        }
    }
    below("body", &exchange["reply"], body, &mut places);
    places
}

fn below(at: &str, expected: &Value, found: &Value, places: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                match found.get(key) {
                    Some(found) => below(&format!("{at}.{key}"), value, found, places),
                    None => places.push(format!("{at}.{key}: {value} here absent")),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                places.push(format!("{at}.{key}: absent here {value}"));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                below(&format!("{at}[{index}]"), expected, found, places);
            }
        }
        _ if fits(expected, found) => {}
        _ => places.push(format!("{at}: {expected} here {found}")),
    }
}

fn fits(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(expected), Value::Number(_)) => expected == "<port>",
        (Value::String(expected), Value::String(found)) => text_fits(expected, found),
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len() && expected.iter().zip(found).all(|(expected, found)| fits(expected, found))
        }
        _ => expected == found,
    }
}

/// A placeholder matches one or more characters without white space.
fn text_fits(expected: &str, found: &str) -> bool {
    let next = PLACEHOLDERS.iter().filter_map(|name| Some((expected.find(name)?, name.len()))).min();
    let Some((at, length)) = next else { return expected == found };
    let (head, tail) = (&expected[..at], &expected[at + length..]);
    let Some(rest) = found.strip_prefix(head) else { return false };
    let longest = rest.find(char::is_whitespace).unwrap_or(rest.len());
    (1..=longest).rev().any(|end| rest.is_char_boundary(end) && text_fits(tail, &rest[end..]))
}
