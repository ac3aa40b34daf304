//! The string library: the supported part of Lua's, in bounded time. `format` has Go's verbs.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::meter::Meter;
use super::pattern::{self, Capture, Found};

/// The maximum length of arguments.
const MAX_ARGUMENT: usize = 1_000_000;
/// The maximum precision and width of `format`, as in Lua.
const MAX_WIDTH: usize = 99;

type Result<T> = mlua::Result<T>;

fn bounded(text: &LuaString) -> Result<Vec<u8>> {
    let bytes = text.as_bytes().to_vec();
    if bytes.len() > MAX_ARGUMENT {
        return Err(mlua::Error::runtime(format!("string is longer than {MAX_ARGUMENT} bytes")));
    }
    Ok(bytes)
}

/// Positions count from 1, negative ones from the end; returns an index that may be past the end.
fn index(position: i64, length: usize) -> usize {
    let length = length as i64;
    let position = if position < 0 { (length + position + 1).max(1) } else { position.max(1) };
    (position - 1) as usize
}

/// The library without `gmatch`, which the prelude implements with [`gmatch_step`].
pub fn library(lua: &Lua, meter: &Arc<Meter>) -> Result<Table> {
    let lib = lua.create_table()?;
    let m = meter.clone();
    let add = |name: &str, f: mlua::Function| lib.raw_set(name, f);
    add("len", lua.create_function(|_, s: LuaString| Ok(s.as_bytes().len()))?)?;
    add("upper", mapped(lua, &m, |s| recased(&s, |c| simple(c, c.to_uppercase())))?)?;
    add("lower", mapped(lua, &m, |s| recased(&s, |c| if c == 'İ' { 'i' } else { simple(c, c.to_lowercase()) }))?)?;
    add(
        "reverse",
        mapped(lua, &m, |mut s| {
            s.reverse();
            s
        })?,
    )?;
    add(
        "sub",
        lua.create_function({
            let m = m.clone();
            move |lua, (s, from, to): (LuaString, f64, Option<f64>)| {
                let bytes = bounded(&s)?;
                m.charge(bytes.len() as u64 / 64)?;
                lua.create_string(slice(&bytes, from as i64, to.map_or(-1, |to| to as i64)))
            }
        })?,
    )?;
    add(
        "byte",
        lua.create_function({
            let m = m.clone();
            move |_, (s, from, to): (LuaString, Option<f64>, Option<f64>)| {
                let bytes = bounded(&s)?;
                let from = from.map_or(1, |from| from as i64);
                let found = slice(&bytes, from, to.map_or(from, |to| to as i64));
                m.charge(found.len() as u64)?;
                if found.len() > 5000 {
                    return Err(mlua::Error::runtime("string slice too long"));
                }
                Ok(found.iter().map(|byte| Value::Integer(i64::from(*byte) as mlua::Integer)).collect::<MultiValue>())
            }
        })?,
    )?;
    add(
        "char",
        lua.create_function(|lua, codes: mlua::Variadic<f64>| {
            let bytes: Option<Vec<u8>> =
                codes.iter().map(|code| (0.0..256.0).contains(code).then_some(*code as u8)).collect();
            lua.create_string(bytes.ok_or_else(|| mlua::Error::runtime("bad argument to 'char' (invalid value)"))?)
        })?,
    )?;
    add(
        "find",
        lua.create_function({
            let m = m.clone();
            move |lua, (s, p, init, plain): (LuaString, LuaString, Option<f64>, Option<bool>)| {
                search(lua, &bounded(&s)?, &bounded(&p)?, init, plain.unwrap_or(false), &m)
            }
        })?,
    )?;
    add(
        "match",
        lua.create_function({
            let m = m.clone();
            move |lua, (s, p, init): (LuaString, LuaString, Option<f64>)| {
                let (text, searched) = (bounded(&s)?, bounded(&p)?);
                m.charge(text.len() as u64 / 64)?;
                let from = index(init.map_or(1, |init| init as i64), text.len()).min(text.len());
                match pattern::find(&text, &searched, from, &m)? {
                    Some(found) => captured(lua, &text, &found, true),
                    None => Ok(MultiValue::from_iter([Value::Nil])),
                }
            }
        })?,
    )?;
    add(
        "format",
        lua.create_function(move |lua, arguments: MultiValue| {
            let mut arguments = arguments.into_iter();
            let Some(Value::String(format)) = arguments.next() else {
                return Err(mlua::Error::runtime("bad argument #1 to 'format' (string expected)"));
            };
            let text = format_go(&bounded(&format)?, arguments)?;
            m.charge(text.len() as u64 / 8)?;
            lua.create_string(text)
        })?,
    )?;
    Ok(lib)
}

fn mapped(lua: &Lua, meter: &Arc<Meter>, map: fn(Vec<u8>) -> Vec<u8>) -> Result<mlua::Function> {
    let meter = meter.clone();
    lua.create_function(move |lua, s: LuaString| {
        let bytes = bounded(&s)?;
        meter.charge(bytes.len() as u64 / 8)?;
        lua.create_string(map(bytes))
    })
}

/// Maps each character as Go does: each byte that is not UTF-8 becomes U+FFFD.
fn recased(bytes: &[u8], map: fn(char) -> char) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().map(map));
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text.into_bytes()
}

/// The mapping to a single character; characters with a longer one stay.
fn simple(c: char, mut mapping: impl ExactSizeIterator<Item = char>) -> char {
    if mapping.len() == 1 { mapping.next().unwrap_or(c) } else { c }
}

fn slice(bytes: &[u8], from: i64, to: i64) -> &[u8] {
    let length = bytes.len() as i64;
    let to = if to < 0 { length + to + 1 } else { to.min(length) };
    let from = index(from, bytes.len());
    if to <= 0 { &[] } else { bytes.get(from..to as usize).unwrap_or_default() }
}

fn search(
    lua: &Lua,
    text: &[u8],
    searched: &[u8],
    init: Option<f64>,
    plain: bool,
    meter: &Meter,
) -> Result<MultiValue> {
    meter.charge(text.len() as u64 / 64)?;
    let from = index(init.map_or(1, |init| init as i64), text.len()).min(text.len());
    let found = if plain || !pattern::is_special(searched) {
        let start = pattern::find_plain(text, searched, from, meter)?;
        start.map(|start| Found { start, end: start + searched.len(), captures: Vec::new() })
    } else {
        pattern::find(text, searched, from, meter)?
    };
    let Some(found) = found else { return Ok(MultiValue::from_iter([Value::Nil])) };
    let mut values = MultiValue::from_iter([number(found.start + 1), number(found.end)]);
    values.extend(captured(lua, text, &found, false)?);
    Ok(values)
}

fn number(value: usize) -> Value {
    Value::Number(value as f64)
}

/// The captures; or the whole match if there are none and `whole` is set.
fn captured(lua: &Lua, text: &[u8], found: &Found, whole: bool) -> Result<MultiValue> {
    if found.captures.is_empty() && whole {
        return Ok(MultiValue::from_iter([Value::String(lua.create_string(&text[found.start..found.end])?)]));
    }
    let value = |capture: &Capture| match *capture {
        Capture::Text(from, to) => lua.create_string(&text[from..to]).map(Value::String),
        Capture::Position(at) => Ok(number(at)),
    };
    found.captures.iter().map(value).collect()
}

/// One step of `gmatch`: the next position (false at the end), then the captures.
pub fn gmatch_step(lua: &Lua, meter: &Arc<Meter>) -> Result<mlua::Function> {
    let meter = meter.clone();
    lua.create_function(move |lua, (s, p, at): (LuaString, LuaString, f64)| {
        let (text, searched) = (bounded(&s)?, bounded(&p)?);
        meter.charge(1 + text.len() as u64 / 64)?;
        let Some(found) = pattern::find(&text, &searched, at as usize - 1, &meter)? else {
            return Ok(MultiValue::from_iter([Value::Boolean(false)]));
        };
        // An empty match advances by one; otherwise it would repeat forever.
        let next = if found.end == found.start { found.end + 2 } else { found.end + 1 };
        let mut values = MultiValue::from_iter([number(next)]);
        values.extend(captured(lua, &text, &found, true)?);
        Ok(values)
    })
}

struct Verb {
    left: bool,
    plus: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// `fmt.Sprintf` for the verbs that apply to Lua's values.
fn format_go(format: &[u8], mut arguments: impl Iterator<Item = Value>) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(format.len());
    let mut bytes = format.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut verb = Verb { left: false, plus: false, zero: false, width: 0, precision: None };
        while let Some(flag) = bytes.next_if(|byte| b"-+ #0".contains(byte)) {
            match flag {
                b'-' => verb.left = true,
                b'+' => verb.plus = true,
                b'0' => verb.zero = true,
                _ => {}
            }
        }
        let digits = |bytes: &mut std::iter::Peekable<_>| -> Result<usize> {
            let mut value = 0;
            while let Some(digit) = Iterator::next(&mut DigitsOf(bytes)) {
                value = value * 10 + usize::from(digit - b'0');
                if value > MAX_WIDTH {
                    return Err(mlua::Error::runtime("invalid format (width or precision too long)"));
                }
            }
            Ok(value)
        };
        verb.width = digits(&mut bytes)?;
        if bytes.next_if_eq(&b'.').is_some() {
            verb.precision = Some(digits(&mut bytes)?);
        }
        match bytes.next() {
            None => out.extend_from_slice(b"%!(NOVERB)"),
            Some(b'%') => out.push(b'%'),
            Some(letter) => match arguments.next() {
                None => out.extend_from_slice(format!("%!{}(MISSING)", letter as char).as_bytes()),
                Some(value) => pad(&mut out, &verb, print(letter, &verb, &value)),
            },
        }
        if out.len() > MAX_ARGUMENT {
            return Err(mlua::Error::runtime(format!("string is longer than {MAX_ARGUMENT} bytes")));
        }
    }
    Ok(out)
}

struct DigitsOf<'a, I: Iterator<Item = u8>>(&'a mut std::iter::Peekable<I>);

impl<I: Iterator<Item = u8>> Iterator for DigitsOf<'_, I> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.0.next_if(u8::is_ascii_digit)
    }
}

fn pad(out: &mut Vec<u8>, verb: &Verb, text: Vec<u8>) {
    let missing = verb.width.saturating_sub(text.len());
    if verb.left {
        out.extend_from_slice(&text);
        out.resize(out.len() + missing, b' ');
    } else if verb.zero {
        let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
        out.extend_from_slice(&text[..sign]);
        out.resize(out.len() + missing, b'0');
        out.extend_from_slice(&text[sign..]);
    } else {
        out.resize(out.len() + missing, b' ');
        out.extend_from_slice(&text);
    }
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}

fn plain(value: &Value) -> Vec<u8> {
    match value {
        Value::Nil => b"nil".to_vec(),
        Value::Boolean(value) => value.to_string().into_bytes(),
        Value::Integer(value) => value.to_string().into_bytes(),
        Value::Number(value) => number_text(*value).into_bytes(),
        Value::String(text) => text.as_bytes().to_vec(),
        other => other.type_name().as_bytes().to_vec(),
    }
}

fn print(letter: u8, verb: &Verb, value: &Value) -> Vec<u8> {
    let signed = |text: String| if verb.plus && !text.starts_with('-') { format!("+{text}") } else { text };
    let precision = verb.precision.unwrap_or(6);
    let text = match (letter, as_number(value)) {
        (b's' | b'v', _) => {
            let mut text = plain(value);
            text.truncate(verb.precision.unwrap_or(usize::MAX));
            return text;
        }
        (b'q', _) => format!("{:?}", String::from_utf8_lossy(&plain(value))),
        (b'd' | b'i', Some(number)) => signed((number as i64).to_string()),
        (b'f' | b'F', Some(number)) => signed(format!("{number:.precision$}")),
        (b'e', Some(number)) => signed(exponent(number, precision)),
        (b'E', Some(number)) => signed(exponent(number, precision).to_uppercase()),
        (b'g', Some(number)) => signed(general(number, verb.precision)),
        (b'G', Some(number)) => signed(general(number, verb.precision).to_uppercase()),
        (b'x', Some(number)) => format!("{:x}", number as i64),
        (b'X', Some(number)) => format!("{:X}", number as i64),
        (b'o', Some(number)) => format!("{:o}", number as i64),
        (b'c', Some(number)) => char::from_u32(number as u32).unwrap_or('\u{fffd}').to_string(),
        (b't', _) => String::from_utf8_lossy(&plain(value)).into_owned(),
        (other, _) => {
            format!("%!{}({}={})", other as char, value.type_name(), String::from_utf8_lossy(&plain(value)))
        }
    };
    text.into_bytes()
}

/// Prints a script's number as Go does: whole ones in full, others as `%g`.
pub fn number_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0 {
        return (value as i64).to_string();
    }
    general(value, None)
}

/// Go's `%g`: with an exponent if it is below -4 or at least the precision. Without a precision as many digits as the
/// number needs, and an exponent from a million on.
fn general(value: f64, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = match precision {
        None => format!("{value:e}"),
        Some(digits) => format!("{value:.*e}", digits.max(1) - 1),
    };
    let Some((mantissa, power)) = scientific.split_once('e') else { return scientific };
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let power: i32 = power.parse().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let most = match precision.map(|digits| digits.max(1) as i32) {
        None => 6,
        Some(precision) if precision > digits && digits > power => digits,
        Some(precision) => precision,
    };
    if power < -4 || power >= most {
        return two_digits(mantissa, &power.to_string());
    }
    format!("{value:.*}", (digits - power - 1).max(0) as usize)
}

/// Go's `%e`.
fn exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => two_digits(mantissa, exponent),
        None => text,
    }
}

/// At least two digits in the exponent.
fn two_digits(mantissa: &str, exponent: &str) -> String {
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}
