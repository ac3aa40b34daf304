//! Runs a Go template over a document.

use serde_json::Value;

use super::functions;
use super::parse::{Base, Command, Node, Operand, Pipeline};

/// The maximum output of a template: a loop in a loop over a large list could fill the memory.
const MAX_OUTPUT: usize = 256 << 20;

/// A value, or the result of a missing key.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Value(Value),
    /// Printed as `<no value>`.
    Missing,
}

impl Found {
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing | Self::Value(Value::Null) => false,
            Self::Value(Value::Bool(value)) => *value,
            Self::Value(Value::Number(number)) => number.as_f64() != Some(0.0),
            Self::Value(Value::String(text)) => !text.is_empty(),
            Self::Value(Value::Array(items)) => !items.is_empty(),
            Self::Value(Value::Object(map)) => !map.is_empty(),
        }
    }

    pub fn value(&self) -> &Value {
        match self {
            Self::Value(value) => value,
            Self::Missing => &Value::Null,
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

struct Run {
    variables: Vec<(String, Found)>,
    strict: bool,
    out: String,
}

/// # Errors
/// The error of an action, with Go's message.
pub fn run(nodes: &[Node], value: &Value, strict: bool) -> Result<String, String> {
    let root = Found::Value(value.clone());
    let mut run = Run { variables: vec![(String::new(), root.clone())], strict, out: String::new() };
    run.block(nodes, &root)?;
    Ok(run.out)
}

impl Run {
    fn block(&mut self, nodes: &[Node], dot: &Found) -> Result<Flow, String> {
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

    fn node(&mut self, node: &Node, dot: &Found) -> Result<Flow, String> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
            Node::Print(pipeline) => {
                let found = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    let text = functions::printed(&found);
                    self.out.push_str(&text);
                } else {
                    self.assign(pipeline, found);
                }
            }
            Node::If(pipeline, body, otherwise) | Node::With(pipeline, body, otherwise) => {
                let scope = self.variables.len();
                let found = self.pipeline(pipeline, dot)?;
                let is_true = found.is_true();
                let inner = if matches!(node, Node::With(..)) && is_true { found.clone() } else { dot.clone() };
                if !pipeline.variables.is_empty() {
                    self.assign(pipeline, found);
                }
                let flow = self.block(if is_true { body } else { otherwise }, &inner)?;
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::Range(pipeline, body, otherwise) => return self.range(pipeline, body, otherwise, dot),
        }
        Ok(Flow::Next)
    }

    fn assign(&mut self, pipeline: &Pipeline, found: Found) {
        let Some(name) = pipeline.variables.last() else { return };
        match self.variables.iter_mut().rev().find(|(known, _)| known == name).filter(|_| !pipeline.declares) {
            Some((_, value)) => *value = found,
            None => self.variables.push((name.clone(), found)),
        }
    }

    fn range(&mut self, pipeline: &Pipeline, body: &[Node], otherwise: &[Node], dot: &Found) -> Result<Flow, String> {
        let items: Vec<(Value, Value)> = match self.pipeline(pipeline, dot)? {
            Found::Missing | Found::Value(Value::Null) => Vec::new(),
            Found::Value(Value::Array(items)) => {
                items.into_iter().enumerate().map(|(index, item)| (index.into(), item)).collect()
            }
            Found::Value(Value::Object(map)) => map.into_iter().map(|(key, item)| (key.into(), item)).collect(),
            Found::Value(other) => return Err(format!("range can't iterate over {}", functions::text(&other))),
        };
        if items.is_empty() {
            return self.block(otherwise, dot);
        }
        for (key, item) in items {
            let scope = self.variables.len();
            let item = Found::Value(item);
            match pipeline.variables.as_slice() {
                [] => {}
                [one] => self.variables.push((one.clone(), item.clone())),
                [first, second, ..] => {
                    self.variables.push((first.clone(), Found::Value(key)));
                    self.variables.push((second.clone(), item.clone()));
                }
            }
            let flow = self.block(body, &item)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Found) -> Result<Found, String> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        last.ok_or_else(|| "missing value for command".to_owned())
    }

    fn command(&mut self, command: &Command, dot: &Found, piped: Option<Found>) -> Result<Found, String> {
        let Some((first, rest)) = command.0.split_first() else {
            return Err("missing value for command".into());
        };
        let Base::Function(name) = &first.base else {
            if first.base == Base::Literal(Value::Null) {
                return Err("nil is not a command".into());
            }
            if !rest.is_empty() || piped.is_some() {
                return Err("can't give argument to non-function".into());
            }
            return self.operand(first, dot);
        };
        // Go stops at the argument that decides.
        let stops = match name.as_str() {
            "and" => Some(false),
            "or" => Some(true),
            _ => None,
        };
        let mut arguments = Vec::new();
        for operand in rest {
            let argument = self.operand(operand, dot)?;
            if stops == Some(argument.is_true()) {
                return Ok(argument);
            }
            arguments.push(argument);
        }
        arguments.extend(piped);
        functions::call(name, arguments)
    }

    fn operand(&mut self, operand: &Operand, dot: &Found) -> Result<Found, String> {
        let base = match &operand.base {
            Base::Dot => dot.clone(),
            Base::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.map_or(Found::Missing, |(_, value)| value.clone())
            }
            Base::Literal(value) => Found::Value(value.clone()),
            Base::Function(name) => functions::call(name, Vec::new())?,
            Base::Parenthesis(pipeline) => self.pipeline(pipeline, dot)?,
        };
        let mut found = base;
        for field in &operand.fields {
            found = self.field(&found, field)?;
        }
        Ok(found)
    }

    fn field(&self, found: &Found, field: &str) -> Result<Found, String> {
        match found {
            Found::Value(Value::Object(map)) => match map.get(field) {
                Some(value) => Ok(Found::Value(value.clone())),
                None if self.strict => Err(format!("map has no entry for key {field:?}")),
                None => Ok(Found::Missing),
            },
            Found::Missing | Found::Value(Value::Null) if self.strict => {
                Err(format!("nil data; no entry for key {field:?}"))
            }
            Found::Missing | Found::Value(Value::Null) => Ok(Found::Missing),
            Found::Value(other) => Err(format!("can't evaluate field {field} in type {}", functions::type_name(other))),
        }
    }
}
