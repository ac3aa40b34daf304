//! The functions of Go templates, and kubectl's `exists` and `base64decode`.

use std::cmp::Ordering;

use apimachinery::go_json::shortest;
use apimachinery::url;
use base64::Engine as _;
use serde_json::{Value, json};

use super::eval::Found;
use super::format::formatted;

/// The functions with the least number of their arguments, and whether they take more.
const KNOWN: [(&str, usize, bool); 21] = [
    ("and", 1, true),
    ("base64decode", 1, false),
    ("call", 1, true),
    ("eq", 1, true),
    ("exists", 1, true),
    ("ge", 2, false),
    ("gt", 2, false),
    ("html", 0, true),
    ("index", 1, true),
    ("js", 0, true),
    ("le", 2, false),
    ("len", 1, false),
    ("lt", 2, false),
    ("ne", 2, false),
    ("not", 1, false),
    ("or", 1, true),
    ("print", 0, true),
    ("printf", 1, true),
    ("println", 0, true),
    ("slice", 1, true),
    ("urlquery", 0, true),
];

/// The least number of arguments, and whether there may be more; `None` for an unknown function.
pub fn arity(name: &str) -> Option<(usize, bool)> {
    KNOWN.iter().find(|(known, ..)| *known == name).map(|(_, least, variadic)| (*least, *variadic))
}

/// Whether the first argument must be a text.
pub fn takes_text(name: &str) -> bool {
    matches!(name, "printf" | "base64decode")
}

/// Calls a function with as many arguments as it takes.
///
/// # Errors
/// In Go's words; of `call`, the type of its argument.
pub fn call<'v>(name: &str, arguments: Vec<Found<'v>>) -> Result<Found<'v>, String> {
    let Some(first) = arguments.first() else {
        return Ok(Found::owned(json!(if name == "println" { "\n" } else { "" })));
    };
    let found = match (name, &arguments[..]) {
        ("and" | "or", [.., last]) => return Ok(last.clone()),
        ("index", [_, keys @ ..]) => return index(first, keys),
        ("exists", [_, keys @ ..]) => {
            json!(index(first, keys).is_ok_and(|found| !found.value().is_null()))
        }
        ("not", _) => json!(!first.is_true()),
        ("eq", [_]) => return Err("missing argument for comparison".into()),
        ("eq", [_, others @ ..]) => {
            let mut equal = false;
            for other in others {
                // Go stops at the first equal one.
                equal = equal || same(first.value(), other.value())?;
            }
            json!(equal)
        }
        ("ne" | "lt" | "le" | "gt" | "ge", [a, b]) => json!(compared(name, a.value(), b.value())?),
        ("len", _) => json!(length(first)?),
        ("slice", [_, bounds @ ..]) => slice(first.value(), bounds)?,
        ("print", _) => json!(print(&arguments)),
        ("println", _) => {
            json!(format!("{}\n", arguments.iter().map(|it| text(it.value())).collect::<Vec<_>>().join(" ")))
        }
        ("printf", [_, rest @ ..]) => {
            json!(formatted(
                first.value().as_str().unwrap_or_default(),
                &rest.iter().map(Found::value).collect::<Vec<_>>()
            ))
        }
        ("html", _) => json!(html(&print(&arguments))),
        ("js", _) => json!(js(&print(&arguments))),
        ("urlquery", _) => json!(url_query(&print(&arguments))),
        ("base64decode", _) => json!(decoded(first.value().as_str().unwrap_or_default())?),
        _ => return Err(type_name(first.value()).to_owned()),
    };
    Ok(Found::owned(found))
}

/// As `{{x}}` prints it.
pub fn printed(found: &Found<'_>) -> String {
    match found.value() {
        // Go prints an absent value of a document so, too.
        Value::Null => "<no value>".into(),
        value => text(value),
    }
}

/// `%v`
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) if number.is_f64() => shortest(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", text(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Spaces between operands when neither is a text.
fn print(arguments: &[Found<'_>]) -> String {
    let mut out = String::new();
    let mut before_is_text = true;
    for (position, argument) in arguments.iter().enumerate() {
        let is_text = argument.value().is_string();
        if position > 0 && !is_text && !before_is_text {
            out.push(' ');
        }
        out.push_str(&text(argument.value()));
        before_is_text = is_text;
    }
    out
}

/// # Errors
/// If the values are of different types; an absent one is comparable to all.
fn same(a: &Value, b: &Value) -> Result<bool, &'static str> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => Ok(a == b),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => {
            Err("non-comparable types")
        }
        (Value::String(_), Value::String(_)) | (Value::Bool(_), Value::Bool(_)) => Ok(a == b),
        (Value::Null, _) | (_, Value::Null) => Ok(a == b),
        _ => Err("incompatible types for comparison"),
    }
}

fn compared(name: &str, a: &Value, b: &Value) -> Result<bool, String> {
    if name == "ne" {
        return Ok(!same(a, b)?);
    }
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::Bool(_), Value::Bool(_)) => return Err("invalid type for comparison".into()),
        (Value::Array(_) | Value::Object(_) | Value::Null, _) => return Err("invalid type for comparison".into()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => return Err("incompatible types for comparison".into()),
    };
    let order = order.ok_or("incompatible types for comparison")?;
    Ok(match name {
        "lt" => order == Ordering::Less,
        "le" => order != Ordering::Greater,
        "gt" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

/// An index, which for a slice may be the length.
fn position(key: &Found<'_>, most: usize) -> Result<usize, String> {
    match key.value() {
        Value::Number(number) if !number.is_f64() => {
            let at = number.as_i64().and_then(|number| usize::try_from(number).ok()).filter(|at| *at <= most);
            at.ok_or_else(|| format!("index out of range: {number}"))
        }
        Value::Null => Err("cannot index slice/array with nil".into()),
        other => Err(format!("cannot index slice/array with type {}", type_name(other))),
    }
}

fn index<'v>(first: &Found<'v>, keys: &[Found<'v>]) -> Result<Found<'v>, String> {
    if first.value().is_null() {
        return Err("index of untyped nil".into());
    }
    let mut found = first.clone();
    for key in keys {
        found = match (found.value(), key.value()) {
            (Value::Array(items), _) => {
                let at = position(key, items.len().saturating_sub(1))?;
                if items.is_empty() {
                    return Err(format!("index out of range: {at}"));
                }
                found.below(|items| items.get(at)).unwrap_or(Found::Missing)
            }
            (Value::Object(_), Value::String(key)) => found.below(|map| map.get(key)).unwrap_or(Found::Missing),
            (Value::Object(_), Value::Null) => return Err("value is nil; should be of type string".into()),
            (Value::Object(_), other) => {
                let type_ = if other.is_i64() { "int" } else { type_name(other) };
                return Err(format!("value has type {type_}; should be string"));
            }
            (Value::String(text), _) => {
                let at = position(key, text.len().saturating_sub(1))?;
                let byte = text.as_bytes().get(at).ok_or_else(|| format!("index out of range: {at}"))?;
                Found::owned(json!(byte))
            }
            (Value::Null, _) => return Err("index of nil pointer".into()),
            (other, _) => return Err(format!("can't index item of type {}", type_name(other))),
        };
    }
    Ok(found)
}

fn length(found: &Found<'_>) -> Result<usize, String> {
    match found.value() {
        Value::String(text) => Ok(text.len()),
        Value::Array(items) => Ok(items.len()),
        Value::Object(map) => Ok(map.len()),
        Value::Null => Err("reflect: call of reflect.Value.Type on zero Value".into()),
        other => Err(format!("len of type {}", type_name(other))),
    }
}

fn slice(value: &Value, bounds: &[Found<'_>]) -> Result<Value, String> {
    let length = match value {
        Value::Null => return Err("slice of untyped nil".into()),
        Value::String(_) if bounds.len() > 2 => return Err("cannot 3-index slice a string".into()),
        _ if bounds.len() > 3 => return Err(format!("too many slice indexes: {}", bounds.len())),
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        other => return Err(format!("can't slice item of type {}", type_name(other))),
    };
    let start = bounds.first().map_or(Ok(0), |bound| position(bound, length))?;
    let end = bounds.get(1).map_or(Ok(length), |bound| position(bound, length))?;
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}"));
    }
    Ok(match value {
        Value::String(text) => json!(String::from_utf8_lossy(&text.as_bytes()[start..end])),
        Value::Array(items) => json!(&items[start..end]),
        _ => Value::Null,
    })
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => out.extend(['\\', c]),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

fn url_query(text: &str) -> String {
    url::query_value(text).to_string().replace("%20", "+")
}

/// # Errors
/// Naming the first byte that is not base64.
fn decoded(text: &str) -> Result<String, String> {
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
        };
        format!("base64 decode failed: illegal base64 data at input byte {at}")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
