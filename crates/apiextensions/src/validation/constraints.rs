//! Validation of one value: its type, its format, and the limits in its schema.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::schema::{Constraints, Schema, Type};
use serde_json::Value;

use crate::trail::Trail;

fn raw(path: &Trail<'_>) -> String {
    match path {
        Trail::Root => String::new(),
        _ => path.path().as_str().to_owned(),
    }
}

pub(super) fn wrong(path: &Trail<'_>, value: &Value, what: String) -> Error {
    Error::invalid(&path.path(), value.clone(), format!("{} in body {what}", raw(path)))
}

/// Errors without a field in go-openapi are reported at the root, with an empty value.
pub(super) fn whole(path: &Trail<'_>, what: &str) -> Error {
    Error::invalid(&Path::root(), "", format!("\"{}\" {what}", raw(path)))
}

pub(super) fn wrong_type(path: &Trail<'_>, expected: &str, found: &str) -> Error {
    Error::type_invalid(&path.path(), found, format!("{} in body must be of type {expected}: {found:?}", raw(path)))
}

pub(super) fn type_error(schema: &Schema, value: &Value, path: &Trail<'_>) -> Option<Error> {
    let expected: &[&str] = match schema.type_ {
        _ if schema.int_or_string => &["integer", "string"],
        Type::Any => return None,
        Type::Object => &["object"],
        Type::Array => &["array"],
        Type::String => &["string"],
        Type::Integer => &["integer"],
        Type::Number => &["number"],
        Type::Boolean => &["boolean"],
    };
    let found = match value {
        Value::Null if schema.nullable => return None,
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = expected.contains(&found) || (found == "integer" && expected.contains(&"number"));
    (!fits).then(|| wrong_type(path, &expected.join(","), found))
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

pub(super) fn out_of_format(schema: &Schema, value: &Value, path: &Trail<'_>) -> Option<Error> {
    let format = schema.format.as_deref()?;
    let fits = match format {
        "int32" => value.as_f64().is_some_and(|n| (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&n)),
        "int64" => value.is_i64() || value.as_f64().is_some_and(|n| n.abs() < 9.3e18),
        _ => true,
    };
    (!fits).then(|| {
        let type_ = if schema.type_ == Type::Number { "number" } else { "integer" };
        let text = format!("Checked value must be of type {type_} with format {format} in {}", raw(path));
        Error::invalid(&Path::root(), "", text)
    })
}

pub(super) fn check_number(
    constraints: &Constraints,
    number: f64,
    value: &Value,
    path: &Trail<'_>,
    errors: &mut ErrorList,
) {
    if let Some(max) = constraints.maximum {
        if constraints.exclusive_maximum && number >= max {
            errors.push(wrong(path, value, format!("should be less than {max}")));
        } else if number > max {
            errors.push(wrong(path, value, format!("should be less than or equal to {max}")));
        }
    }
    if let Some(min) = constraints.minimum {
        if constraints.exclusive_minimum && number <= min {
            errors.push(wrong(path, value, format!("should be greater than {min}")));
        } else if number < min {
            errors.push(wrong(path, value, format!("should be greater than or equal to {min}")));
        }
    }
    if let Some(factor) = constraints.multiple_of.filter(|factor| *factor > 0.0)
        && ((number / factor) - (number / factor).round()).abs() > 1e-9
    {
        errors.push(wrong(path, value, format!("should be a multiple of {factor}")));
    }
}

pub(super) fn check_items(
    constraints: &Constraints,
    items: &[Value],
    value: &Value,
    path: &Trail<'_>,
    errors: &mut ErrorList,
) {
    let count = items.len();
    if let Some(max) = constraints.max_items.filter(|max| count as u64 > *max) {
        errors.push(Error::too_many(&path.path(), count, usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if let Some(min) = constraints.min_items.filter(|min| (count as u64) < *min) {
        errors.push(wrong(path, value, format!("should have at least {min} items")));
    }
    if constraints.unique_items {
        let distinct: BTreeSet<String> = items.iter().map(Value::to_string).collect();
        if distinct.len() < count {
            errors.push(wrong(path, value, "shouldn't contain duplicates".to_owned()));
        }
    }
}

pub(super) fn check_size(
    constraints: &Constraints,
    size: usize,
    value: &Value,
    path: &Trail<'_>,
    errors: &mut ErrorList,
) {
    if let Some(max) = constraints.max_properties.filter(|max| size as u64 > *max) {
        errors.push(Error::too_many(&path.path(), size, usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if let Some(min) = constraints.min_properties.filter(|min| (size as u64) < *min) {
        errors.push(wrong(path, value, format!("should have at least {min} properties")));
    }
}

/// JSON equality in which 1 and 1.0 are the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
