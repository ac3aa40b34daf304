//! Documents that expressions compute.

use base64::Engine as _;
use cel::Value as CelValue;
use cel::value::Key;
use serde_json::{Map, Value, json};

/// Levels of a computed document: more than any object may have.
const MAX_DEPTH: usize = 200;

/// A computed value as a document.
///
/// # Errors
/// If the value has no form in JSON.
pub fn to_json(value: &CelValue<'_>) -> Result<Value, String> {
    below(value, MAX_DEPTH)
}

fn below(value: &CelValue<'_>, depth: usize) -> Result<Value, String> {
    let depth = depth.checked_sub(1).ok_or("the computed document is too deep")?;
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(flag) => json!(flag),
        CelValue::Int(number) => json!(number),
        CelValue::Uint(number) => json!(number),
        CelValue::Double(number) => json!(number),
        CelValue::String(text) => Value::from(&**text),
        CelValue::Bytes(data) => Value::from(base64::prelude::BASE64_STANDARD.encode(data)),
        CelValue::Timestamp(time) => Value::from(time.to_string()),
        CelValue::Object(object) => Value::Object(object.fields.clone()),
        CelValue::Optional(Some(inner)) => below(inner, depth)?,
        CelValue::List(list) => {
            let item = |item: Result<CelValue<'_>, cel::EvalError>| below(&item.map_err(|why| why.to_string())?, depth);
            Value::Array(list.iter().map(item).collect::<Result<_, _>>()?)
        }
        CelValue::Map(map) => {
            let mut fields = Map::new();
            for key in map.keys() {
                let Key::String(name) = &key else { return Err("keys of an object must be strings".to_owned()) };
                let value = map.get(&key).map_err(|why| why.to_string())?.unwrap_or(CelValue::Null);
                fields.insert(name.to_string(), below(&value, depth)?);
            }
            Value::Object(fields)
        }
        other => return Err(format!("a value of type {} cannot be part of an object", other.type_name())),
    })
}
