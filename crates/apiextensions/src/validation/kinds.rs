//! Validation of a value's JSON type, and which formats apply to a type.

use apimachinery::field::Error;
use apimachinery::schema::{Schema, Type};
use serde_json::Value;

use super::constraints::wrong_type;
use crate::formats;
use crate::trail::Trail;

/// The format of a schema, if it is one of its type.
pub(super) fn format_of(schema: &Schema) -> Option<&str> {
    let type_ = if schema.int_or_string { Type::Any } else { schema.type_ };
    schema.format.as_deref().filter(|format| formats::applies(type_, format))
}

pub(super) fn type_error(schema: &Schema, value: &Value, path: &Trail<'_>) -> Option<Error> {
    let expected: &[&str] = match schema.type_ {
        // A default of this type is not checked, as upstream.
        _ if schema.int_or_string && matches!(path, Trail::Default) => return None,
        _ if schema.int_or_string => &["integer", "string"],
        Type::Any => return None,
        Type::Object => &["object"],
        Type::Array => &["array"],
        Type::String => &["string"],
        Type::Integer => &["integer"],
        Type::Number => &["number"],
        Type::Boolean => &["boolean"],
    };
    let (found, of_numbers) = match value {
        Value::Null if schema.nullable => return None,
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let is_whole = || value.as_f64().is_some_and(is_whole);
    let fits = expected.contains(&found)
        || (found == "integer" && expected.contains(&"number"))
        || (found == "number" && expected.contains(&"integer") && is_whole());
    if fits {
        return None;
    }
    match format_of(schema) {
        // Of a value that cannot have the format, the error names it instead of the type.
        Some(format) if !matches!(value, Value::Null | Value::String(_) | Value::Array(_)) => {
            Some(wrong_type(path, format, of_numbers))
        }
        _ => Some(wrong_type(path, &expected.join(","), found)),
    }
}

/// Whether a number is an integer without loss, as upstream decides.
fn is_whole(number: f64) -> bool {
    const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
    number.abs() <= MAX_SAFE && number.fract() == 0.0
}
