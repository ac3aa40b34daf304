//! The canonical spelling of quantities and times.

use apimachinery::quantity::stored;
use serde_json::Value;

use crate::go_base64;

/// `1000m` becomes `1`, `1024Mi` becomes `1Gi`; a number becomes text. Text that is not a quantity stays; validation
/// refuses it.
pub(super) fn quantity(value: &mut Value) {
    let parsed = match &*value {
        Value::String(text) if is_plain(text) => return,
        Value::String(text) => stored(text),
        Value::Number(number) => stored(&number.to_string()),
        _ => return,
    };
    if let Ok(amount) = parsed {
        *value = amount.into();
    }
}

/// A short whole number without a sign, a suffix or trailing zeros that a suffix would replace.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes, [b'1'..=b'9', rest @ ..] if rest.len() < 3 && rest.iter().all(u8::is_ascii_digit)) || text == "0"
}

/// UTC with whole seconds, as `meta/v1.Time` is stored.
pub(super) fn time(value: &mut Value) {
    let Value::String(text) = &*value else { return };
    if text.len() == "2026-01-01T00:00:00Z".len() && text.ends_with('Z') {
        return;
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        let seconds = jiff::Timestamp::from_second(time.as_second()).unwrap_or(time);
        *value = seconds.to_string().into();
    }
}

/// UTC with six decimals, as `meta/v1.MicroTime` is stored: Go's decoder refuses any other number of them.
pub(super) fn micro_time(value: &mut Value) {
    let Value::String(text) = &*value else { return };
    if text.len() == "2026-01-01T00:00:00.000000Z".len() && text.ends_with('Z') {
        return;
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        *value = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into();
    }
}

/// Base64 without line breaks, which manifests have as block scalars, and without stray bits at the end.
pub(super) fn bytes(value: &mut Value) {
    if let Value::String(text) = &*value
        && let Some(canonical) = go_base64::canonical(text)
    {
        *value = canonical.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_stored_in_utc() {
        for (written, seconds, micros) in [
            ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000000Z"),
            ("2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000001Z"),
            ("2020-01-01T00:00:00.1234567Z", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123456Z"),
            ("2020-01-01T00:00:00.5+02:00", "2019-12-31T22:00:00Z", "2019-12-31T22:00:00.500000Z"),
            ("soon", "soon", "soon"),
        ] {
            let (mut time_of, mut micro_of) = (json!(written), json!(written));
            time(&mut time_of);
            micro_time(&mut micro_of);
            assert_eq!((time_of, micro_of), (json!(seconds), json!(micros)), "{written}");
        }
    }
}
