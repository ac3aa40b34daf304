//! Operators.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Outcome;
use crate::budget::EvalError;
use crate::compare::{contains, equal, order, place_of};
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::types::Identity;
use crate::value::{ELEMENT, Key, List, Value, whole};

fn overflow<'a>() -> Outcome<'a> {
    Err(EvalError::failed("integer overflow"))
}

fn checked<'a>(result: Option<i64>) -> Outcome<'a> {
    result.map_or_else(overflow, |number| Ok(Value::Int(number)))
}

fn checked_unsigned<'a>(result: Option<u64>) -> Outcome<'a> {
    result.map(Value::Uint).ok_or_else(|| EvalError::failed("unsigned integer overflow"))
}

fn checked_duration<'a>(result: Option<i64>) -> Outcome<'a> {
    result.map(Value::Duration).ok_or_else(|| EvalError::failed("integer overflow"))
}

pub fn not<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    match args {
        [Value::Bool(flag)] => Ok(Value::Bool(!flag)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub fn equals<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let (a, b) = comparable(args)?;
    equal(a, b, on.meter).map(Value::Bool)
}

pub fn differs<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let (a, b) = comparable(args)?;
    equal(a, b, on.meter).map(|same| Value::Bool(!same))
}

/// As upstream, the values of libraries are compared with their own type only, and all others with any.
fn comparable<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v Value<'a>, &'v Value<'a>), EvalError> {
    match args {
        [Value::Opaque(a), Value::Opaque(b)] if a.type_name() != b.type_name() => Err(EvalError::NoSuchOverload),
        [a @ Value::Opaque(_), b @ Value::Opaque(_)] => Ok((a, b)),
        [Value::Opaque(_), _] => Err(EvalError::NoSuchOverload),
        [a, b] => Ok((a, b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub fn within<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    if let [value, Value::List(list)] = args {
        // As upstream: an item costs one unit, not a tenth.
        on.meter.charge(list.len() as u64)?;
        return contains(list, value, on.meter).map(Value::Bool);
    }
    on.meter.charge(1)?;
    match args {
        [key, Value::Map(map)] => {
            if let Value::String(key) = key {
                on.meter.scan(key)?;
            }
            Ok(Value::Bool(Key::from_value(key).is_some_and(|key| map.contains(&key))))
        }
        [Value::String(name), Value::Object(object)] => Ok(Value::Bool(object.has(name))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub fn relation<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let [a, b] = args else { return Err(EvalError::NoSuchOverload) };
    let order = order(a, b, on.meter).map_err(|error| match error {
        EvalError::NoSuchOverload => no_overload(&call.name, args),
        other => other,
    })?;
    Ok(Value::Bool(match &*call.name {
        "_<_" => order == Some(Ordering::Less),
        "_<=_" => order.is_some_and(Ordering::is_le),
        "_>_" => order == Some(Ordering::Greater),
        _ => order.is_some_and(Ordering::is_ge),
    }))
}

pub fn add<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(a), Value::String(b)] => {
            on.meter.text(a.len() + b.len())?;
            on.meter.allocate(a.len() + b.len())?;
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            return Ok(Value::string(text));
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            on.meter.text(a.len() + b.len())?;
            on.meter.allocate(a.len() + b.len())?;
            return Ok(Value::Bytes(Rc::from([&**a, &**b].concat())));
        }
        [Value::List(a), Value::List(b)] => return add_lists(on, a, b),
        _ => {}
    }
    on.meter.charge(1)?;
    match args {
        [Value::Int(a), Value::Int(b)] => checked(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => checked_unsigned(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::Duration(a), Value::Duration(b)] => checked_duration(a.checked_add(*b)),
        [Value::Timestamp(time), Value::Duration(nanos)] | [Value::Duration(nanos), Value::Timestamp(time)] => {
            time.plus(*nanos).map(Value::Timestamp)
        }
        _ => Err(no_overload("_+_", args)),
    }
}

/// Upstream names the function if values of the first type have no such function, unless they receive any call.
fn no_overload(name: &str, args: &[Value<'_>]) -> EvalError {
    let is_known = args.first().is_some_and(|first| match first {
        Value::String(_) | Value::Duration(_) | Value::Timestamp(_) | Value::Int(_) => true,
        Value::Double(_) => name != "_%_",
        Value::Uint(_) => name != "-_",
        Value::List(_) => name == "_+_",
        Value::Bytes(_) => matches!(name, "_+_" | "_<_" | "_<=_" | "_>_" | "_>=_"),
        Value::Bool(_) => matches!(name, "_<_" | "_<=_" | "_>_" | "_>=_"),
        _ => false,
    });
    if is_known { EvalError::NoSuchOverload } else { EvalError::failed(format!("no such overload: {name}")) }
}

/// Appends lists; sets and keyed lists add missing items, and keyed lists replace items of the same key.
fn add_lists<'a>(on: &mut Evaluation<'a, '_>, a: &List<'a>, b: &List<'a>) -> Outcome<'a> {
    on.meter.charge(1)?;
    on.meter.allocate((a.len() + b.len()) * ELEMENT)?;
    let identity = a.identity();
    let mut items = a.iter().collect::<Result<Vec<_>, _>>()?;
    for item in b.iter() {
        let item = item?;
        let place = match identity {
            Identity::Atomic => None,
            Identity::Set => {
                if contains(a, &item, on.meter)? {
                    continue;
                }
                None
            }
            Identity::Map(keys) => place_of(a, &item, keys, on.meter)?,
        };
        match place {
            Some(place) => items[place] = item,
            None => items.push(item),
        }
    }
    Ok(Value::List(List::Owned { items: Rc::new(items), identity }))
}

pub fn subtract<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    match args {
        [Value::Int(a), Value::Int(b)] => checked(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => checked_unsigned(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => checked_duration(a.checked_sub(*b)),
        [Value::Timestamp(a), Value::Timestamp(b)] => checked_duration(a.since(*b)),
        [Value::Timestamp(time), Value::Duration(nanos)] => match nanos.checked_neg() {
            Some(nanos) => time.plus(nanos).map(Value::Timestamp),
            None => Err(EvalError::failed("integer overflow")),
        },
        _ => Err(no_overload("_-_", args)),
    }
}

pub fn multiplicative<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let zero = |name: &str| if name == "_%_" { "modulus by zero" } else { "division by zero" };
    match (&*call.name, args) {
        ("_*_", [Value::Int(a), Value::Int(b)]) => checked(a.checked_mul(*b)),
        ("_*_", [Value::Uint(a), Value::Uint(b)]) => checked_unsigned(a.checked_mul(*b)),
        ("_*_", [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a * b)),
        ("_/_", [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a / b)),
        (name, [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)]) => Err(EvalError::failed(zero(name))),
        ("_/_", [Value::Int(a), Value::Int(b)]) => checked(a.checked_div(*b)),
        ("_%_", [Value::Int(a), Value::Int(b)]) => checked(a.checked_rem(*b)),
        ("_/_", [Value::Uint(a), Value::Uint(b)]) => Ok(Value::Uint(a / b)),
        ("_%_", [Value::Uint(a), Value::Uint(b)]) => Ok(Value::Uint(a % b)),
        (name, args) => Err(no_overload(name, args)),
    }
}

pub fn negate<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    match args {
        [Value::Int(number)] => checked(number.checked_neg()),
        [Value::Double(number)] => Ok(Value::Double(-number)),
        [Value::Duration(nanos)] => checked_duration(nanos.checked_neg()),
        _ => Err(no_overload("-_", args)),
    }
}

pub fn index<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    if let [_, Value::String(key)] = args {
        on.meter.scan(key)?;
    }
    match args {
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), key] => find(inner, key).map(|found| Value::Optional(found.map(Rc::new))),
        [from, key] => find(from, key)?.map_or_else(|| Err(missing(from, key)), Ok),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub fn optional_index<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    if let [_, Value::String(key)] = args {
        on.meter.scan(key)?;
    }
    match args {
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), key] => find(inner, key).map(|found| Value::Optional(found.map(Rc::new))),
        [from, key] => find(from, key).map(|found| Value::Optional(found.map(Rc::new))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn missing(from: &Value<'_>, key: &Value<'_>) -> EvalError {
    let key = super::text::display(key).unwrap_or_default();
    match from {
        Value::List(_) => EvalError::failed(format!("index out of bounds: {key}")),
        _ => EvalError::NoSuchKey(key),
    }
}

/// The element; `None` if it is absent.
fn find<'a>(from: &Value<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
    match (from, key) {
        (Value::List(list), key) => {
            let index = match key {
                Value::Int(index) => Some(*index),
                Value::Uint(index) => i64::try_from(*index).ok(),
                Value::Double(index) => whole(*index),
                _ => return Err(EvalError::failed(format!("unsupported index type '{}' in list", key.type_name()))),
            };
            index.and_then(|index| usize::try_from(index).ok()).map_or(Ok(None), |index| list.get(index))
        }
        (Value::Map(map), key) => Key::from_value(key).map_or(Ok(None), |key| map.get(&key)),
        (Value::Object(object), Value::String(name)) => object.get(name),
        // Null and scalars have no items.
        _ => Ok(None),
    }
}

pub fn size<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let size = match args {
        // Counting characters is free upstream. It is fast, but must not be repeated on megabytes a million times.
        [Value::String(text)] => {
            on.meter.traverse(text.len() / 16)?;
            text.chars().count()
        }
        [Value::Bytes(data)] => data.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Int(size as i64))
}
