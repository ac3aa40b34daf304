//! Documents that expressions compute.

use apimachinery::extent::Budget;
use base64::Engine as _;
use cel::Value as CelValue;
use cel::value::Key;
use serde_json::{Map, Value, json};

/// Levels of a computed document: more than any object may have.
const MAX_DEPTH: usize = 200;

/// A computed value as a document.
///
/// # Errors
/// If the value has no form in JSON, or is larger than any object: a list may have one value many times, which is in
/// memory once, and so may each of its items.
pub fn to_json(value: &CelValue<'_>) -> Result<Value, String> {
    below(value, MAX_DEPTH, &mut Budget::default())
}

fn below(value: &CelValue<'_>, depth: usize, budget: &mut Budget) -> Result<Value, String> {
    let depth = depth.checked_sub(1).ok_or("the computed document is too deep")?;
    let full = |_| "the computed document is too large".to_owned();
    let text = |text: String, budget: &mut Budget| {
        budget.take(text.len() + 2).map_err(full)?;
        Ok::<_, String>(Value::from(text))
    };
    Ok(match value {
        CelValue::String(found) => {
            budget.take(found.len() + 2).map_err(full)?;
            Value::from(&**found)
        }
        CelValue::Bytes(data) => text(base64::prelude::BASE64_STANDARD.encode(data), budget)?,
        CelValue::Timestamp(time) => text(time.to_string(), budget)?,
        CelValue::Duration(nanoseconds) => text(seconds(*nanoseconds), budget)?,
        CelValue::Object(object) => {
            for (name, value) in object.fields {
                budget.take(name.len() + 3).and_then(|()| budget.take_value(value)).map_err(full)?;
            }
            Value::Object(object.fields.clone())
        }
        CelValue::Optional(Some(inner)) => below(inner, depth, budget)?,
        CelValue::List(list) => {
            let mut items = Vec::new();
            for item in list.iter() {
                budget.take(1).map_err(full)?;
                items.push(below(&item.map_err(|why| why.to_string())?, depth, budget)?);
            }
            Value::Array(items)
        }
        CelValue::Map(map) => {
            let mut fields = Map::new();
            for key in map.keys() {
                let Key::String(name) = &key else {
                    return Err(format!("unsupported type conversion from '{}' to string", key.to_value().type_name()));
                };
                let value = map.get(&key).map_err(|why| why.to_string())?.unwrap_or(CelValue::Null);
                budget.take(name.len() + 3).map_err(full)?;
                fields.insert(name.to_string(), below(&value, depth, budget)?);
            }
            Value::Object(fields)
        }
        scalar => {
            budget.take(1).map_err(full)?;
            match scalar {
                CelValue::Null => Value::Null,
                CelValue::Bool(flag) => json!(flag),
                CelValue::Int(number) => json!(number),
                CelValue::Uint(number) => json!(number),
                CelValue::Double(number) => json!(number),
                other => {
                    let name = other.type_name().rsplit('.').next().unwrap_or_default().to_owned();
                    return Err(format!("type conversion error from '{name}' to '*structpb.Value'"));
                }
            }
        }
    })
}

/// A duration in the form of Protocol Buffers: seconds with none, three, six or nine decimal places.
fn seconds(nanoseconds: i64) -> String {
    let (sign, amount) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
    let (whole, part) = (amount / 1_000_000_000, amount % 1_000_000_000);
    match part {
        0 => format!("{sign}{whole}s"),
        _ if part % 1_000_000 == 0 => format!("{sign}{whole}.{:03}s", part / 1_000_000),
        _ if part % 1_000 == 0 => format!("{sign}{whole}.{:06}s", part / 1_000),
        _ => format!("{sign}{whole}.{part:09}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds() {
        for (nanoseconds, expected) in [
            (3_600_000_000_000, "3600s"),
            (-1_500_000_000, "-1.500s"),
            (1_000, "0.000001s"),
            (1, "0.000000001s"),
            (0, "0s"),
        ] {
            assert_eq!(seconds(nanoseconds), expected);
        }
    }
}
