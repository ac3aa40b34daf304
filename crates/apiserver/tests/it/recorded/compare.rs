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
    for (name, wanted) in exchange["reply_headers"].as_object().expect("headers") {
        let found = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let found: Value = found.collect::<Vec<_>>().into();
        if !fits(wanted, &found) {
            places.push(format!("headers.{name}: {wanted} here {found}"));
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

fn below(at: &str, wanted: &Value, found: &Value, places: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, value) in wanted {
                match found.get(key) {
                    Some(found) => below(&format!("{at}.{key}"), value, found, places),
                    None => places.push(format!("{at}.{key}: {value} here absent")),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
                places.push(format!("{at}.{key}: absent here {value}"));
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                below(&format!("{at}[{index}]"), wanted, found, places);
            }
        }
        _ if fits(wanted, found) => {}
        _ => places.push(format!("{at}: {wanted} here {found}")),
    }
}

fn fits(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::String(wanted), Value::Number(_)) => wanted == "<port>",
        (Value::String(wanted), Value::String(found)) => text_fits(wanted, found),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| fits(wanted, found))
        }
        _ => wanted == found,
    }
}

/// A placeholder matches one or more characters without white space.
fn text_fits(wanted: &str, found: &str) -> bool {
    let next = PLACEHOLDERS.iter().filter_map(|name| Some((wanted.find(name)?, name.len()))).min();
    let Some((at, length)) = next else { return wanted == found };
    let (head, tail) = (&wanted[..at], &wanted[at + length..]);
    let Some(rest) = found.strip_prefix(head) else { return false };
    let longest = rest.find(char::is_whitespace).unwrap_or(rest.len());
    (1..=longest).rev().any(|end| rest.is_char_boundary(end) && text_fits(tail, &rest[end..]))
}
