//! Equality and order of values.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::budget::{EvalError, Meter};
use crate::opaque::Opaque;
use crate::types::{Identity, Kind, Shape};
use crate::value::{Key, List, Map, Object, Value};

/// The work of comparing two values, one of which may have to be decoded from its document.
const COMPARISON: usize = 8;

/// Whether two values are equal. Values of different types are unequal, except numbers, which are compared by amount.
/// Every compared element is charged and counts as work, because items of documents are decoded for each comparison.
/// Recursion is bounded by the depth of documents (128) and of expressions.
///
/// # Errors
/// When the cost limit is exceeded or a document does not match its shape.
pub fn equal<'a>(a: &Value<'a>, b: &Value<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    meter.traverse(1)?;
    meter.work(COMPARISON)?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            meter.traverse(a.len().min(b.len()))?;
            a == b
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.traverse(a.len().min(b.len()))?;
            a == b
        }
        (Value::List(a), Value::List(b)) => lists_equal(a, b, meter)?,
        (Value::Map(a), Value::Map(b)) => maps_equal(a, b, meter)?,
        (Value::Object(a), Value::Object(b)) => objects_equal(a, b, meter)?,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b, meter)?,
            (None, None) => true,
            _ => false,
        },
        (Value::Opaque(a), Value::Opaque(b)) => match (&**a, &**b) {
            (Opaque::Semver(a), Opaque::Semver(b)) => {
                meter.work(a.size().min(b.size()))?;
                a.compare(b).is_eq()
            }
            (Opaque::Url(a), Opaque::Url(b)) => {
                meter.work(a.size().min(b.size()) / 4)?;
                a == b
            }
            (a, b) => a == b,
        },
        (a, b) => numbers(a, b) == Some(Some(Ordering::Equal)),
    })
}

fn objects_equal<'a>(a: &Object<'a>, b: &Object<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.fields.len() != b.fields.len() {
        return Ok(false);
    }
    // Fields that neither object has are also looked up.
    meter.work(a.shape.fields.len() * COMPARISON)?;
    let mut declared = 0;
    for (name, field) in &a.shape.fields {
        declared += usize::from(a.fields.contains_key(&*field.name));
        let same = match (a.get(name)?, b.get(name)?) {
            (Some(a), Some(b)) => equal(&a, &b, meter)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    if declared == a.fields.len() {
        return Ok(true);
    }
    let is_undeclared = |name: &str| a.shape.fields.values().all(|field| *field.name != *name);
    for (name, value) in a.fields.iter() {
        meter.work(a.shape.fields.len())?;
        if is_undeclared(name) {
            match b.fields.get(name) {
                Some(other) if raw_equal(value, other, meter)? => {}
                _ => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// Whether two documents without a declared shape are equal. Recursion is bounded by the depth of documents (128).
fn raw_equal(a: &Json, b: &Json, meter: &mut Meter) -> Result<bool, EvalError> {
    meter.work(1)?;
    Ok(match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !raw_equal(a, b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Json::Object(a), Json::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (name, a) in a {
                match b.get(name) {
                    Some(b) if raw_equal(a, b, meter)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Json::String(a), Json::String(b)) => {
            meter.scan(a)?;
            a == b
        }
        (a, b) => a == b,
    })
}

fn lists_equal<'a>(a: &List<'a>, b: &List<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.identity() {
        Identity::Atomic => {
            if let (List::Json { items: a, shape: of_a, .. }, List::Json { items: b, shape: of_b, .. }) = (a, b) {
                return documents_equal(a, of_a, b, of_b, meter);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a?, &b?, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        // Order does not count; every item must have an equal one on the other side.
        Identity::Set => {
            for item in a.iter() {
                if !contains(b, &item?, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Identity::Map(keys) => {
            for item in a.iter() {
                let item = item?;
                let like = match place_of(b, &item, keys, meter)? {
                    Some(place) => b.get(place)?,
                    None => None,
                };
                match like {
                    Some(like) if equal(&item, &like, meter)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

/// Item by item. Scalars that match their shape are compared undecoded, which is many times faster.
fn documents_equal<'a>(
    a: &'a [Json],
    of_a: &'a Shape,
    b: &'a [Json],
    of_b: &'a Shape,
    meter: &mut Meter,
) -> Result<bool, EvalError> {
    let is_int = |shape: &Shape| matches!(shape.kind, Kind::Int | Kind::Any);
    let is_string = |shape: &Shape| matches!(shape.kind, Kind::String | Kind::Any);
    let is_bool = |shape: &Shape| matches!(shape.kind, Kind::Bool | Kind::Any);
    for (a, b) in a.iter().zip(b) {
        let known = match (a, b) {
            (Json::Number(a), Json::Number(b)) if is_int(of_a) && is_int(of_b) => {
                a.as_i64().zip(b.as_i64()).map(|(a, b)| a == b)
            }
            (Json::String(a), Json::String(b)) if is_string(of_a) && is_string(of_b) => {
                meter.traverse(a.len().min(b.len()))?;
                Some(a == b)
            }
            (Json::Bool(a), Json::Bool(b)) if is_bool(of_a) && is_bool(of_b) => Some(a == b),
            _ => None,
        };
        let same = match known {
            Some(same) => {
                meter.traverse(1)?;
                meter.work(1)?;
                same
            }
            None => equal(&Value::from_json(a, of_a)?, &Value::from_json(b, of_b)?, meter)?,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal<'a>(a: &Map<'a>, b: &Map<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let keys = a.keys();
    // The keys are collected before the first pair is compared.
    meter.work(keys.len())?;
    for key in keys {
        match (a.get(&key)?, b.get(&key)?) {
            (Some(a), Some(b)) if equal(&a, &b, meter)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Whether a list contains a value.
///
/// # Errors
/// As [`equal`].
pub fn contains<'a>(list: &List<'a>, value: &Value<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in list.iter() {
        if equal(&item?, value, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The index of the item with the same keys in a list of type map.
///
/// # Errors
/// As [`equal`].
pub fn place_of<'a>(
    list: &List<'a>,
    item: &Value<'a>,
    keys: &[Box<str>],
    meter: &mut Meter,
) -> Result<Option<usize>, EvalError> {
    for (place, other) in list.iter().enumerate() {
        let other = other?;
        let mut same = true;
        for key in keys {
            same = same
                && match (key_field(item, key)?, key_field(&other, key)?) {
                    (Some(a), Some(b)) => equal(&a, &b, meter)?,
                    (None, None) => true,
                    _ => false,
                };
        }
        if same {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

fn key_field<'a>(item: &Value<'a>, key: &str) -> Result<Option<Value<'a>>, EvalError> {
    match item {
        Value::Object(object) => object.get(&crate::types::escape(key).unwrap_or_default()),
        Value::Map(map) => map.get(&Key::String(crate::value::Text::Shared(key.into()))),
        _ => Ok(None),
    }
}

/// The order of two numbers of any type: `None` if either is not a number, `Some(None)` for a NaN.
pub fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => order_double(*a, amount(b)?),
        (a, Value::Double(b)) => order_double(*b, amount(a)?).map(Ordering::reverse),
        (a, b) => Some(amount(a)?.cmp(&amount(b)?)),
    })
}

fn amount(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    }
}

/// As upstream, the whole number is rounded to a double: neighbours of large numbers are equal to it.
fn order_double(double: f64, whole: i128) -> Option<Ordering> {
    double.partial_cmp(&(whole as f64))
}

/// The order of two values of one ordered type. `None` for a NaN.
///
/// # Errors
/// When the values have no order, or the cost limit is exceeded.
pub fn order(a: &Value<'_>, b: &Value<'_>, meter: &mut Meter) -> Result<Option<Ordering>, EvalError> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => {
            meter.traverse(a.len().min(b.len()))?;
            Some((**a).cmp(&**b))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.traverse(a.len().min(b.len()))?;
            Some(a.cmp(b))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Opaque(a), Value::Opaque(b)) => match (&**a, &**b) {
            (Opaque::Quantity(a), Opaque::Quantity(b)) => Some(a.cmp(b)),
            (Opaque::Semver(a), Opaque::Semver(b)) => {
                meter.work(a.size().min(b.size()))?;
                Some(a.compare(b))
            }
            _ => return Err(EvalError::NoSuchOverload),
        },
        (a, b) => numbers(a, b).ok_or(EvalError::NoSuchOverload)?,
    })
}
