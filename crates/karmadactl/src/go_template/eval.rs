//! Runs a Go template over a document.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::functions;
use super::parse::{Base, Command, MAIN, Node, Operand, Pipeline, Place, Trees};

/// The maximum output of a template: a loop in a loop over a large list could fill the memory.
const MAX_OUTPUT: usize = 256 << 20;
/// The maximum number of rounds over integers, which need no data.
const MAX_ROUNDS: i64 = 10_000_000;
/// The maximum number of templates in templates. A stack is finite; Go has 100,000.
const MAX_TEMPLATES: usize = 200;

/// A value, or the result of a missing key.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'v> {
    Value(Cow<'v, Value>),
    /// Printed as `<no value>`.
    Missing,
}

impl<'v> Found<'v> {
    pub fn owned(value: Value) -> Self {
        Self::Value(Cow::Owned(value))
    }

    pub fn is_true(&self) -> bool {
        match self.value() {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
        }
    }

    pub fn value(&self) -> &Value {
        match self {
            Self::Value(value) => value,
            Self::Missing => &Value::Null,
        }
    }

    /// A value within this one.
    pub fn below<'s>(&'s self, select: impl for<'a> Fn(&'a Value) -> Option<&'a Value>) -> Option<Self> {
        match self {
            Self::Value(Cow::Borrowed(value)) => select(value).map(|found| Self::Value(Cow::Borrowed(found))),
            Self::Value(Cow::Owned(value)) => select(value).map(|found| Self::owned(found.clone())),
            Self::Missing => None,
        }
    }
}

/// Why a block ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Run<'t, 'v> {
    trees: &'t Trees,
    source: &'t str,
    /// The name of the current template, and the number of templates around it.
    name: &'t str,
    templates: usize,
    variables: Vec<(String, Found<'v>)>,
    /// What is being evaluated.
    at: Place,
    rounds: i64,
    strict: bool,
    out: String,
}

/// # Errors
/// The error of an action, with Go's message.
pub fn run(trees: &Trees, source: &str, value: &Value, strict: bool) -> Result<String, String> {
    let root = Found::Value(Cow::Borrowed(value));
    let variables = vec![(String::new(), root.clone())];
    let at = Place { at: 0, start: 0, end: 0 };
    let (name, templates, rounds, out) = (MAIN, 0, 0, String::new());
    let mut run = Run { trees, source, name, templates, variables, at, rounds, strict, out };
    let nodes = trees.get(MAIN).map_or(&[][..], Vec::as_slice);
    match run.block(nodes, &root) {
        Ok(_) => Ok(run.out),
        Err(why) => Err(run.located(&why)),
    }
}

type Evaluated<'v> = Result<Found<'v>, String>;

impl<'t, 'v> Run<'t, 'v> {
    fn located(&self, why: &str) -> String {
        let before = &self.source[..self.at.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rfind('\n').map_or(before.len(), |newline| before.len() - newline - 1);
        let context = &self.source[self.at.start..self.at.end];
        format!("template: {MAIN}:{line}:{column}: executing {:?} at <{context}>: {why}", self.name)
    }

    fn block(&mut self, nodes: &'t [Node], dot: &Found<'v>) -> Result<Flow, String> {
        for node in nodes {
            let flow = self.node(node, dot)?;
            if self.out.len() > MAX_OUTPUT {
                return Err(format!("the template prints more than {MAX_OUTPUT} bytes"));
            }
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, node: &'t Node, dot: &Found<'v>) -> Result<Flow, String> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
            Node::Print(pipeline) => {
                let found = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    self.out.push_str(&functions::printed(&found));
                }
            }
            Node::If(pipeline, body, otherwise) | Node::With(pipeline, body, otherwise) => {
                let scope = self.variables.len();
                let found = self.pipeline(pipeline, dot)?;
                let is_true = found.is_true();
                let inner = if matches!(node, Node::With(..)) && is_true { &found } else { dot };
                let flow = self.block(if is_true { body } else { otherwise }, inner)?;
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::Range(pipeline, body, otherwise) => return self.range(pipeline, body, otherwise, dot),
            Node::Template(name, pipeline, place) => self.template(name, pipeline.as_ref(), *place, dot)?,
        }
        Ok(Flow::Next)
    }

    fn template(
        &mut self,
        name: &'t str,
        pipeline: Option<&'t Pipeline>,
        place: Place,
        dot: &Found<'v>,
    ) -> Result<(), String> {
        self.at = place;
        let Some(nodes) = self.trees.get(name) else { return Err(format!("template {name:?} not defined")) };
        if self.templates == MAX_TEMPLATES {
            return Err(format!("exceeded maximum template depth ({MAX_TEMPLATES})"));
        }
        let dot = match pipeline {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Found::Missing,
        };
        let outer_variables = std::mem::replace(&mut self.variables, vec![(String::new(), dot.clone())]);
        let outer_name = std::mem::replace(&mut self.name, name);
        self.templates += 1;
        self.block(nodes, &dot)?;
        self.templates -= 1;
        (self.name, self.variables) = (outer_name, outer_variables);
        Ok(())
    }

    fn set(&mut self, name: &str, found: Found<'v>) -> Result<(), String> {
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, value)) => {
                *value = found;
                Ok(())
            }
            None => Err(format!("undefined variable: ${name}")),
        }
    }

    fn range(
        &mut self,
        pipeline: &'t Pipeline,
        body: &'t [Node],
        otherwise: &'t [Node],
        dot: &Found<'v>,
    ) -> Result<Flow, String> {
        let scope = self.variables.len();
        let found = self.pipeline(pipeline, dot)?;
        let count = match found.value() {
            Value::Null => 0,
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            Value::Number(number) if !number.is_f64() => {
                if pipeline.variables.len() > 1 {
                    return Err(format!("can't use {number} to iterate over more than one variable"));
                }
                self.rounds = self.rounds.saturating_add(number.as_i64().unwrap_or(i64::MAX).max(0));
                if self.rounds > MAX_ROUNDS {
                    return Err(format!("more than {MAX_ROUNDS} rounds over integers"));
                }
                usize::try_from(number.as_i64().unwrap_or(0)).unwrap_or(0)
            }
            other => return Err(format!("range can't iterate over {}", functions::text(other))),
        };
        if count == 0 {
            let flow = self.block(otherwise, dot);
            self.variables.truncate(scope);
            return flow;
        }
        let inner = self.variables.len();
        let keys: Vec<String> = found.value().as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
        for index in 0..count {
            let (key, item) = match keys.get(index) {
                Some(key) => (json!(key), found.below(|map| map.get(key))),
                None if found.value().is_array() => (json!(index), found.below(|items| items.get(index))),
                None => (json!(index), Some(Found::owned(json!(index)))),
            };
            let item = item.unwrap_or(Found::Missing);
            let values = match pipeline.variables.len() {
                0 => Vec::new(),
                1 => vec![item.clone()],
                _ => vec![Found::owned(key), item.clone()],
            };
            for (name, value) in pipeline.variables.iter().zip(values) {
                self.set(name, value)?;
            }
            let flow = self.block(body, &item)?;
            self.variables.truncate(inner);
            if flow == Flow::Break {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(Flow::Next)
    }

    fn pipeline(&mut self, pipeline: &'t Pipeline, dot: &Found<'v>) -> Evaluated<'v> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        let found = last.unwrap_or(Found::Missing);
        for name in &pipeline.variables {
            match pipeline.declares {
                true => self.variables.push((name.clone(), found.clone())),
                false => self.set(name, found.clone())?,
            }
        }
        Ok(found)
    }

    fn command(&mut self, command: &'t Command, dot: &Found<'v>, piped: Option<Found<'v>>) -> Evaluated<'v> {
        let Some((first, rest)) = command.operands.split_first() else { return Ok(Found::Missing) };
        let has_arguments = !rest.is_empty() || piped.is_some();
        self.at = first.place;
        if let (Base::Function(name), true) = (&first.base, first.fields.is_empty()) {
            return self.call(name, command.place, rest, dot, piped);
        }
        if has_arguments {
            return match first.fields.last() {
                Some(field) => {
                    self.operand(first, dot)?;
                    Err(format!("{field} is not a method but has arguments"))
                }
                None => {
                    let shown = &self.source[first.place.start..first.place.end];
                    Err(format!("can't give argument to non-function {shown}"))
                }
            };
        }
        if first.base == Base::Nil {
            return Err("nil is not a command".into());
        }
        self.operand(first, dot)
    }

    fn call(
        &mut self,
        name: &str,
        place: Place,
        operands: &'t [Operand],
        dot: &Found<'v>,
        piped: Option<Found<'v>>,
    ) -> Evaluated<'v> {
        let (least, is_variadic) = functions::arity(name).unwrap_or((0, true));
        let count = operands.len() + usize::from(piped.is_some());
        if count < least || (count > least && !is_variadic) {
            let least = if is_variadic { format!("at least {least}") } else { least.to_string() };
            return Err(format!("wrong number of args for {name}: want {least} got {count}"));
        }
        // Go stops at the argument that decides.
        let stops = match name {
            "and" => Some(false),
            "or" => Some(true),
            _ => None,
        };
        let mut arguments = Vec::with_capacity(count);
        for (position, operand) in operands.iter().enumerate() {
            let argument = self.operand(operand, dot)?;
            if position == 0 && functions::takes_text(name) && !argument.value().is_string() {
                self.at = operand.place;
                return Err(self.no_text(operand, &argument));
            }
            if stops == Some(argument.is_true()) {
                return Ok(argument);
            }
            arguments.push(argument);
        }
        arguments.extend(piped);
        functions::call(name, arguments).map_err(|why| {
            self.at = place;
            if name == "call" {
                let shown = operands.first().map_or("", |operand| &self.source[operand.place.start..operand.place.end]);
                return format!("error calling call: non-function {shown} of type {why}");
            }
            format!("error calling {name}: {why}")
        })
    }

    fn no_text(&self, operand: &Operand, found: &Found<'_>) -> String {
        match operand.base {
            Base::Literal(_) => {
                format!("expected string; found {}", &self.source[operand.place.start..operand.place.end])
            }
            _ if *found == Found::Missing => "invalid value; expected string".into(),
            _ => format!("wrong type for value; expected string; got {}", functions::type_name(found.value())),
        }
    }

    fn operand(&mut self, operand: &'t Operand, dot: &Found<'v>) -> Evaluated<'v> {
        self.at = operand.place;
        let mut found = match &operand.base {
            Base::Dot => dot.clone(),
            Base::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.map_or(Found::Missing, |(_, value)| value.clone())
            }
            Base::Literal(value) => Found::owned(value.clone()),
            Base::Nil => Found::owned(Value::Null),
            Base::Function(name) => self.call(name, operand.place, &[], dot, None)?,
            Base::Parenthesis(pipeline) => {
                let scope = self.variables.len();
                let found = self.pipeline(pipeline, dot)?;
                self.variables.truncate(scope);
                found
            }
        };
        if !operand.fields.is_empty() {
            self.at = operand.place;
        }
        for field in &operand.fields {
            found = self.field(&found, field)?;
        }
        Ok(found)
    }

    fn field(&self, found: &Found<'v>, field: &str) -> Evaluated<'v> {
        match found.value() {
            Value::Object(_) => match found.below(|map| map.get(field)) {
                Some(value) => Ok(value),
                None if self.strict => Err(format!("map has no entry for key {field:?}")),
                None => Ok(Found::Missing),
            },
            Value::Null if self.strict => Err(format!("nil data; no entry for key {field:?}")),
            Value::Null => Ok(Found::Missing),
            _ => Err(format!("can't evaluate field {field} in type interface {{}}")),
        }
    }
}
