//! Fields that hold a number or a text, mostly a percentage.

use std::fmt;
use std::num::IntErrorKind;

use serde::{Deserialize, Serialize};

/// A number or a text, such as a port's number or name, or a count or a percentage (`util/intstr`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A JSON number.
    Int(i32),
    /// A JSON string.
    String(String),
}

/// Why a value is not a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PercentError {
    /// The text has no `%` at its end.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// The text before `%` is not a number of 64 bits: the whole text, and why.
    #[error("invalid value for IntOrString: invalid value {0:?}: strconv.Atoi: parsing {1:?}: {2}")]
    NotANumber(String, String, &'static str),
}

impl IntOrString {
    /// The number itself, or the percentage of `total`, rounded up or down.
    ///
    /// # Errors
    /// When it is a text that is not a percentage.
    ///
    /// ```
    /// use apimachinery::int_or_string::IntOrString;
    ///
    /// assert_eq!(IntOrString::Int(3).scaled(10, true), Ok(3));
    /// assert_eq!(IntOrString::String("25%".into()).scaled(10, true), Ok(3));
    /// assert_eq!(IntOrString::String("25%".into()).scaled(10, false), Ok(2));
    /// ```
    pub fn scaled(&self, total: i64, round_up: bool) -> Result<i64, PercentError> {
        let text = match self {
            Self::Int(number) => return Ok((*number).into()),
            Self::String(text) => text,
        };
        let percent = text.strip_suffix('%').ok_or(PercentError::NotAPercentage)?;
        let percent: i64 = percent.parse().map_err(|error: std::num::ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            PercentError::NotANumber(text.clone(), percent.to_owned(), why)
        })?;
        let product = i128::from(percent) * i128::from(total);
        let value = if round_up { -(-product).div_euclid(100) } else { product.div_euclid(100) };
        Ok(i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX }))
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        for (value, total, up, down) in [("25%", 10, 3, 2), ("0%", 10, 0, 0), ("100%", 7, 7, 7), ("150%", 3, 5, 4)] {
            let value = IntOrString::from(value);
            assert_eq!((value.scaled(total, true), value.scaled(total, false)), (Ok(up), Ok(down)), "{value}");
        }
        assert_eq!(IntOrString::from(4).scaled(10, true), Ok(4));
        let refusal = |text: &str| IntOrString::from(text).scaled(1, true).expect_err(text).to_string();
        assert_eq!(
            refusal(" 5%"),
            "invalid value for IntOrString: invalid value \" 5%\": strconv.Atoi: parsing \" 5\": invalid syntax"
        );
        assert!(refusal("9999999999999999999%").ends_with("parsing \"9999999999999999999\": value out of range"));
        assert!(IntOrString::from("4").scaled(10, true).is_err() && IntOrString::from("x%").scaled(1, true).is_err());
        assert_eq!(serde_json::from_str::<IntOrString>("\"a\"").ok(), Some(IntOrString::from("a")));
    }
}
