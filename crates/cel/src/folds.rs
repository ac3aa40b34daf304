//! Evaluates macros over ranges.

use std::collections::BTreeMap;

use crate::ast::FoldKind;
use crate::budget::EvalError;
use crate::eval::node::FoldNode;
use crate::eval::{Evaluation, insert};
use crate::value::{ELEMENT, Key, List, Map, Value};

/// The accumulator of a fold.
enum Accumulator<'a> {
    /// `all` and `exists`: the error that applies unless an element is decisive.
    Verdict(Option<EvalError>),
    Count(u64),
    List(Vec<Value<'a>>),
    Map(BTreeMap<Key<'a>, Value<'a>>),
}

enum Range<'a> {
    List(List<'a>),
    Map(Map<'a>, Vec<Key<'a>>),
}

impl<'a> Range<'a> {
    fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Map(_, keys) => keys.len(),
        }
    }
}

impl<'a> Evaluation<'a, '_> {
    pub(crate) fn fold(&mut self, fold: &'a FoldNode) -> Result<Value<'a>, EvalError> {
        let range = match self.eval(&fold.range)? {
            Value::List(list) => Range::List(list),
            Value::Map(map) => {
                self.meter.allocate(map.len() * ELEMENT)?;
                let keys = map.keys();
                Range::Map(map, keys)
            }
            _ => return Err(EvalError::NoSuchOverload),
        };
        let mut gathered = match fold.kind {
            FoldKind::All | FoldKind::Exists => Accumulator::Verdict(None),
            FoldKind::ExistsOne => Accumulator::Count(0),
            FoldKind::Filter | FoldKind::List => Accumulator::List(Vec::new()),
            FoldKind::Map | FoldKind::MapEntry => Accumulator::Map(BTreeMap::new()),
        };
        // In upstream's expanded loop: the condition of each round, and reading the accumulator in it.
        let (condition, accumulator) = match fold.kind {
            FoldKind::All => (2, 1),
            FoldKind::Exists => (3, 1),
            _ => (0, 0),
        };
        let scope = self.locals_len();
        for index in 0..range.len() {
            self.meter.charge(condition + accumulator)?;
            let (first, second) = element(&range, index, fold.two)?;
            let single = (!fold.two).then(|| first.clone());
            self.push_locals(first.clone(), second);
            let decided = self.step(fold, &mut gathered, &first, single);
            self.truncate_locals(scope);
            if let Some(value) = decided? {
                // The condition ends the loop before the next element.
                self.meter.charge(if index + 1 < range.len() { condition } else { 0 })?;
                self.meter.charge(1)?;
                return Ok(value);
            }
        }
        // The result; the comparison of a count with one.
        self.meter.charge(if fold.kind == FoldKind::ExistsOne { 2 } else { 1 })?;
        match gathered {
            Accumulator::Verdict(Some(error)) => Err(error),
            Accumulator::Verdict(None) => Ok(Value::Bool(fold.kind == FoldKind::All)),
            Accumulator::Count(count) => Ok(Value::Bool(count == 1)),
            Accumulator::List(items) => Ok(Value::list(items)),
            Accumulator::Map(entries) => Ok(Value::map(entries)),
        }
    }

    /// Processes one element. Returns a value when the fold is decided.
    fn step(
        &mut self,
        fold: &'a FoldNode,
        gathered: &mut Accumulator<'a>,
        key: &Value<'a>,
        single: Option<Value<'a>>,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let holds = match &fold.predicate {
            None => true,
            Some(predicate) => match (self.eval(predicate), &mut *gathered) {
                (Ok(Value::Bool(holds)), _) => holds,
                (Err(EvalError::CostExceeded), _) => return Err(EvalError::CostExceeded),
                // `all` and `exists` continue: another element may be decisive.
                (outcome, Accumulator::Verdict(failure)) => {
                    let error = outcome.err().unwrap_or(EvalError::NoSuchOverload);
                    failure.get_or_insert(error);
                    return Ok(None);
                }
                (outcome, _) => return Err(outcome.err().unwrap_or(EvalError::NoSuchOverload)),
            },
        };
        match gathered {
            Accumulator::Verdict(_) => {
                let decisive = fold.kind == FoldKind::Exists;
                return Ok((holds == decisive).then_some(Value::Bool(decisive)));
            }
            _ if !holds => {}
            Accumulator::Count(count) => {
                self.meter.charge(2)?;
                *count += 1;
            }
            Accumulator::List(items) => {
                // Reading the accumulator, a list of one item, the addition; `filter` also reads the item.
                self.meter.charge(if fold.transform.is_some() { 12 } else { 13 })?;
                self.meter.allocate(ELEMENT)?;
                let value = match (&fold.transform, single) {
                    (Some(transform), _) => self.eval(transform)?,
                    (None, Some(single)) => single,
                    (None, None) => return Err(EvalError::NoSuchOverload),
                };
                items.push(value);
            }
            Accumulator::Map(entries) => {
                // Reading the accumulator and the key, the insertion.
                self.meter.charge(if fold.kind == FoldKind::Map { 3 } else { 2 })?;
                self.meter.allocate(2 * ELEMENT)?;
                let Some(transform) = &fold.transform else { return Err(EvalError::NoSuchOverload) };
                let value = self.eval(transform)?;
                if fold.kind == FoldKind::Map {
                    insert(entries, key, value)?;
                } else {
                    let Value::Map(made) = value else { return Err(EvalError::NoSuchOverload) };
                    for key in made.keys() {
                        if let Some(value) = made.get(&key)? {
                            insert(entries, &key.to_value(), value)?;
                        }
                    }
                }
            }
        }
        Ok(None)
    }
}

/// The values of the variables: index or key first, value second. A single variable is the element of a list and the
/// key of a map.
fn element<'a>(range: &Range<'a>, index: usize, two: bool) -> Result<(Value<'a>, Option<Value<'a>>), EvalError> {
    match range {
        Range::List(list) => {
            let item = list.get(index)?.unwrap_or(Value::Null);
            Ok(if two { (Value::Int(index as i64), Some(item)) } else { (item, None) })
        }
        Range::Map(map, keys) => {
            let key = &keys[index];
            let value = if two { map.get(key)? } else { None };
            Ok((key.to_value(), value))
        }
    }
}
