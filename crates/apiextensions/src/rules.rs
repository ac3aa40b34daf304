//! Validation rules (`x-kubernetes-validations`): reading and compiling them.

use std::sync::Arc;

use apimachinery::schema::{SchemaId, Schemas};
use cel::{Env, Program, Shape, Type};
use serde::Deserialize;
use serde_json::Value;

use crate::shapes::MAX_REQUEST;

/// The slot of the second variable; the first is `self`.
pub const OLD_SELF: u16 = 1;

/// A rule as written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl Rule {
    /// Reads a rule; malformed fields are treated as absent.
    pub fn read(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_default()
    }

    /// The text that identifies the rule in messages.
    pub fn title(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    pub fn default_message(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.title()) } else { self.title().to_owned() }
    }
}

/// A rule with its programs.
#[derive(Debug)]
pub struct CompiledRule {
    pub rule: Rule,
    pub program: Result<Program, String>,
    /// `None` where the rule has no messageExpression.
    pub message: Option<Result<Program, String>>,
    /// It uses `oldSelf`, so it applies to updates only.
    pub transition: bool,
}

/// The rules of a node.
#[derive(Debug)]
pub struct NodeRules {
    pub rules: Vec<CompiledRule>,
    /// The maximum number of such nodes in a request, if no other bound applies.
    pub cardinality: u64,
}

/// Whether a node itself has rules.
pub fn has_rules(schemas: &Schemas, id: SchemaId) -> bool {
    schemas.get(id).constraints.as_deref().is_some_and(|constraints| !constraints.rules.is_empty())
}

/// Compiles the `x-kubernetes-validations` of a node; `None` without any.
pub fn compile(schemas: &Schemas, id: SchemaId, shape: Option<&Arc<Shape>>) -> Option<NodeRules> {
    let written = &schemas.get(id).constraints.as_deref()?.rules;
    if written.is_empty() {
        return None;
    }
    let rules = written.iter().map(Rule::read).map(|rule| {
        let Some(shape) = shape else {
            let why = "the schema has no type".to_owned();
            return CompiledRule { rule, program: Err(why), message: None, transition: false };
        };
        let optional = rule.optional_old_self == Some(true);
        let env = Env::new().with_document("self", shape, false).with_document("oldSelf", shape, optional);
        compile_rule(&env, rule)
    });
    let cardinality = shape.map_or(1, |shape| MAX_REQUEST / (shape.min_size + 1));
    Some(NodeRules { rules: rules.collect(), cardinality })
}

fn compile_rule(env: &Env, rule: Rule) -> CompiledRule {
    let program = match env.compile(&rule.rule) {
        Ok(program) if matches!(program.result_type(), Type::Bool) => started(program, "program"),
        Ok(_) => Err("cel expression must evaluate to a bool".to_owned()),
        Err(issues) => Err(format!("compilation failed: {issues}")),
    };
    // The message of a rule that does not compile is not used.
    let has_message = program.is_ok() && !rule.message_expression.trim().is_empty();
    let message = has_message.then(|| match env.compile(&rule.message_expression) {
        Ok(program) if matches!(program.result_type(), Type::String) => started(program, "messageExpression"),
        Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
        Err(issues) => Err(format!("messageExpression compilation failed: {issues}")),
    });
    let transition = program.as_ref().is_ok_and(|program| program.uses(OLD_SELF));
    CompiledRule { rule, program, message, transition }
}

/// The program, unless it fails in every evaluation.
fn started(program: Program, what: &str) -> Result<Program, String> {
    match program.fault() {
        Some(fault) => Err(format!("{what} instantiation failed: {fault}")),
        None => Ok(program),
    }
}

/// A rule's `fieldPath` (`.a.b['c']`), as the path it adds to errors, and the node it leads to from `id`.
///
/// # Errors
/// Why it is no path into the schema.
pub fn field_path(text: &str, schemas: &Schemas, id: SchemaId) -> Result<(String, SchemaId), String> {
    let mut at = id;
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
            if name.is_empty() {
                return Err("unexpected end of JSON path".into());
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            (name, rest) = bracketed(after)?;
        } else {
            let token = rest.split(['.', '[', ']']).next().filter(|token| !token.is_empty()).unwrap_or("]");
            return Err(format!("expected [ or . but got: {token}"));
        }
        let schema = schemas.get(at);
        if let Some(property) = schema.properties.get(name.as_str()) {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
            at = property.schema;
        } else if let (Some(values), true) = (schema.additional_properties, schema.properties.is_empty()) {
            out.push_str(&format!("[{name}]"));
            at = values;
        } else {
            return Err("does not refer to a valid field".into());
        }
    }
    Ok((out, at))
}

/// As [`field_path`], without brackets.
///
/// # Errors
/// As [`field_path`].
pub fn plain_field_path(text: &str, schemas: &Schemas, id: SchemaId) -> Result<(String, SchemaId), String> {
    let (before, bracket) = text.split_once('[').map_or((text, false), |(before, _)| (before, true));
    let found = field_path(before, schemas, id)?;
    if bracket { Err("array notation is not allowed".to_owned()) } else { Ok(found) }
}

/// The key after an opening bracket, and the text after the closing one.
fn bracketed(text: &str) -> Result<(String, &str), String> {
    let quoted = text.strip_prefix('\'').ok_or_else(|| format!("expected single quoted string but got {text}"))?;
    let mut key = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => key.push('\n'),
                Some('t') => key.push('\t'),
                Some('r') => key.push('\r'),
                Some(c @ ('\'' | '\\')) => key.push(c),
                other => return Err(format!("invalid string literal: invalid escape char {other:?}")),
            },
            '\'' => {
                let after = quoted[at + 1..].strip_prefix(']').ok_or("expected ]")?;
                return Ok((key, after));
            }
            c => key.push(c),
        }
    }
    Err("unexpected end of JSON path".into())
}
