//! The canonical spelling of quantities and times.

use apimachinery::quantity::stored;
use serde_json::Value;

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
