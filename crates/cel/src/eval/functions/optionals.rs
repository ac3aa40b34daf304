//! Optional values.

use std::rc::Rc;

use super::Outcome;
use crate::budget::EvalError;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::value::{ELEMENT, Value};

pub fn make<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    match (&*call.name, args) {
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if is_zero(value) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::some(value.clone())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(data) => data.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Object(object) => object.fields.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        Value::Optional(inner) => inner.is_none(),
        Value::Timestamp(time) => time.is_zero(),
        Value::Type(_) | Value::Opaque(_) => false,
    }
}

pub fn unwrap<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.charge(list.len().max(1) as u64)?;
    on.meter.allocate(list.len() * ELEMENT)?;
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(inner) => items.extend(inner.map(Rc::unwrap_or_clone)),
            _ => return Err(EvalError::NoSuchOverload),
        }
    }
    Ok(Value::list(items))
}

pub fn read<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    match (&*call.name, args) {
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value", [Value::Optional(Some(inner))]) => Ok((**inner).clone()),
        ("value", [Value::Optional(None)]) => Err(EvalError::failed("optional.none() dereference")),
        _ => Err(EvalError::NoSuchOverload),
    }
}
