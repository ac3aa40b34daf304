//! Scalars as goyaml resolves them (YAML 1.1, without numbers to the base of 60), which also decides which strings need
//! quotes: <https://yaml.org/type/>.

use std::num::IntErrorKind;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::go_json;

/// Which words are true and false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Booleans {
    /// `yes`, `on` and `y` are true.
    #[default]
    Yaml11,
    /// They are strings.
    Yaml12,
}

/// The type that a tag gives a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// There is no tag.
    Unset,
    Text,
    Null,
    Bool,
    Int,
    Float,
    Timestamp,
    Binary,
    Merge,
}

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond `i64`.
    Uint(u64),
    Float(f64),
    /// A string in JSON.
    Timestamp(&'t str),
    Text(&'t str),
    Decoded(String),
}

impl<'t> Scalar<'t> {
    /// # Errors
    /// When the text is not of the type of the tag.
    pub(super) fn of(text: &'t str, is_plain: bool, type_: Type, booleans: Booleans) -> Result<Self, String> {
        match type_ {
            Type::Unset if is_plain => return Ok(Self::resolve(text, booleans)),
            Type::Unset | Type::Text | Type::Merge => return Ok(Self::Text(text)),
            Type::Binary => return decode(text).map(Self::Decoded),
            _ => {}
        }
        let resolved = match Self::resolve(text, Booleans::Yaml11) {
            Self::Timestamp(text) if type_ != Type::Timestamp => Self::Text(text),
            // The precision of a float, as for other floats.
            Self::Int(int) if type_ == Type::Float => Self::Float(int as f64),
            resolved => resolved,
        };
        if resolved.type_() == type_ {
            return Ok(resolved);
        }
        let (found, expected) = (resolved.type_().tag(), type_.tag());
        Err(format!("cannot decode {found} `{text}` as a {expected}"))
    }

    /// What a plain text without a tag is.
    fn resolve(text: &'t str, booleans: Booleans) -> Self {
        let number = match text.as_bytes().first() {
            Some(b'+' | b'-' | b'0'..=b'9') if is_timestamp(text) => return Self::Timestamp(text),
            Some(b'+' | b'-' | b'0'..=b'9') => number(text),
            Some(b'.') => fraction(text),
            _ => None,
        };
        number.or_else(|| word(text, booleans)).unwrap_or(Self::Text(text))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Timestamp(_) | Self::Decoded(_))
    }

    fn type_(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) | Self::Uint(_) => Type::Int,
            Self::Float(_) => Type::Float,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Text(_) | Self::Decoded(_) => Type::Text,
        }
    }

    /// The value in JSON, after a Go program has read that again.
    ///
    /// # Errors
    /// For numbers that JSON does not have.
    pub(super) fn value(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Uint(value) => Value::from(value as f64),
            Self::Float(float) if float.is_finite() => super::whole(float).map_or_else(|| float.into(), Value::Number),
            Self::Float(float) => {
                return Err(format!("json: unsupported value: {}", infinite(float, "+Inf", "-Inf", "NaN")));
            }
            Self::Timestamp(text) | Self::Text(text) => text.into(),
            Self::Decoded(text) => text.into(),
        })
    }

    /// The text of a key, as sigs.k8s.io/yaml writes keys that are not strings.
    ///
    /// # Errors
    /// For null.
    pub(super) fn key(&self) -> Result<String, String> {
        Ok(match self {
            Self::Null => return Err("unsupported map key: null".to_owned()),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Float(float) if (*float as f32).is_finite() => go_json::shortest_f32(*float as f32),
            Self::Float(float) => infinite(*float, ".inf", "-.inf", ".nan").to_owned(),
            Self::Timestamp(text) | Self::Text(text) => (*text).to_owned(),
            Self::Decoded(text) => text.clone(),
        })
    }
}

impl Type {
    fn tag(self) -> &'static str {
        match self {
            Self::Unset | Self::Text => "!!str",
            Self::Null => "!!null",
            Self::Bool => "!!bool",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Binary => "!!binary",
            Self::Merge => "!!merge",
        }
    }
}

fn infinite<'n>(float: f64, positive: &'n str, negative: &'n str, nan: &'n str) -> &'n str {
    if float.is_nan() {
        nan
    } else if float > 0.0 {
        positive
    } else {
        negative
    }
}

/// JSON has no bytes, so they have to be text.
fn decode(text: &str) -> Result<String, String> {
    let digits: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = STANDARD.decode(digits).map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    String::from_utf8(bytes).map_err(|_| "!!binary value is not UTF-8, which JSON requires".to_owned())
}

/// Whether a reader takes the plain text for a string, whichever version of YAML it knows.
pub(super) fn reads_as_string(text: &str) -> bool {
    matches!(Scalar::resolve(text, Booleans::Yaml11), Scalar::Text(_)) && !is_base_60(text)
}

/// The key of a merge: plain, a reader would look for the map to merge.
pub(super) fn is_merge(key: &str) -> bool {
    key == "<<"
}

fn word(text: &str, booleans: Booleans) -> Option<Scalar<'static>> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "true" | "True" | "TRUE" => Scalar::Bool(true),
        "false" | "False" | "FALSE" => Scalar::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if booleans == Booleans::Yaml11 => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" if booleans == Booleans::Yaml11 => Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn all(text: &str, test: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(test)
}

/// A number that begins with a sign or a digit; underscores may be anywhere in it.
fn number(text: &str) -> Option<Scalar<'static>> {
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| float(&plain))
}

/// As Go parses integers: `0x`, `0o` or `0`, and `0b` are their bases.
fn integer(plain: &str) -> Option<Scalar<'static>> {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if !all(digits, |digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let signed = match plain.as_bytes() {
        [b'-', ..] => i64::from_str_radix(&format!("-{digits}"), radix),
        _ => i64::from_str_radix(digits, radix),
    };
    match signed {
        Ok(value) => Some(Scalar::Int(value)),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow && unsigned.len() == plain.len() => {
            u64::from_str_radix(digits, radix).ok().map(Scalar::Uint)
        }
        Err(_) => None,
    }
}

/// A number that begins with a point; underscores may be between its digits.
fn fraction(text: &str) -> Option<Scalar<'static>> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut underscores = (0..bytes.len()).filter(|at| bytes[*at] == b'_');
    if !underscores.all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))) {
        return None;
    }
    float(&text.replace('_', ""))
}

/// A float that is too large is a string.
fn float(plain: &str) -> Option<Scalar<'static>> {
    let float: f64 = plain.parse().ok().filter(|_| is_float(plain))?;
    float.is_finite().then_some(Scalar::Float(float))
}

/// `1`, `-1.`, `.5`, `1.5e3`, `1e+3`.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    mantissa && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// `190:20:30`: sexagesimal numbers of YAML 1.1.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    if !(first.starts_with(|c: char| c.is_ascii_digit()) && all(first, |b| b.is_ascii_digit() || b == b'_')) {
        return false;
    }
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let sixty = |text: &str| {
        matches!(text.as_bytes(), [d] if d.is_ascii_digit())
            || matches!(text.as_bytes(), [b'0'..=b'5', d] if d.is_ascii_digit())
    };
    let last_whole = last.split('.').next().unwrap_or_default();
    let fraction = last.split_once('.').map_or("", |(_, fraction)| fraction);
    middle.iter().all(|part| sixty(part))
        && sixty(last_whole)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// `2024-01-31`, and with a time of day, behind `T` or `t` with a zone and behind a blank without one: the formats that
/// goyaml tries, with the calendar.
fn is_timestamp(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let (day, time) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    if !(year.len() == 4 && all(year, |digit| digit.is_ascii_digit())) {
        return false;
    }
    let (Ok(year), Some(month), Some(day)) = (year.parse(), short(month), short(day)) else { return false };
    if jiff::civil::Date::new(year, month, day).is_err() {
        return false;
    }
    match time.strip_prefix(['T', 't']) {
        Some(time) => match time.find(['Z', '+', '-']).map(|at| time.split_at(at)) {
            Some((clock, "Z")) => is_clock(clock),
            Some((clock, zone)) => is_clock(clock) && is_zone(zone),
            None => false,
        },
        None => time.is_empty() || time.strip_prefix(' ').is_some_and(is_clock),
    }
}

/// A number of one or two digits.
fn short(text: &str) -> Option<i8> {
    text.parse().ok().filter(|_| text.len() <= 2 && all(text, |digit| digit.is_ascii_digit()))
}

/// `9:5:0` or `09:05:00.25`.
fn is_clock(text: &str) -> bool {
    let mut parts = text.splitn(3, ':');
    let (Some(hour), Some(minute), Some(second)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let (second, fraction) = second.split_once(['.', ',']).unwrap_or((second, "0"));
    let below = |text: &str, end: i8| short(text).is_some_and(|number| number < end);
    below(hour, 24) && below(minute, 60) && below(second, 60) && all(fraction, |digit| digit.is_ascii_digit())
}

/// `+01:00`
fn is_zone(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).and_then(|zone| zone.split_once(':'));
    digits.is_some_and(|(hours, minutes)| [hours, minutes].iter().all(|two| two.len() == 2 && short(two).is_some()))
}
