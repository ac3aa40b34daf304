//! Amounts of resources (`resource.Quantity`): exact decimals with a preferred notation.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const NANO: i128 = 1_000_000_000;
/// Larger amounts are cut to this when they are read in binary notation, as upstream does: 2^63-1 units.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;
/// Larger amounts are cut to this in the other notations, which upstream does not bound: 10^29 units.
const MAX: i128 = 10i128.pow(MAX_DIGITS as u32);
/// Digits of billionths below [`MAX`]; numbers with more are not less.
const MAX_DIGITS: i64 = 38;

/// The notation an amount is printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `1500m`, `2k`.
    #[default]
    DecimalSi,
    /// `64Mi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// Equality and order are by amount; the notation does not count.
///
/// ```
/// use apimachinery::quantity::Quantity;
///
/// let cpu: Quantity = "250m".parse()?;
/// assert_eq!(cpu.milli_value(), 250);
/// let memory: Quantity = "1.5Gi".parse()?;
/// assert_eq!(memory.value(), 1_610_612_736);
/// assert_eq!(memory.to_string(), "1536Mi");
/// # Ok::<(), apimachinery::quantity::ParseQuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    /// Billionths. Sums saturate.
    nano: i128,
    format: Format,
}

/// Why a text is not a quantity, with upstream's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text does not match the pattern of quantities.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

enum Scale {
    /// A power of ten.
    Ten(i64),
    /// A power of two.
    Two(u32),
}

const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

fn suffix(text: &str) -> Result<(Scale, Format), ParseQuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == text) {
        return Ok((Scale::Ten(*exponent), Format::DecimalSi));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(name, _)| *name == text) {
        return Ok((Scale::Two(*exponent), Format::BinarySi));
    }
    if let Some(Ok(exponent)) = text.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
        return Ok((Scale::Ten(exponent.into()), Format::DecimalExponent));
    }
    let number = text.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    let has_form = digits.bytes().all(|digit| digit.is_ascii_digit());
    Err(if has_form { ParseQuantityError::Suffix } else { ParseQuantityError::Format })
}

/// Digits of a number that upstream reads as 64-bit integers.
const SHORT: usize = 18;

/// An amount as an API server stores it: in canonical form, but for some forms that upstream takes for canonical and
/// leaves as they are written, such as `+5`, `1.500` or `1E3`.
///
/// # Errors
/// When the text is no amount.
pub fn stored(text: &str) -> Result<String, ParseQuantityError> {
    let amount: Quantity = text.parse()?;
    Ok(if is_left(text) { text.to_owned() } else { amount.to_string() })
}

/// The rule of upstream's quick parser, which accepts digits only.
fn is_left(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (Ok((scale, _)), false) = (suffix(unit), whole.is_empty()) else { return false };
    match scale {
        Scale::Ten(exponent) => {
            let exponent = exponent - fraction.len() as i64;
            let digits = [whole, fraction].concat();
            digits.len() <= SHORT && exponent >= -9 && exponent % 3 == 0 && !digits.ends_with("000")
        }
        // Three decimal digits are about ten binary ones.
        Scale::Two(exponent) => {
            let fits = whole.len() + exponent as usize * 3 / 10 < 15;
            fits && fraction.is_empty() && whole.parse::<u64>().is_ok_and(|value| value % 8 != 0)
        }
    }
}

/// The value of digits that are known to be few enough.
fn digits_value(digits: &[u8]) -> i128 {
    digits.iter().fold(0, |value, digit| value * 10 + i128::from(digit - b'0'))
}

fn ten_to(exponent: i64) -> i128 {
    10i128.pow(u32::try_from(exponent).unwrap_or(0))
}

/// `whole.fraction * 10^exponent` in billionths, rounded up.
fn decimal(whole: &[u8], fraction: &[u8], exponent: i64) -> i128 {
    let digits: Vec<u8> = whole.iter().chain(fraction).copied().skip_while(|d| *d == b'0').collect();
    if digits.is_empty() {
        return 0;
    }
    let count = digits.len() as i64;
    let shift = exponent + 9 - fraction.len() as i64;
    if count + shift > MAX_DIGITS {
        return MAX;
    }
    if shift >= 0 {
        return digits_value(&digits) * ten_to(shift);
    }
    let (kept, cut) = digits.split_at(usize::try_from(count + shift).unwrap_or(0));
    digits_value(kept) + i128::from(cut.iter().any(|d| *d != b'0'))
}

/// `whole.fraction * 2^exponent` in billionths, rounded up.
fn binary(whole: &[u8], fraction: &[u8], exponent: u32) -> i128 {
    let whole: Vec<u8> = whole.iter().copied().skip_while(|d| *d == b'0').collect();
    if whole.len() > 19 {
        return MAX_BINARY;
    }
    // Up to 10^19 * 2^60, and 10^18 * 2^60 below: both fit 127 bits.
    let units = digits_value(&whole) << exponent;
    let (kept, cut) = fraction.split_at(fraction.len().min(18));
    let unit = ten_to(kept.len() as i64);
    let scaled = digits_value(kept) << exponent;
    let rest = scaled % unit * NANO;
    let part = rest / unit + i128::from(rest % unit != 0 || cut.iter().any(|d| *d != b'0'));
    (units.min(i64::MAX.into()) + scaled / unit) * NANO + part
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, unit) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A suffix or a sign alone is zero.
        if text.is_empty() || fraction.contains('.') {
            return Err(ParseQuantityError::Format);
        }
        let (scale, mut format) = suffix(unit)?;
        let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
        let nano = match scale {
            Scale::Ten(exponent) => decimal(whole, fraction, exponent),
            Scale::Two(exponent) => binary(whole, fraction, exponent),
        };
        let nano = nano.min(if format == Format::BinarySi { MAX_BINARY } else { MAX });
        if format == Format::BinarySi && nano > 0 && nano < NANO {
            format = Format::DecimalSi;
        }
        Ok(Self { nano: if negative { -nano } else { nano }, format })
    }
}

impl Quantity {
    /// The quantity zero.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };

    /// A whole number of units.
    pub fn new(units: i64, format: Format) -> Self {
        Self { nano: i128::from(units) * NANO, format }
    }

    /// From thousandths.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Self { nano: i128::from(milli) * (NANO / 1000), format }
    }

    /// The notation in which it is printed.
    pub fn format(self) -> Format {
        self.format
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whole units, rounded away from zero, within i64.
    pub fn value(self) -> i64 {
        self.rounded(NANO)
    }

    /// Thousandths, rounded away from zero, within i64.
    pub fn milli_value(self) -> i64 {
        self.rounded(NANO / 1000)
    }

    /// The nearest float.
    pub fn as_f64(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    fn rounded(self, unit: i128) -> i64 {
        let (quotient, rest) = (self.nano / unit, self.nano % unit);
        let value = quotient + rest.signum();
        i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
    }

    /// The product with a whole number; saturates.
    #[must_use]
    pub fn times(self, factor: i64) -> Self {
        Self { nano: self.nano.saturating_mul(factor.into()), ..self }
    }

    fn print_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.nano / NANO;
        let mut power = 0;
        while power < BINARY.len() && value % 1024 == 0 && value != 0 {
            value /= 1024;
            power += 1;
        }
        let suffix = if power == 0 { "" } else { BINARY[power - 1].0 };
        write!(f, "{value}{suffix}")
    }

    fn print_decimal(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut power) = (self.nano, 0);
        let has_larger = |power| self.format == Format::DecimalExponent || power + 1 < DECIMAL.len();
        while has_larger(power) && value % 1000 == 0 && value != 0 {
            value /= 1000;
            power += 1;
        }
        if value == 0 {
            return f.write_str("0");
        }
        match (self.format, 3 * power as i64 - 9) {
            (Format::DecimalExponent, 0) => write!(f, "{value}"),
            (Format::DecimalExponent, exponent) => write!(f, "{value}e{exponent}"),
            _ => write!(f, "{value}{}", DECIMAL[power].0),
        }
    }
}

/// Saturating. A zero takes the other's notation, so that sums have the format of their first addend.
impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nano: self.nano.saturating_add(other.nano), format }
    }
}

/// Saturating, with the notation of a sum.
impl std::ops::Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nano: self.nano.saturating_sub(other.nano), format }
    }
}

/// The canonical form: no fraction, with the largest suffix that permits this.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Fractions would be lost in binary notation, and small amounts read better without.
        if self.format == Format::BinarySi && self.nano.abs() >= 1024 * NANO && self.nano % NANO == 0 {
            self.print_binary(f)
        } else {
            self.print_decimal(f)
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From a string or a number; null is zero.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Null => return Ok(Self::ZERO),
            serde_json::Value::String(text) => text,
            serde_json::Value::Number(number) => number.to_string(),
            _ => return Err(serde::de::Error::custom(ParseQuantityError::Format)),
        };
        text.trim().parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_forms_and_values() {
        for (text, printed, value, milli) in [
            ("0", "0", 0, 0),
            ("100m", "100m", 1, 100),
            ("1.5", "1500m", 2, 1500),
            ("1000m", "1", 1, 1000),
            ("1000", "1k", 1000, 1_000_000),
            ("0.1Gi", "107374182400m", 107_374_183, 107_374_182_400),
            ("1.2Gi", "1288490188800m", 1_288_490_189, 1_288_490_188_800),
            ("100E", "100E", i64::MAX, i64::MAX),
            ("1e21", "1e21", i64::MAX, i64::MAX),
            ("-99999999999999999999Ki", "-9223372036854775807", -i64::MAX, i64::MIN),
            ("1Ki", "1Ki", 1024, 1_024_000),
            ("1024", "1024", 1024, 1_024_000),
            ("1000Ki", "1000Ki", 1_024_000, 1_024_000_000),
            ("2048Mi", "2Gi", 2_147_483_648, 2_147_483_648_000),
            ("0.5Ki", "512", 512, 512_000),
            ("12e6", "12e6", 12_000_000, 12_000_000_000),
            ("1E", "1E", 1_000_000_000_000_000_000, i64::MAX),
            ("-5", "-5", -5, -5000),
            ("-1.2", "-1200m", -2, -1200),
            (".5", "500m", 1, 500),
            ("5.", "5", 5, 5000),
            ("+1", "1", 1, 1000),
            ("1n", "1n", 1, 1),
            ("0.1n", "1n", 1, 1),
            ("1e-40", "1e-9", 1, 1),
            ("1e400", "100e27", i64::MAX, i64::MAX),
            ("99999999999999999999Ei", "9223372036854775807", i64::MAX, i64::MAX),
            ("0e99", "0", 0, 0),
        ] {
            let quantity: Quantity = text.parse().expect(text);
            assert_eq!(quantity.to_string(), printed, "{text}");
            assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
        }
        // Upstream requires no digits.
        for text in ["M", "Mi", "-", ".", "e5"] {
            assert!(text.parse::<Quantity>().is_ok_and(|quantity| quantity.is_zero()), "{text}");
        }
        for text in ["", "1.2.3", "a", "1x", "1 ", "1Kii", "1e", "1e1.5", "--1", "1e99999999999", "é", "1é"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        for (text, expected) in [
            ("1ki", ParseQuantityError::Suffix),
            ("1i", ParseQuantityError::Suffix),
            ("1e", ParseQuantityError::Suffix),
            ("K", ParseQuantityError::Suffix),
            ("--1", ParseQuantityError::Suffix),
        ] {
            assert_eq!(text.parse::<Quantity>().err(), Some(expected), "{text}");
        }
        for text in ["1x", "1e1x", "1 ", "1é"] {
            assert_eq!(text.parse::<Quantity>().err(), Some(ParseQuantityError::Format), "{text}");
        }
    }

    #[test]
    fn forms_canonical_for_upstream_are_kept() {
        for (text, expected) in [
            ("+5", "+5"),
            ("005", "005"),
            ("1.500", "1.500"),
            ("0.500", "500m"),
            ("1.5", "1500m"),
            ("1.000", "1"),
            ("1E3", "1E3"),
            ("10E2", "1e3"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("1.500k", "1.500k"),
            ("+3Ki", "+3Ki"),
            ("1024Ki", "1Mi"),
            ("+8Ki", "8Ki"),
            ("01Ei", "1Ei"),
            ("1.Ki", "1.Ki"),
            ("8.Mi", "8Mi"),
            ("1.0Ki", "1Ki"),
            ("5.", "5."),
            ("0", "0"),
            ("-0", "0"),
            ("1234567890123456789", "1234567890123456789"),
            ("+1234567890123456789", "1234567890123456789"),
        ] {
            assert_eq!(stored(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn arithmetic() {
        let q = |text: &str| text.parse::<Quantity>().expect(text);
        assert_eq!((Quantity::ZERO + q("1Gi") + q("1Gi")).to_string(), "2Gi");
        assert_eq!((q("1") - q("100m")).to_string(), "900m");
        assert_eq!(q("250m").times(4).to_string(), "1");
        assert!(q("1000m") == q("1") && q("1Ki") > q("1k"));
        assert_eq!(serde_json::from_str::<Quantity>("2").map(|q| q.to_string()).ok().as_deref(), Some("2"));
    }

    proptest! {
        #[test]
        fn printing_round_trips(text in "[-+]?[0-9]{0,25}\\.?[0-9]{0,25}(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,3})?") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let again: Quantity = quantity.to_string().parse().expect("what is printed can be read");
                prop_assert_eq!(again.to_string(), quantity.to_string());
            }
        }
    }
}
