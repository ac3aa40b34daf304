//! The `math` extension.

use std::cmp::Ordering;

use super::Outcome;
use crate::budget::EvalError;
use crate::compare::numbers;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::value::Value;

pub fn extreme<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let ordering = if &*call.name == "math.greatest" { Ordering::Greater } else { Ordering::Less };
    let items = match args {
        [Value::List(list)] => {
            on.meter.charge(list.len() as u64)?;
            list.iter().collect::<Result<Vec<_>, _>>()?
        }
        plain => plain.to_vec(),
    };
    let mut best: Option<Value<'a>> = None;
    for item in items {
        if !matches!(item, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
            return Err(EvalError::NoSuchOverload);
        }
        let better = best.as_ref().is_none_or(|best| numbers(&item, best) == Some(Some(ordering)));
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::failed(format!("{}(list) argument must not be empty", call.name)))
}

pub fn single<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    Ok(match (&*call.name, args) {
        ("math.ceil", [Value::Double(number)]) => Value::Double(number.ceil()),
        ("math.floor", [Value::Double(number)]) => Value::Double(number.floor()),
        ("math.round", [Value::Double(number)]) => Value::Double(number.round()),
        ("math.trunc", [Value::Double(number)]) => Value::Double(number.trunc()),
        ("math.isInf", [Value::Double(number)]) => Value::Bool(number.is_infinite()),
        ("math.isNaN", [Value::Double(number)]) => Value::Bool(number.is_nan()),
        ("math.isFinite", [Value::Double(number)]) => Value::Bool(number.is_finite()),
        ("math.abs", [Value::Double(number)]) => Value::Double(number.abs()),
        ("math.abs", [Value::Int(number)]) => match number.checked_abs() {
            Some(number) => Value::Int(number),
            None => return Err(EvalError::failed("integer overflow")),
        },
        ("math.abs", [Value::Uint(number)]) => Value::Uint(*number),
        ("math.sign", [Value::Int(number)]) => Value::Int(number.signum()),
        ("math.sign", [Value::Uint(number)]) => Value::Uint(u64::from(*number > 0)),
        ("math.sign", [Value::Double(number)]) => {
            Value::Double(if *number == 0.0 || number.is_nan() { *number } else { number.signum() })
        }
        ("math.sqrt", [Value::Double(number)]) => Value::Double(number.sqrt()),
        ("math.sqrt", [Value::Int(number)]) => Value::Double((*number as f64).sqrt()),
        ("math.sqrt", [Value::Uint(number)]) => Value::Double((*number as f64).sqrt()),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

pub fn bits<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    Ok(match (&*call.name, args) {
        ("math.bitAnd", [Value::Int(a), Value::Int(b)]) => Value::Int(a & b),
        ("math.bitAnd", [Value::Uint(a), Value::Uint(b)]) => Value::Uint(a & b),
        ("math.bitOr", [Value::Int(a), Value::Int(b)]) => Value::Int(a | b),
        ("math.bitOr", [Value::Uint(a), Value::Uint(b)]) => Value::Uint(a | b),
        ("math.bitXor", [Value::Int(a), Value::Int(b)]) => Value::Int(a ^ b),
        ("math.bitXor", [Value::Uint(a), Value::Uint(b)]) => Value::Uint(a ^ b),
        ("math.bitNot", [Value::Int(a)]) => Value::Int(!a),
        ("math.bitNot", [Value::Uint(a)]) => Value::Uint(!a),
        (name @ ("math.bitShiftLeft" | "math.bitShiftRight"), [_, Value::Int(by)]) if *by < 0 => {
            let name = name.trim_start_matches("math.");
            return Err(EvalError::failed(format!("math.{name}() negative offset: {by}")));
        }
        // Shifting by the width or more gives zero; right shifts of ints are logical.
        ("math.bitShiftLeft", [Value::Int(a), Value::Int(by)]) => {
            Value::Int(shift(a.cast_unsigned(), *by, true).cast_signed())
        }
        ("math.bitShiftLeft", [Value::Uint(a), Value::Int(by)]) => Value::Uint(shift(*a, *by, true)),
        ("math.bitShiftRight", [Value::Int(a), Value::Int(by)]) => {
            Value::Int(shift(a.cast_unsigned(), *by, false).cast_signed())
        }
        ("math.bitShiftRight", [Value::Uint(a), Value::Int(by)]) => Value::Uint(shift(*a, *by, false)),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn shift(number: u64, by: i64, left: bool) -> u64 {
    let by = u32::try_from(by).unwrap_or(u32::MAX);
    let shifted = if left { number.checked_shl(by) } else { number.checked_shr(by) };
    shifted.unwrap_or(0)
}
