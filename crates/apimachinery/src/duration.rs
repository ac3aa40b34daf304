//! Durations in Go's notation (`1h30m0s`), as `meta/v1.Duration` and flags use them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Nanoseconds, possibly negative.
///
/// ```
/// use apimachinery::duration::Duration;
///
/// let duration: Duration = "1h30m".parse()?;
/// assert_eq!(duration.as_secs(), 5400);
/// assert_eq!(duration.to_string(), "1h30m0s");
/// # Ok::<(), apimachinery::duration::ParseDurationError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(i64);

/// Why a text is not a duration, with the messages of Go's `time.ParseDuration`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// The text has no number, or the value overflows.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number without a unit: the whole text.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A unit other than `ns`, `us`, `ms`, `s`, `m` and `h`: the whole text and the unit.
    #[error("time: unknown unit {} in duration {}", quoted(.1), quoted(.0))]
    UnknownUnit(String, String),
}

/// As Go's package `time` quotes: bytes of characters beyond ASCII, and control characters, in hexadecimal digits.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', byte.into()]),
            b' '..=0x7f => out.push(byte.into()),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out + "\""
}

const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Duration {
    /// A duration of this many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A duration of this many seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The whole duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The duration in seconds, rounded towards zero.
    pub const fn as_secs(self) -> i64 {
        self.0 / 1_000_000_000
    }

    /// `None` when negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    /// Cut to about 292 years.
    pub fn from_std(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// One `NUMBER UNIT` term in nanoseconds and the rest of the text.
fn term<'a>(text: &'a str, whole_text: &str) -> Result<(u64, &'a str), ParseDurationError> {
    let invalid = || ParseDurationError::Invalid(whole_text.to_owned());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(invalid());
    }
    let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if name.is_empty() {
        return Err(ParseDurationError::MissingUnit(whole_text.to_owned()));
    }
    let unit = UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, nanos)| *nanos);
    let unit = unit.ok_or_else(|| ParseDurationError::UnknownUnit(whole_text.to_owned(), name.to_owned()))?;
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    // Eighteen digits of a fraction of the largest unit fit i128; further ones are below a nanosecond.
    let digits = &fraction[..fraction.len().min(18)];
    let numerator: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| invalid())? };
    let part = numerator * i128::from(unit) / 10i128.pow(digits.len() as u32);
    let total = i128::from(whole) * i128::from(unit) + part;
    Ok((u64::try_from(total).map_err(|_| invalid())?, rest))
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseDurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        // Summed up as a negative number, because the least one has no positive counterpart.
        let mut total = 0i64;
        while !rest.is_empty() {
            let (nanos, after) = term(rest, text)?;
            total = total.checked_sub_unsigned(nanos).ok_or_else(invalid)?;
            rest = after;
        }
        match negative {
            true => Ok(Self(total)),
            false => total.checked_neg().map(Self).ok_or_else(invalid),
        }
    }
}

/// A number without the trailing zeros of its fraction.
fn print_fraction(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    if !nanos.is_multiple_of(unit) {
        let width = unit.ilog10() as usize;
        let digits = format!("{:0width$}", nanos % unit);
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000;
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => return print_fraction(f, nanos, 1, "ns"),
            1_000..1_000_000 => return print_fraction(f, nanos, 1_000, "µs"),
            1_000_000..SECOND => return print_fraction(f, nanos, 1_000_000, "ms"),
            _ => {}
        }
        let minutes = nanos / (60 * SECOND);
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        print_fraction(f, nanos % (60 * SECOND), SECOND, "s")
    }
}

impl Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_and_printing() {
        for (text, printed) in [
            ("0", "0s"),
            ("5s", "5s"),
            ("90s", "1m30s"),
            ("1h", "1h0m0s"),
            ("1h0m5.25s", "1h0m5.25s"),
            ("1.5h", "1h30m0s"),
            ("100ms", "100ms"),
            ("1500us", "1.5ms"),
            ("1µs", "1µs"),
            ("-1m", "-1m0s"),
            ("12ns", "12ns"),
            (".5s", "500ms"),
        ] {
            assert_eq!(text.parse::<Duration>().map(|d| d.to_string()), Ok(printed.to_owned()), "{text}");
        }
        for text in ["", "-", "5", "s", "1x", ".s", "1.1.1s", "99999999999h", "9223372036s9223372036s", "1é"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }
}
