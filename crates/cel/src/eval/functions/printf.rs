//! `string.format(list)`.

use std::fmt::Write;

use super::Outcome;
use super::text::{display, go_double};
use crate::budget::{EvalError, Meter};
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::value::Value;

/// The maximum precision.
const MAX_PRECISION: usize = 1_000;

pub fn format<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(pattern), Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.text(pattern.len())?;
    let mut out = String::new();
    let mut next = 0;
    let mut rest: &str = pattern;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision(rest)?;
        let clause = after.chars().next().ok_or_else(|| EvalError::failed("unexpected end of string"))?;
        rest = &after[clause.len_utf8()..];
        let value = list.get(next)?.ok_or_else(|| EvalError::failed(format!("index {next} out of range")))?;
        next += 1;
        let before = out.len();
        clause_text(clause, precision, &value, &mut out, on.meter)?;
        on.meter.text(out.len() - before)?;
        on.meter.allocate(out.len() - before)?;
    }
    out.push_str(rest);
    on.meter.allocate(pattern.len())?;
    Ok(Value::string(out))
}

fn precision(text: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(digits) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits[..end].parse::<usize>().ok().filter(|number| *number <= MAX_PRECISION);
    let number = number.ok_or_else(|| EvalError::failed("error while parsing formatting clause: invalid precision"))?;
    Ok((Some(number), &digits[end..]))
}

fn clause_text(
    clause: char,
    precision: Option<usize>,
    value: &Value<'_>,
    out: &mut String,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    let refuse = |what: &str| {
        let type_ = value.type_name();
        Err(EvalError::failed(format!("error during formatting: {what}, was given {type_}")))
    };
    // Writing to a String cannot fail.
    let _ = match (clause, value) {
        ('s', value) => return any(value, out, meter, true),
        ('d', Value::Int(number)) => write!(out, "{number}"),
        ('d', Value::Uint(number)) => write!(out, "{number}"),
        ('d', Value::Double(number)) if !number.is_finite() => write!(out, "{}", special(*number)),
        ('d', _) => return refuse("decimal clause can only be used on integers"),
        ('f' | 'e', Value::Double(number)) if !number.is_finite() => write!(out, "{}", special(*number)),
        ('f', value) => match double(value) {
            Some(number) => write!(out, "{number:.*}", precision.unwrap_or(6)),
            None => return refuse("fixed-point clause can only be used on doubles"),
        },
        ('e', value) => match double(value) {
            Some(number) => {
                let text = format!("{number:.*e}", precision.unwrap_or(6));
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let power: i32 = exponent.parse().unwrap_or(0);
                write!(out, "{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
            }
            None => return refuse("scientific clause can only be used on doubles"),
        },
        ('b', Value::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('b', Value::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        ('b', Value::Uint(number)) => write!(out, "{number:b}"),
        ('b', _) => return refuse("only integers and bools can be formatted as binary"),
        ('o', Value::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        ('o', Value::Uint(number)) => write!(out, "{number:o}"),
        ('o', _) => return refuse("octal clause can only be used on integers"),
        ('x', Value::Int(number)) => write!(out, "{}{:x}", sign(*number), number.unsigned_abs()),
        ('X', Value::Int(number)) => write!(out, "{}{:X}", sign(*number), number.unsigned_abs()),
        ('x', Value::Uint(number)) => write!(out, "{number:x}"),
        ('X', Value::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', Value::String(text)) => return hex(text.as_bytes(), clause, out, meter),
        ('x' | 'X', Value::Bytes(data)) => return hex(data, clause, out, meter),
        ('x' | 'X', _) => return refuse("only integers, byte buffers, and strings can be formatted as hex"),
        (other, _) => {
            return Err(EvalError::failed(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{other}\""
            )));
        }
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

fn special(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Int(number) => Some(*number as f64),
        Value::Uint(number) => Some(*number as f64),
        _ => None,
    }
}

fn hex(data: &[u8], clause: char, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    meter.allocate(data.len() * 2)?;
    for byte in data {
        let _ = if clause == 'x' { write!(out, "{byte:02x}") } else { write!(out, "{byte:02X}") };
    }
    Ok(())
}

/// Any value, including the elements of lists and maps. Recursion is bounded by the depth of documents and expressions.
fn any(value: &Value<'_>, out: &mut String, meter: &mut Meter, outermost: bool) -> Result<(), EvalError> {
    meter.traverse(1)?;
    match value {
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                any(&item?, out, meter, false)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            meter.work(map.len())?;
            for (index, key) in map.keys().into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                any(&key.to_value(), out, meter, false)?;
                out.push_str(": ");
                if let Some(value) = map.get(&key)? {
                    any(&value, out, meter, false)?;
                }
            }
            out.push('}');
        }
        Value::Double(number) if !number.is_finite() => out.push_str(special(*number)),
        Value::Double(number) => out.push_str(&go_double(*number)),
        Value::String(text) => {
            meter.traverse(text.len())?;
            meter.allocate(text.len())?;
            out.push_str(text);
        }
        Value::Object(_) | Value::Optional(_) => {
            let what = if outermost { "string clause" } else { "string clause element" };
            return Err(EvalError::failed(format!(
                "error during formatting: {what} can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
                 types, durations, and timestamps, was given {}",
                value.type_name()
            )));
        }
        other => out.push_str(&display(other)?),
    }
    Ok(())
}
