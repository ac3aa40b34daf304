//! `string.format(list)`, as version 2 of cel-go's strings library: items of lists and maps are printed as literals of the
//! language, and floating-point numbers as American English writes them.

use std::fmt::Write;

use apimachinery::field::go_quoted;

use super::Outcome;
use super::text::display;
use crate::budget::{EvalError, Meter};
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::value::Value;

/// The maximum precision.
const MAX_PRECISION: usize = 1_000;

/// The digits after the point without a precision.
const DEFAULT_PRECISION: usize = 6;

/// A part of a format string.
pub(crate) enum Piece<'p> {
    Text(&'p str),
    Clause { index: usize, letter: char, precision: Option<usize> },
}

/// Calls `take` for each part of a format string that has this number of arguments.
pub(crate) fn pieces<'p>(
    pattern: &'p str,
    arguments: usize,
    mut take: impl FnMut(Piece<'p>) -> Result<(), EvalError>,
) -> Result<usize, EvalError> {
    let (mut index, mut rest) = (0, pattern);
    while let Some(at) = rest.find('%') {
        take(Piece::Text(&rest[..at]))?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            take(Piece::Text("%"))?;
            rest = after;
            continue;
        }
        if index >= arguments {
            return Err(EvalError::failed(format!("index {index} out of range")));
        }
        if rest.is_empty() {
            return Err(EvalError::failed("unexpected end of string"));
        }
        let unreadable = |why: String| EvalError::failed(format!("could not parse formatting clause: {why}"));
        let (precision, after) = precision(rest).map_err(unreadable)?;
        let letter = after.chars().next().unwrap_or_default();
        if !"sdfebxXo".contains(letter) {
            return Err(unreadable(format!("unrecognized formatting clause \"{letter}\"")));
        }
        rest = &after[letter.len_utf8()..];
        take(Piece::Clause { index, letter, precision })?;
        index += 1;
    }
    take(Piece::Text(rest))?;
    Ok(index)
}

fn precision(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(digits) = text.strip_prefix('.') else { return Ok((None, text)) };
    let failed = |why: &str| format!("error while parsing precision: {why}");
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let end = end.ok_or_else(|| failed("could not find end of precision specifier"))?;
    let number = digits[..end].parse::<usize>().ok().filter(|number| *number <= MAX_PRECISION);
    let number = number.ok_or_else(|| failed(&format!("{:?} is no number up to {MAX_PRECISION}", &digits[..end])))?;
    Ok((Some(number), &digits[end..]))
}

/// The error of an argument with this type.
pub(crate) fn refused(letter: char, type_name: &str) -> EvalError {
    let what = match letter {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps"
        }
    };
    EvalError::failed(format!("error during formatting: {what}, was given {type_name}"))
}

pub fn format<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(pattern), Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.text(pattern.len())?;
    let mut out = String::new();
    pieces(pattern, list.len(), |piece| {
        let (index, letter, precision) = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                return Ok(());
            }
            Piece::Clause { index, letter, precision } => (index, letter, precision),
        };
        let value = list.get(index)?.ok_or_else(|| EvalError::failed(format!("index {index} out of range")))?;
        let before = out.len();
        clause(letter, precision, &value, &mut out, on.meter)?;
        on.meter.text(out.len() - before)?;
        on.meter.allocate(out.len() - before)
    })?;
    on.meter.allocate(pattern.len())?;
    Ok(Value::string(out))
}

fn clause(
    letter: char,
    precision: Option<usize>,
    value: &Value<'_>,
    out: &mut String,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    // Writing to a String cannot fail.
    let _ = match (letter, value) {
        ('s', value) => return any(value, out, meter),
        ('d', Value::Int(number)) => write!(out, "{number}"),
        ('d', Value::Uint(number)) => write!(out, "{number}"),
        ('f' | 'e', value) => match double(value) {
            Some(number) if number.is_nan() => write!(out, "NaN"),
            Some(number) if number.is_infinite() => write!(out, "{}∞", if number < 0.0 { "-" } else { "" }),
            Some(number) if letter == 'f' => return fixed(number, precision, out, meter),
            Some(number) => return scientific(number, precision, out, meter),
            None => return Err(refused(letter, &value.type_name())),
        },
        ('b', Value::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('b', Value::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        ('b', Value::Uint(number)) => write!(out, "{number:b}"),
        ('o', Value::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        ('o', Value::Uint(number)) => write!(out, "{number:o}"),
        ('x', Value::Int(number)) => write!(out, "{}{:x}", sign(*number), number.unsigned_abs()),
        ('X', Value::Int(number)) => write!(out, "{}{:X}", sign(*number), number.unsigned_abs()),
        ('x', Value::Uint(number)) => write!(out, "{number:x}"),
        ('X', Value::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', Value::String(text)) => return hex(text.as_bytes(), letter, out, meter),
        ('x' | 'X', Value::Bytes(data)) => return hex(data, letter, out, meter),
        (_, value) => return Err(refused(letter, &value.type_name())),
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

/// A double, or the text of a special one.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// With the thousands separated by commas.
fn fixed(number: f64, precision: Option<usize>, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    let text = format!("{number:.*}", precision.unwrap_or(DEFAULT_PRECISION));
    meter.allocate(text.len())?;
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits = whole.trim_start_matches('-');
    out.push_str(&whole[..whole.len() - digits.len()]);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    Ok(())
}

/// With a power of ten in superscript digits.
fn scientific(number: f64, precision: Option<usize>, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    let text = format!("{number:.*e}", precision.unwrap_or(DEFAULT_PRECISION));
    meter.allocate(text.len())?;
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let _ = write!(out, "{digits}\u{202f}×\u{202f}10{}", if power < 0 { "⁻" } else { "" });
    let superscript = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let power = format!("{:02}", power.unsigned_abs());
    out.extend(power.bytes().filter_map(|digit| superscript.get(usize::from(digit.wrapping_sub(b'0')))));
    Ok(())
}

fn hex(data: &[u8], letter: char, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    meter.allocate(data.len() * 2)?;
    for byte in data {
        let _ = if letter == 'x' { write!(out, "{byte:02x}") } else { write!(out, "{byte:02X}") };
    }
    Ok(())
}

/// Any value but an object. Lists and maps are printed as literals.
fn any(value: &Value<'_>, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    meter.traverse(1)?;
    match value {
        Value::List(_) | Value::Map(_) => literal(value, out, meter),
        Value::String(text) => {
            meter.traverse(text.len())?;
            meter.allocate(text.len())?;
            out.push_str(text);
            Ok(())
        }
        Value::Object(_) | Value::Optional(_) | Value::Opaque(_) => Err(refused('s', &value.type_name())),
        other => {
            out.push_str(&display(other)?);
            Ok(())
        }
    }
}

/// Recursion is bounded by the depth of documents and expressions.
fn literal(value: &Value<'_>, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    meter.traverse(1)?;
    match value {
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                literal(&item?, out, meter)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            meter.work(map.len())?;
            let mut entries = Vec::with_capacity(map.len());
            for key in map.keys() {
                let (mut name, mut item) = (String::new(), String::new());
                literal(&key.to_value(), &mut name, meter)?;
                if let Some(value) = map.get(&key)? {
                    literal(&value, &mut item, meter)?;
                }
                entries.push((name, item));
            }
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let entries: Vec<String> = entries.into_iter().map(|(name, item)| format!("{name}:{item}")).collect();
            let text = entries.join(", ");
            meter.allocate(text.len())?;
            let _ = write!(out, "{{{text}}}");
        }
        Value::Double(number) if !number.is_finite() => out.push_str(&go_quoted(&display(value)?)),
        Value::Double(number) => {
            let _ = write!(out, "{number:.DEFAULT_PRECISION$}");
        }
        Value::String(text) => {
            meter.traverse(text.len())?;
            meter.allocate(text.len())?;
            out.push_str(&go_quoted(text));
        }
        Value::Bytes(_) => {
            let _ = write!(out, "b{}", go_quoted(&display(value)?));
        }
        Value::Timestamp(_) => {
            let _ = write!(out, "timestamp({})", go_quoted(&display(value)?));
        }
        Value::Duration(_) => {
            let _ = write!(out, "duration({})", go_quoted(&display(value)?));
        }
        other => return any(other, out, meter),
    }
    Ok(())
}
