//! Evaluates the checked tree. Every step is charged, so that no input makes an expression run long.

pub mod cost;
pub mod functions;
pub mod node;
mod plan;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::ast::Literal;
use crate::budget::{EvalError, Meter};
use crate::eval::functions::text::bytes_value;
use crate::eval::node::{CallNode, Node, NodeKind};
use crate::re2::{self, Pattern};
use crate::value::{ELEMENT, Key, Value};

/// The costs of constructing lists and maps, besides their elements.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

/// The work of compiling a pattern that is not a literal: one expression can compile 200, which bounds the cache too.
const PATTERN_WORK: usize = 100_000;

/// The state of one evaluation.
pub struct Evaluation<'a, 'm> {
    pub(crate) meter: &'m mut Meter,
    variables: &'m [Option<Value<'a>>],
    locals: Vec<Value<'a>>,
    /// Compiled patterns that are not literals.
    patterns: HashMap<String, Result<Arc<Pattern>, String>>,
}

type Outcome<'a> = Result<Value<'a>, EvalError>;

impl<'a, 'm> Evaluation<'a, 'm> {
    pub fn new(variables: &'m [Option<Value<'a>>], meter: &'m mut Meter) -> Self {
        Self { meter, variables, locals: Vec::new(), patterns: HashMap::new() }
    }

    pub(crate) fn locals_len(&self) -> usize {
        self.locals.len()
    }

    pub(crate) fn push_locals(&mut self, first: Value<'a>, second: Option<Value<'a>>) {
        self.locals.push(first);
        self.locals.extend(second);
    }

    pub(crate) fn truncate_locals(&mut self, length: usize) {
        self.locals.truncate(length);
    }

    /// Recursion is bounded by the parser's depth.
    pub fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        match &node.kind {
            NodeKind::Constant(literal) => Ok(constant(literal)),
            NodeKind::Variable(slot) => {
                self.meter.charge(1)?;
                let bound = self.variables.get(usize::from(*slot)).and_then(Option::as_ref);
                bound.cloned().ok_or_else(|| EvalError::failed("no such attribute"))
            }
            NodeKind::Local(place) => {
                self.meter.charge(1)?;
                let bound = self.locals.get(usize::from(*place)).cloned();
                bound.ok_or_else(|| EvalError::failed("no such attribute"))
            }
            NodeKind::TypeName(name) => Ok(Value::Type(name.as_ref().into())),
            NodeKind::Select { operand, field, test, optional } => {
                let is_attribute = operand.is_attribute();
                let operand = self.eval(operand)?;
                self.meter.charge(u64::from(!is_attribute))?;
                let found = self.select(&operand, field, *test, *optional);
                // Absent optional fields and presence tests are free, as upstream.
                let is_free = *test || matches!(found, Ok(Value::Optional(None)));
                self.meter.charge(u64::from(!is_free))?;
                found
            }
            NodeKind::Conditional(parts) => match self.eval(&parts[0])? {
                Value::Bool(true) => self.branch(&parts[1]),
                Value::Bool(false) => self.branch(&parts[2]),
                _ => Err(EvalError::NoSuchOverload),
            },
            NodeKind::And(terms) => self.logical(terms, false),
            NodeKind::Or(terms) => self.logical(terms, true),
            NodeKind::Call(call) => self.call(call),
            NodeKind::Lookup(call) => {
                let [item, list] = &*call.args else { return Err(EvalError::NoSuchOverload) };
                let item = self.eval(item)?;
                self.without_cost(|on| {
                    let args = [item, on.eval(list)?];
                    (call.function)(on, call, &args)
                })
            }
            NodeKind::Fallback(call) => self.fallback(call),
            NodeKind::Folded(node) => self.without_cost(|on| on.eval(node)),
            NodeKind::List(entries) => self.list(entries),
            NodeKind::Map(entries) => self.map(entries),
            NodeKind::Fold(fold) => self.fold(fold),
            NodeKind::Bind(parts) => {
                let value = self.eval(&parts[0])?;
                self.with_local(value, &parts[1])
            }
            NodeKind::OptionalMap { operand, body, flat } => {
                let before = self.meter.cost();
                let operand = self.eval(operand)?;
                // Upstream evaluates the operand twice.
                let again = self.meter.cost() - before;
                self.meter.charge(if *flat { 2 } else { 3 })?;
                match operand {
                    Value::Optional(None) => Ok(Value::Optional(None)),
                    Value::Optional(Some(inner)) => {
                        self.meter.charge(again)?;
                        let made = self.with_local((*inner).clone(), body)?;
                        Ok(if *flat { made } else { Value::some(made) })
                    }
                    _ => Err(EvalError::NoSuchOverload),
                }
            }
        }
    }

    /// A branch of a conditional. A variable or a part of one costs a unit less there, as upstream.
    fn branch(&mut self, node: &'a Node) -> Outcome<'a> {
        let made = self.eval(node);
        self.meter.credit(u64::from(node.is_charged_attribute()));
        made
    }

    /// What `step` costs counts as work instead.
    fn without_cost(&mut self, step: impl FnOnce(&mut Self) -> Outcome<'a>) -> Outcome<'a> {
        let before = self.meter.count_work_only(true);
        let made = step(self);
        self.meter.count_work_only(before);
        made
    }

    fn apply(&mut self, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
        let made = self.without_cost(|on| (call.function)(on, call, args));
        if !matches!(made, Err(EvalError::CostExceeded)) {
            self.meter.charge(call.cost.charge(args, &made))?;
            self.meter.credit(u64::from(call.is_indexed_by_attribute()));
        }
        made
    }

    fn fallback(&mut self, call: &'a CallNode) -> Outcome<'a> {
        let [first, second] = &*call.args else { return Err(EvalError::NoSuchOverload) };
        let unwraps = &*call.name == "orValue";
        match self.eval(first)? {
            Value::Optional(Some(inner)) if unwraps => Ok((*inner).clone()),
            first @ Value::Optional(Some(_)) => Ok(first),
            Value::Optional(None) => match self.eval(second)? {
                second if unwraps || matches!(second, Value::Optional(_)) => Ok(second),
                _ => Err(EvalError::NoSuchOverload),
            },
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn with_local(&mut self, value: Value<'a>, body: &'a Node) -> Outcome<'a> {
        self.locals.push(value);
        let made = self.eval(body);
        self.locals.pop();
        made
    }

    /// `||` if `decisive` is true, otherwise `&&`. A decisive operand outweighs operands that fail.
    fn logical(&mut self, terms: &'a [Node], decisive: bool) -> Outcome<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(EvalError::NoSuchOverload)),
                Err(EvalError::CostExceeded) => return Err(EvalError::CostExceeded),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn call(&mut self, call: &'a CallNode) -> Outcome<'a> {
        // Most calls have two arguments; these need no vector.
        match &*call.args {
            [only] => {
                let args = [self.eval(only)?];
                self.apply(call, &args)
            }
            [first, second] => {
                let args = [self.eval(first)?, self.eval(second)?];
                self.apply(call, &args)
            }
            many => {
                let args = many.iter().map(|arg| self.eval(arg)).collect::<Result<Vec<_>, _>>()?;
                self.apply(call, &args)
            }
        }
    }

    pub(crate) fn select(&mut self, operand: &Value<'a>, field: &str, test: bool, optional: bool) -> Outcome<'a> {
        let found = match operand {
            Value::Object(object) if test => return Ok(Value::Bool(object.has(field))),
            Value::Object(object) => object.get(field)?,
            Value::Map(map) => {
                let key = Key::String(crate::value::Text::Shared(field.into()));
                if test {
                    return Ok(Value::Bool(map.contains(&key)));
                }
                map.get(&key)?
            }
            Value::Optional(None) => {
                return Ok(if test { Value::Bool(false) } else { Value::Optional(None) });
            }
            Value::Optional(Some(inner)) => {
                return self.select(inner, field, test, true);
            }
            Value::List(_) => return Err(EvalError::failed("unsupported index type 'string' in list")),
            // Null and scalars have no fields: none is present, and each is a missing key.
            _ if test => return Ok(Value::Bool(false)),
            _ => None,
        };
        match (found, optional) {
            (found, true) => Ok(Value::Optional(found.map(std::rc::Rc::new))),
            (Some(value), false) => Ok(value),
            (None, false) => Err(EvalError::NoSuchKey(field.to_owned())),
        }
    }

    fn list(&mut self, entries: &'a [(Node, bool)]) -> Outcome<'a> {
        self.meter.charge(LIST_COST)?;
        self.meter.allocate(entries.len() * ELEMENT)?;
        let mut items = Vec::with_capacity(entries.len());
        for (node, optional) in entries {
            let value = self.eval(node)?;
            match (optional, value) {
                (false, value) => items.push(value),
                (true, Value::Optional(inner)) => items.extend(inner.map(|inner| (*inner).clone())),
                (true, _) => return Err(EvalError::NoSuchOverload),
            }
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Outcome<'a> {
        self.meter.charge(MAP_COST)?;
        self.meter.allocate(entries.len() * 2 * ELEMENT)?;
        let mut map: BTreeMap<Key<'a>, Value<'a>> = BTreeMap::new();
        for (key, value, optional) in entries {
            let (key, value) = (self.eval(key)?, self.eval(value)?);
            let value = match (optional, value) {
                (false, value) => value,
                (true, Value::Optional(Some(inner))) => (*inner).clone(),
                (true, Value::Optional(None)) => continue,
                (true, _) => return Err(EvalError::NoSuchOverload),
            };
            // As in cel-go, the last value of a repeated key counts. An int and a uint of the same amount are one key here,
            // two in cel-go.
            let is_alike = |a: &Key<'_>, b: &Key<'_>| std::mem::discriminant(a) == std::mem::discriminant(b);
            let is_repeated = |key: &Key<'a>| map.get_key_value(key).is_some_and(|(known, _)| is_alike(known, key));
            match Key::from_value(&key).filter(is_repeated) {
                Some(key) => drop(map.insert(key, value)),
                None => insert(&mut map, &key, value)?,
            }
        }
        Ok(Value::map(map))
    }

    /// The compiled form of a pattern: the call's own if it is a literal.
    ///
    /// # Errors
    /// When the pattern is invalid, or the cost limit is exceeded.
    pub(crate) fn pattern(&mut self, call: &CallNode, pattern: &str) -> Result<Arc<Pattern>, EvalError> {
        if let Some(regex) = &call.regex {
            return Ok(Arc::clone(regex));
        }
        if !self.patterns.contains_key(pattern) {
            self.meter.work(PATTERN_WORK + pattern.len())?;
            let compiled = re2::compile_within(pattern, 1 << 18).map(Arc::new).map_err(|why| why.to_string());
            self.patterns.insert(pattern.to_owned(), compiled);
        }
        let known = self.patterns.get(pattern).cloned();
        known.unwrap_or_else(|| Err(format!("error parsing regexp: {pattern:?}"))).map_err(EvalError::Failed)
    }
}

/// Adds an entry to a map under construction.
pub(crate) fn insert<'a>(
    map: &mut BTreeMap<Key<'a>, Value<'a>>,
    key: &Value<'a>,
    value: Value<'a>,
) -> Result<(), EvalError> {
    let key = Key::from_value(key).ok_or_else(|| EvalError::failed("unsupported key type"))?;
    match map.entry(key) {
        std::collections::btree_map::Entry::Occupied(entry) => {
            let key = crate::eval::functions::text::display(&entry.key().to_value()).unwrap_or_default();
            Err(EvalError::failed(format!("insert failed: key {key} already exists")))
        }
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(value);
            Ok(())
        }
    }
}

fn constant(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::borrowed(text),
        Literal::Bytes(data) => bytes_value(data),
    }
}
