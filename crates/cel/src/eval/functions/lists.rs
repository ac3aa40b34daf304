//! Functions of lists, and of lists as sets.

use std::cmp::Ordering;

use super::Outcome;
use crate::budget::EvalError;
use crate::compare::{contains, equal, order};
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::value::{ELEMENT, List, Value};

/// The maximum depth of `flatten`.
const MAX_FLATTEN: i64 = 100;

fn items<'a>(on: &mut Evaluation<'a, '_>, list: &List<'a>) -> Result<Vec<Value<'a>>, EvalError> {
    on.meter.charge(list.len().max(1) as u64)?;
    on.meter.allocate(list.len() * ELEMENT)?;
    list.iter().collect()
}

fn compare<'a>(on: &mut Evaluation<'a, '_>, a: &Value<'a>, b: &Value<'a>) -> Result<Ordering, EvalError> {
    on.meter.traverse(1)?;
    Ok(order(a, b, on.meter)?.unwrap_or(Ordering::Equal))
}

pub fn summary<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    let items = items(on, list)?;
    match &*call.name {
        "isSorted" => {
            for pair in items.windows(2) {
                if compare(on, &pair[0], &pair[1])?.is_gt() {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        "sum" => sum(&items),
        name => {
            let ordering = if name == "max" { Ordering::Greater } else { Ordering::Less };
            let mut items = items.into_iter();
            let first = items.next();
            let Some(mut best) = first else {
                return Err(EvalError::failed(format!("{name} called on empty list")));
            };
            for item in items {
                if compare(on, &item, &best)? == ordering {
                    best = item;
                }
            }
            Ok(best)
        }
    }
}

/// The sum of durations, of which an empty list has none to tell its type.
pub fn sum_durations<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    match summary(on, call, args)? {
        Value::Int(0) => Ok(Value::Duration(0)),
        total => Ok(total),
    }
}

fn sum<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    let overflow = || EvalError::failed("integer overflow");
    let Some(first) = items.first() else { return Ok(Value::Int(0)) };
    let mut total = first.clone();
    for item in &items[1..] {
        total = match (&total, item) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
            (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_add(*b).ok_or_else(overflow)?),
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Duration(a), Value::Duration(b)) => Value::Duration(a.checked_add(*b).ok_or_else(overflow)?),
            _ => return Err(EvalError::NoSuchOverload),
        };
    }
    Ok(total)
}

pub fn slice<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.charge(1)?;
    if *start < 0 || *end < 0 {
        return Err(EvalError::failed(format!("cannot slice({start}, {end}), negative indexes not supported")));
    }
    if start > end {
        return Err(EvalError::failed(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        )));
    }
    let (from, to) = (usize::try_from(*start).unwrap_or(usize::MAX), usize::try_from(*end).unwrap_or(usize::MAX));
    if to > list.len() {
        return Err(EvalError::failed(format!("cannot slice({start}, {end}), list is length {}", list.len())));
    }
    on.meter.charge((to - from) as u64)?;
    on.meter.allocate((to - from) * ELEMENT)?;
    let items = (from..to).filter_map(|index| list.get(index).transpose()).collect::<Result<_, _>>()?;
    Ok(Value::list(items))
}

pub fn flatten<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::NoSuchOverload),
    };
    if depth < 0 {
        return Err(EvalError::failed("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten_into(on, list, depth.min(MAX_FLATTEN), &mut out)?;
    Ok(Value::list(out))
}

/// Recursion is bounded by [`MAX_FLATTEN`].
fn flatten_into<'a>(
    on: &mut Evaluation<'a, '_>,
    list: &List<'a>,
    depth: i64,
    out: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    for item in items(on, list)? {
        match item {
            Value::List(inner) if depth > 0 => flatten_into(on, &inner, depth - 1, out)?,
            item => {
                on.meter.allocate(ELEMENT)?;
                out.push(item);
            }
        }
    }
    Ok(())
}

pub fn distinct<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    let mut out: Vec<Value<'a>> = Vec::new();
    'items: for item in items(on, list)? {
        for known in &out {
            if equal(known, &item, on.meter)? {
                continue 'items;
            }
        }
        out.push(item);
    }
    Ok(Value::list(out))
}

/// `list.sort()`, and `list.sortBy(item, key)`, for which the second argument has the key of each item.
pub fn sort<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, keys) = match args {
        [Value::List(list)] => (list, list),
        [Value::List(list), Value::List(keys)] => (list, keys),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let (keys, items) = (items(on, keys)?, items(on, list)?);
    sorted(on, keys.into_iter().zip(items).collect())
}

/// The values in the order of their keys.
fn sorted<'a>(on: &mut Evaluation<'a, '_>, mut pairs: Vec<(Value<'a>, Value<'a>)>) -> Outcome<'a> {
    let mut failure = None;
    pairs.sort_by(|(a, _), (b, _)| {
        // After an error the order no longer matters.
        if failure.is_some() {
            return Ordering::Equal;
        }
        compare(on, a, b).unwrap_or_else(|error| {
            failure = Some(error);
            Ordering::Equal
        })
    });
    failure.map_or_else(|| Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect())), Err)
}

pub fn range<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(count)] = args else { return Err(EvalError::NoSuchOverload) };
    let size = usize::try_from(*count).unwrap_or(0);
    on.meter.charge(size.max(1) as u64)?;
    on.meter.allocate(size.saturating_mul(ELEMENT))?;
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}

pub fn end<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let [Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    let index = if &*call.name == "first" { Some(0) } else { list.len().checked_sub(1) };
    let found = match index {
        Some(index) => list.get(index)?,
        None => None,
    };
    Ok(Value::Optional(found.map(std::rc::Rc::new)))
}

pub fn sets<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(a), Value::List(b)] = args else { return Err(EvalError::NoSuchOverload) };
    on.meter.charge(((a.len() * b.len()) as u64).max(1))?;
    Ok(Value::Bool(match &*call.name {
        "sets.contains" => holds_all(on, a, b)?,
        "sets.equivalent" => holds_all(on, a, b)? && holds_all(on, b, a)?,
        _ => {
            for item in b.iter() {
                if contains(a, &item?, on.meter)? {
                    return Ok(Value::Bool(true));
                }
            }
            false
        }
    }))
}

fn holds_all<'a>(on: &mut Evaluation<'a, '_>, list: &List<'a>, required: &List<'a>) -> Result<bool, EvalError> {
    for item in required.iter() {
        if !contains(list, &item?, on.meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
