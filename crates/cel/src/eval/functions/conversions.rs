//! Conversions between types, and the fields of times.

use std::rc::Rc;

use super::Outcome;
use super::text::display;
use crate::budget::EvalError;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::times;
use crate::value::Value;

pub fn convert<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let [value] = args else { return Err(EvalError::NoSuchOverload) };
    if let Value::String(text) = value {
        on.meter.scan(text)?;
    }
    match &*call.name {
        "type" => Ok(Value::Type(value.type_name())),
        "dyn" => Ok(value.clone()),
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => {
            if let Value::Bytes(data) = value {
                on.meter.text(data.len())?;
                on.meter.allocate(data.len())?;
            }
            if let Value::String(_) = value { Ok(value.clone()) } else { display(value).map(Value::string) }
        }
        "bytes" => match value {
            Value::String(text) => {
                on.meter.text(text.len())?;
                on.meter.allocate(text.len())?;
                Ok(Value::Bytes(Rc::from(text.as_bytes())))
            }
            Value::Bytes(_) => Ok(value.clone()),
            _ => Err(EvalError::NoSuchOverload),
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::String(text) => times::parse_timestamp(text).map(Value::Timestamp),
            Value::Int(seconds) => times::from_seconds(*seconds).map(Value::Timestamp),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::String(text) => match text.parse::<apimachinery::duration::Duration>() {
                Ok(duration) => Ok(Value::Duration(duration.as_nanos())),
                Err(_) => Err(unreadable("google.protobuf.Duration")),
            },
            Value::Int(nanos) => Ok(Value::Duration(*nanos)),
            _ => Err(EvalError::NoSuchOverload),
        },
    }
}

fn to_bool<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(unreadable("bool")),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_int<'a>(value: &Value<'a>) -> Outcome<'a> {
    let overflow = || EvalError::failed("integer overflow");
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        // Both ends are excluded: near them a double cannot represent neighbouring integers.
        Value::Double(number) if number.abs() < 9_223_372_036_854_775_808.0 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => Err(overflow()),
        Value::String(text) => text.parse().map(Value::Int).map_err(|_| unreadable("int")),
        Value::Timestamp(time) => Ok(Value::Int(time.seconds())),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_uint<'a>(value: &Value<'a>) -> Outcome<'a> {
    let overflow = || EvalError::failed("unsigned integer overflow");
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) if (0.0..18_446_744_073_709_551_616.0).contains(number) => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) if text.starts_with('+') => Err(unreadable("uint")),
        Value::String(text) => text.parse().map(Value::Uint).map_err(|_| unreadable("uint")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_double<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => text.parse().map(Value::Double).map_err(|_| unreadable("double")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn unreadable(type_: &str) -> EvalError {
    EvalError::failed(format!("type conversion error from 'string' to '{type_}'"))
}

pub fn time_field<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    if let [_, Value::String(zone)] = args {
        on.meter.scan(zone)?;
    }
    let number = match args {
        [Value::Timestamp(time)] => times::field(&call.name, *time, None)?,
        [Value::Timestamp(time), Value::String(zone)] => times::field(&call.name, *time, Some(zone))?,
        [Value::Duration(nanos)] => times::duration_field(&call.name, *nanos)?,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Int(number))
}
