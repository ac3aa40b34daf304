//! String functions. Positions are counted in characters.

use std::rc::Rc;

use super::Outcome;
use crate::budget::EvalError;
use crate::compare::equal;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::opaque::Opaque;
use crate::times;
use crate::value::{ELEMENT, List, Value};

pub(crate) fn bytes_value(data: &[u8]) -> Value<'static> {
    Value::Bytes(Rc::from(data))
}

/// A scalar as `string()` converts it.
pub(crate) fn display(value: &Value<'_>) -> Result<String, EvalError> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => go_double(*number),
        Value::String(text) => text.to_string(),
        Value::Bytes(data) => match std::str::from_utf8(data) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(nanos) => times::print_duration(*nanos),
        Value::Type(name) => name.to_string(),
        Value::Opaque(opaque) => match &**opaque {
            Opaque::Ip(ip) => ip.to_string(),
            Opaque::Cidr(cidr) => cidr.to_string(),
            Opaque::Quantity(quantity) => quantity.to_string(),
            _ => return Err(EvalError::NoSuchOverload),
        },
        Value::List(_) | Value::Map(_) | Value::Object(_) | Value::Optional(_) => {
            return Err(EvalError::NoSuchOverload);
        }
    })
}

/// The shortest text of a double, with an exponent where Go's `%g` uses one.
pub(crate) fn go_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..6).contains(&power) {
        return number.to_string();
    }
    format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
}

fn at_most(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn out_of_range<'a>(index: i64) -> Outcome<'a> {
    Err(EvalError::failed(format!("index out of range: {index}")))
}

/// The byte offset of a character; the end for the number of characters.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

pub fn test<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(part)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Bool(match &*call.name {
        "startsWith" => {
            on.meter.text(part.len())?;
            text.starts_with(&**part)
        }
        "endsWith" => {
            on.meter.text(part.len())?;
            text.ends_with(&**part)
        }
        _ => {
            // As upstream: the product, although the search here is linear.
            let cost = (text.len() as u64).div_ceil(10).saturating_mul((part.len() as u64).div_ceil(10));
            on.meter.charge(cost.max(1))?;
            text.contains(&**part)
        }
    }))
}

pub fn regex<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let cost = (text.len() as u64 + 1).div_ceil(10).saturating_mul((pattern.len() as u64).div_ceil(4).max(1));
    on.meter.charge(cost)?;
    let regex = on.pattern(call, pattern)?;
    // In the worst case each byte visits each state; patterns of this kind are short.
    on.meter.work(text.len().saturating_mul(regex.states()) / 16)?;
    match &*call.name {
        "matches" => Ok(Value::Bool(regex.is_match(text))),
        "find" => {
            let found = regex.find(text).map_or("", |found| found.as_str());
            on.meter.allocate(found.len())?;
            Ok(Value::string(found))
        }
        _ => {
            let limit = if limit < 0 { usize::MAX } else { at_most(limit) };
            let mut items = Vec::new();
            for found in regex.find_iter(text).take(limit) {
                on.meter.allocate(found.len() + ELEMENT)?;
                items.push(Value::string(found.as_str()));
            }
            Ok(Value::list(items))
        }
    }
}

pub fn char_at<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.text(text.len())?;
    match byte_at(text, *index) {
        Some(at) => Ok(Value::string(text[at..].chars().next().map(String::from).unwrap_or_default())),
        None => out_of_range(*index),
    }
}

/// The position of a substring, or of an item in a list.
pub fn index_of<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let last = &*call.name == "lastIndexOf";
    let (text, part, from) = match args {
        [Value::List(list), item] => return index_in_list(on, list, item, last),
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return Err(EvalError::NoSuchOverload),
    };
    on.meter.text(text.len() + part.len())?;
    let start = match from {
        None if last => text.len(),
        None => 0,
        Some(from) if part.is_empty() => return Ok(Value::Int(from)),
        Some(from) => match byte_at(text, from) {
            Some(at) if at < text.len() => at,
            None if from < 0 => return out_of_range(from),
            _ => return Ok(Value::Int(-1)),
        },
    };
    let found = if last {
        // The match may start at `start` and extend beyond it.
        let end = text.floor_char_boundary(start + part.len());
        text[..end].rfind(&**part)
    } else {
        text[start..].find(&**part).map(|at| at + start)
    };
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn index_in_list<'a>(on: &mut Evaluation<'a, '_>, list: &List<'a>, item: &Value<'a>, last: bool) -> Outcome<'a> {
    on.meter.charge(list.len().max(1) as u64)?;
    let mut found = -1;
    for (index, other) in list.iter().enumerate() {
        if equal(&other?, item, on.meter)? {
            found = index as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

pub fn change<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.text(text.len())?;
    on.meter.allocate(text.len() * 2)?;
    Ok(Value::string(match &*call.name {
        "lowerAscii" => text.to_ascii_lowercase(),
        "upperAscii" => text.to_ascii_uppercase(),
        "trim" => text.trim().to_owned(),
        "jsonpatch.escapeKey" => text.replace('~', "~0").replace('/', "~1"),
        _ => quote(text),
    }))
}

pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub fn reverse<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => {
            on.meter.text(text.len())?;
            on.meter.allocate(text.len())?;
            Ok(Value::string(text.chars().rev().collect::<String>()))
        }
        [Value::List(list)] => {
            on.meter.charge(list.len().max(1) as u64)?;
            on.meter.allocate(list.len() * ELEMENT)?;
            let mut items = list.iter().collect::<Result<Vec<_>, _>>()?;
            items.reverse();
            Ok(Value::list(items))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub fn replace<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => (text, old, new, *limit),
        _ => return Err(EvalError::NoSuchOverload),
    };
    on.meter.text(text.len())?;
    let limit = if limit < 0 { usize::MAX } else { at_most(limit) };
    // An empty substring occurs before every character and at the end.
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(&**old).count() };
    let count = found.min(limit);
    let size = text.len().saturating_add(count.saturating_mul(new.len()));
    on.meter.text(size)?;
    on.meter.allocate(size)?;
    Ok(Value::string(text.replacen(&**old, new, count)))
}

pub fn split<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(EvalError::NoSuchOverload),
    };
    on.meter.text(text.len())?;
    let limit = if limit < 0 { usize::MAX } else { at_most(limit) };
    let mut items = Vec::new();
    let mut add = |on: &mut Evaluation<'a, '_>, piece: &str| {
        on.meter.allocate(piece.len() + ELEMENT)?;
        items.push(Value::string(piece));
        Ok::<(), EvalError>(())
    };
    if separator.is_empty() {
        // One piece for each character; the last one takes the rest.
        let mut rest: &str = text;
        for taken in 1..=limit {
            let Some(c) = rest.chars().next() else { break };
            let width = if taken == limit { rest.len() } else { c.len_utf8() };
            add(on, &rest[..width])?;
            rest = &rest[width..];
        }
    } else if limit > 0 {
        for piece in text.splitn(limit, &**separator) {
            add(on, piece)?;
        }
    }
    Ok(Value::list(items))
}

pub fn join<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(EvalError::NoSuchOverload),
    };
    on.meter.charge(1)?;
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(text) = item? else { return Err(EvalError::NoSuchOverload) };
        on.meter.text(text.len() + separator.len())?;
        on.meter.allocate(text.len() + separator.len())?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&text);
    }
    Ok(Value::string(out))
}

pub fn substring<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::NoSuchOverload),
    };
    on.meter.text(text.len())?;
    on.meter.allocate(text.len())?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let Some(from) = byte_at(text, start) else { return out_of_range(start) };
    let to = match end {
        None => text.len(),
        Some(end) => match byte_at(text, end) {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    Ok(Value::string(text.get(from..to).unwrap_or_default()))
}
