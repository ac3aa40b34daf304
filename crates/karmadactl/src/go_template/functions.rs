//! The functions of Go templates, and kubectl's `exists` and `base64decode`.

use std::cmp::Ordering;

use apimachinery::go_json::shortest;
use apimachinery::url;
use base64::Engine as _;
use serde_json::{Value, json};

use super::eval::Found;

const KNOWN: [&str; 21] = [
    "and",
    "base64decode",
    "call",
    "eq",
    "exists",
    "ge",
    "gt",
    "html",
    "index",
    "js",
    "le",
    "len",
    "lt",
    "ne",
    "not",
    "or",
    "print",
    "printf",
    "println",
    "slice",
    "urlquery",
];

pub fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// # Errors
/// In Go's words.
pub fn call(name: &str, arguments: Vec<Found>) -> Result<Found, String> {
    let failed = |why: String| format!("error calling {name}: {why}");
    let values = || arguments.iter().map(|found| found.value().clone()).collect::<Vec<_>>();
    let few = || Err(format!("wrong number of args for {name}: got {}", arguments.len()));
    let found = match name {
        "and" | "or" => return arguments.last().cloned().map_or_else(few, Ok),
        "not" => match arguments.as_slice() {
            [one] => json!(!one.is_true()),
            _ => return few(),
        },
        "eq" => match arguments.as_slice() {
            [] | [_] => return few(),
            [first, others @ ..] => {
                let mut equal = false;
                for other in others {
                    // Go stops at the first equal one.
                    equal = equal || same(first.value(), other.value()).map_err(|why| failed(why.into()))?;
                }
                json!(equal)
            }
        },
        "ne" | "lt" | "le" | "gt" | "ge" => match arguments.as_slice() {
            [a, b] => json!(compared(name, a.value(), b.value()).map_err(failed)?),
            _ => return few(),
        },
        "index" => return index(&values()).map_err(failed),
        "exists" => json!(exists(&values())),
        "len" => match arguments.as_slice() {
            [one] => json!(length(one.value()).map_err(failed)?),
            _ => return few(),
        },
        "slice" => slice(&values()).map_err(failed)?,
        "print" => json!(print(&arguments)),
        "println" => json!(format!("{}\n", arguments.iter().map(printed).collect::<Vec<_>>().join(" "))),
        "printf" => json!(formatted(&values()).map_err(failed)?),
        "html" => json!(html(&print(&arguments))),
        "js" => json!(js(&print(&arguments))),
        "urlquery" => json!(url_query(&print(&arguments))),
        "base64decode" => json!(decoded(&print(&arguments)).map_err(failed)?),
        _ => return Err(failed("not supported".into())),
    };
    Ok(Found::Value(found))
}

/// As `{{x}}` prints it.
pub fn printed(found: &Found) -> String {
    match found {
        Found::Missing => "<no value>".into(),
        // Go prints an absent value of a document so, too.
        Found::Value(Value::Null) => "<no value>".into(),
        Found::Value(value) => text(value),
    }
}

/// `%v`
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(value) => value.to_string(),
        // Numbers of documents are floats in Go.
        Value::Number(number) => shortest(number.as_f64().unwrap_or_default()),
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
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Spaces between operands when neither is a text.
fn print(arguments: &[Found]) -> String {
    let mut out = String::new();
    let mut before_is_text = true;
    for (position, argument) in arguments.iter().enumerate() {
        let is_text = argument.value().is_string();
        if position > 0 && !is_text && !before_is_text {
            out.push(' ');
        }
        out.push_str(&printed(argument));
        before_is_text = is_text;
    }
    out
}

/// # Errors
/// If the values are of different types; an absent one is comparable to all.
fn same(a: &Value, b: &Value) -> Result<bool, &'static str> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Ok(a.as_f64() == b.as_f64()),
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
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
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

fn position(value: &Value) -> Result<usize, String> {
    let number = value.as_f64().ok_or_else(|| format!("cannot index slice/array with type {}", type_name(value)))?;
    if number < 0.0 { Err(format!("index out of range: {number}")) } else { Ok(number as usize) }
}

fn index(values: &[Value]) -> Result<Found, String> {
    let Some((first, keys)) = values.split_first() else { return Err("index of untyped nil".into()) };
    let mut found = first;
    for key in keys {
        found = match (found, key) {
            (Value::Array(items), key) => {
                let at = position(key)?;
                items.get(at).ok_or_else(|| format!("index out of range: {at}"))?
            }
            (Value::Object(map), Value::String(key)) => match map.get(key) {
                Some(value) => value,
                None => return Ok(Found::Missing),
            },
            (Value::Null, _) => return Err("index of untyped nil".into()),
            (other, _) => return Err(format!("can't index item of type {}", type_name(other))),
        };
    }
    Ok(Found::Value(found.clone()))
}

fn exists(values: &[Value]) -> bool {
    matches!(index(values), Ok(Found::Value(value)) if !value.is_null())
}

fn length(value: &Value) -> Result<usize, String> {
    match value {
        Value::String(text) => Ok(text.len()),
        Value::Array(items) => Ok(items.len()),
        Value::Object(map) => Ok(map.len()),
        Value::Null => Err("len of nil pointer".into()),
        other => Err(format!("len of type {}", type_name(other))),
    }
}

fn slice(values: &[Value]) -> Result<Value, String> {
    let (Some(value), bounds) = (values.first(), values.get(1..).unwrap_or_default()) else {
        return Err("slice of untyped nil".into());
    };
    let length = length(value)?;
    let start = bounds.first().map(position).transpose()?.unwrap_or(0);
    let end = bounds.get(1).map(position).transpose()?.unwrap_or(length);
    if start > end || end > length {
        return Err(format!("index out of range: {}", if start > end { start } else { end }));
    }
    match value {
        Value::String(text) => {
            text.get(start..end).map(|part| json!(part)).ok_or_else(|| "slice within a character".to_owned())
        }
        Value::Array(items) => Ok(json!(&items[start..end])),
        other => Err(format!("can't slice item of type {}", type_name(other))),
    }
}

/// `%s`, `%v`, `%d`, `%q`, `%t`, `%f`, `%%`, with widths and precision.
fn formatted(values: &[Value]) -> Result<String, String> {
    let Some((Value::String(format), arguments)) = values.split_first() else {
        return Err("wrong type for value; expected string".into());
    };
    let mut arguments = arguments.iter();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = chars.next_if(|c| matches!(c, '-' | '+' | '#' | ' ' | '.') || c.is_ascii_digit()) {
            flags.push(flag);
        }
        let Some(verb) = chars.next() else {
            out.push_str("%!(NOVERB)");
            break;
        };
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = arguments.next() else {
            out.push_str(&format!("%!{verb}(MISSING)"));
            continue;
        };
        out.push_str(&padded(&one(verb, &flags, value), &flags));
    }
    Ok(out)
}

fn one(verb: char, flags: &str, value: &Value) -> String {
    let precision = flags.split_once('.').and_then(|(_, digits)| digits.parse::<usize>().ok());
    let number = value.as_f64();
    match (verb, value, number) {
        ('d', _, Some(number)) => format!("{number:.0}"),
        ('f', _, Some(number)) => format!("{number:.*}", precision.unwrap_or(6)),
        ('q', Value::String(text), _) => apimachinery::field::go_quoted(text),
        ('v', ..) => text(value),
        ('s', Value::String(text), _) => match precision {
            Some(length) => text.chars().take(length).collect(),
            None => text.clone(),
        },
        ('t', Value::Bool(value), _) => value.to_string(),
        (verb, value, _) => format!("%!{verb}({}={})", type_name(value), text(value)),
    }
}

/// The widest a format may pad.
const MAX_WIDTH: usize = 4096;

fn padded(text: &str, flags: &str) -> String {
    let digits = flags.split('.').next().unwrap_or_default();
    let width = digits.trim_start_matches(['-', '+', '#', ' ', '0']).parse::<usize>().unwrap_or(0).min(MAX_WIDTH);
    if flags.starts_with('-') { format!("{text:<width$}") } else { format!("{text:>width$}") }
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

fn decoded(text: &str) -> Result<String, String> {
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
