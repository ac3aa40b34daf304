//! Evaluation of a schema's CEL rules on objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::field::{Error, ErrorKind, ErrorList, Path};
use apimachinery::schema::{ListType, Schema, SchemaId, Type, TypeOf};
use cel::budget::{EXPRESSION_LIMIT, EvalError, Meter};
use cel::types::Shape;
use cel::{Program, Value as CelValue};
use serde_json::Value;

use crate::rules::{CompiledRule, NodeRules, compile, field_path, has_rules};
use crate::shapes::{metadata, shape};

/// The cost budget of one object's rules.
const OBJECT_LIMIT: u64 = 10_000_000;

/// Texts about tolerated failures of one object. A reply has room for no more, see the API server.
const MAX_TOLERATED: usize = 256;

/// Bytes of an evaluated message.
const MAX_MESSAGE: usize = 5 << 10;

/// All rules of a schema, compiled.
#[derive(Debug, Default)]
pub struct Rules {
    nodes: BTreeMap<SchemaId, PreparedNode>,
    /// Nodes that have rules or lead to some.
    relevant: BTreeSet<SchemaId>,
    /// Nodes with rules, for whose values expressions have no type.
    untyped: BTreeSet<SchemaId>,
}

#[derive(Debug)]
struct PreparedNode {
    shape: Arc<Shape>,
    rules: NodeRules,
    /// The text added for each rule's fieldPath.
    paths: Vec<String>,
}

impl Rules {
    pub fn new(type_: &TypeOf) -> Self {
        let mut rules = Self::default();
        rules.collect(type_, type_.root, true);
        rules
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.untyped.is_empty()
    }

    /// Whether any rule uses `oldSelf`.
    pub fn compare(&self) -> bool {
        self.nodes.values().any(|node| node.rules.rules.iter().any(|rule| rule.transition))
    }

    /// Schemas of custom resources are trees as deep as their JSON (128); only metadata is shared, and has no rules
    /// below its names.
    fn collect(&mut self, type_: &TypeOf, id: SchemaId, root: bool) -> bool {
        let schema = type_.schemas.get(id);
        // Shapes include all descendants; they are only built where they are needed.
        let own = has_rules(&type_.schemas, id).then(|| shape(&type_.schemas, id, root));
        if let Some(None) = own {
            self.untyped.insert(id);
        }
        let mut relevant = own.is_some_and(|shape| shape.is_none() || self.prepare(type_, id, shape));
        let holds_object = root || schema.embedded_resource;
        for (name, property) in &schema.properties {
            if holds_object && &**name == "metadata" {
                relevant |= self.collect_metadata(type_, property.schema);
            } else {
                relevant |= self.collect(type_, property.schema, false);
            }
        }
        for id in schema.items.into_iter().chain(schema.additional_properties) {
            relevant |= self.collect(type_, id, false);
        }
        if relevant {
            self.relevant.insert(id);
        }
        relevant
    }

    fn collect_metadata(&mut self, type_: &TypeOf, id: SchemaId) -> bool {
        let schema = type_.schemas.get(id);
        let mut relevant = self.prepare(type_, id, Some(metadata(&type_.schemas, id)));
        for name in ["name", "generateName"] {
            if let Some(property) = schema.properties.get(name) {
                relevant |= self.collect(type_, property.schema, false);
            }
        }
        if relevant {
            self.relevant.insert(id);
        }
        relevant
    }

    /// Compiles the rules of one node; whether it has any.
    fn prepare(&mut self, type_: &TypeOf, id: SchemaId, shape: Option<Arc<Shape>>) -> bool {
        let (Some(rules), Some(shape)) = (compile(&type_.schemas, id, shape.as_ref()), shape) else { return false };
        let path = |rule: &CompiledRule| field_path(rule.rule.field_path.trim(), &type_.schemas, id);
        let paths =
            rules.rules.iter().map(|rule| path(rule).map_or_else(|_| String::new(), |(path, _)| path)).collect();
        self.nodes.insert(id, PreparedNode { shape, rules, paths });
        true
    }

    /// The findings about `object`. `old` is the replaced object: transition rules compare with it, and failures of
    /// the other rules on an unchanged value are tolerated.
    pub fn validate(&self, type_: &TypeOf, object: &Value, old: Option<&Value>) -> Findings {
        let mut run = Run { rules: self, type_, budget: OBJECT_LIMIT, stopped: false, found: Findings::default() };
        run.node(type_.root, object, old, &Path::root(), false);
        run.found
    }
}

/// What is wrong with an object.
#[derive(Debug, Default)]
pub struct Findings {
    /// They refuse the object.
    pub errors: ErrorList,
    /// Failed rules that do not, as texts for the client.
    pub tolerated: Vec<String>,
}

struct Run<'a> {
    rules: &'a Rules,
    type_: &'a TypeOf,
    budget: u64,
    stopped: bool,
    found: Findings,
}

impl Run<'_> {
    fn node(&mut self, id: SchemaId, value: &Value, old: Option<&Value>, path: &Path, unchanged: bool) {
        if self.stopped || !self.rules.relevant.contains(&id) || value.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let rules = self.rules;
        if rules.untyped.contains(&id) {
            let why = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            let type_name = type_name(self.type_.schemas.get(id));
            self.found.errors.push(Error::invalid(path, type_name, why));
        }
        if let Some(node) = rules.nodes.get(&id) {
            self.apply(node, id, value, old, path, unchanged);
        }
        let schema = self.type_.schemas.get(id);
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let known = schema.properties.get(name.as_str()).map(|property| property.schema);
                    let Some(next) = known.or(schema.additional_properties) else { continue };
                    let path = if known.is_some() { path.child(name) } else { path.key(name) };
                    self.node(next, child, old.and_then(|old| old.get(name)), &path, unchanged);
                }
            }
            Value::Array(items) => {
                let Some(next) = schema.items else { return };
                if !self.rules.relevant.contains(&next) {
                    return;
                }
                // Items of an atomic list cannot be correlated, so they are unchanged only with the whole list.
                let unchanged = unchanged || old == Some(value);
                let known = old.and_then(Value::as_array).map(|old| by_identity(&schema.list_type, old));
                for (index, item) in items.iter().enumerate() {
                    let before =
                        known.as_ref().and_then(|known| known.get(&identity(&schema.list_type, item)?).copied());
                    self.node(next, item, before, &path.index(index), unchanged);
                }
            }
            _ => {}
        }
    }

    fn apply(
        &mut self,
        node: &PreparedNode,
        id: SchemaId,
        value: &Value,
        old: Option<&Value>,
        path: &Path,
        unchanged: bool,
    ) {
        let type_name = type_name(self.type_.schemas.get(id));
        for (index, compiled) in node.rules.rules.iter().enumerate() {
            if self.budget == 0 {
                let why =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                self.stop(Error::invalid(path, type_name, why));
                return;
            }
            let program = match &compiled.program {
                Ok(program) => program,
                Err(why) => {
                    self.found.errors.push(Error::invalid(path, type_name, format!("rule compile error: {why}")));
                    continue;
                }
            };
            let optional = compiled.rule.optional_old_self == Some(true);
            if compiled.transition && old.is_none() && !optional {
                continue;
            }
            let outcome = self.eval(program, node, value, old, optional);
            let holds = match outcome {
                Ok(CelValue::Bool(holds)) => holds,
                Ok(_) => false,
                Err(error) => {
                    self.failed(&error, compiled, type_name, path);
                    if self.stopped {
                        return;
                    }
                    continue;
                }
            };
            if holds {
                continue;
            }
            let is_tolerated = !compiled.transition
                && !is_type_meta(path)
                && (unchanged || old.is_some_and(|old| is_unchanged(self.type_, id, old, value)));
            let at = match node.paths.get(index).map(String::as_str) {
                Some("") | None => path.clone(),
                Some(suffix) => path.child(suffix),
            };
            let error = match self.message(compiled, node, value, old, optional) {
                Ok(detail) => error_for(compiled.rule.reason.as_deref(), value, &at, detail),
                Err(why) => {
                    self.stopped = true;
                    Error::invalid(&at, type_name, why)
                }
            };
            self.add(error, is_tolerated);
            if self.stopped {
                return;
            }
        }
    }

    fn add(&mut self, error: Error, is_tolerated: bool) {
        if !is_tolerated {
            self.found.errors.push(error);
        } else if self.found.tolerated.len() < MAX_TOLERATED {
            self.found.tolerated.push(error.to_string());
        }
    }

    fn stop(&mut self, error: Error) {
        self.found.errors.push(error);
        self.stopped = true;
    }

    /// Evaluates within the remaining budget of the object, and charges it.
    fn eval<'a>(
        &mut self,
        program: &'a Program,
        node: &'a PreparedNode,
        value: &'a Value,
        old: Option<&'a Value>,
        optional: bool,
    ) -> Result<CelValue<'a>, EvalError> {
        let this = CelValue::from_json(value, &node.shape)?;
        let old = old.map(|old| CelValue::from_json(old, &node.shape)).transpose()?;
        let old = match (old, optional) {
            (old, true) => Some(CelValue::Optional(old.map(std::rc::Rc::new))),
            (old, false) => old,
        };
        let mut meter = Meter::new(EXPRESSION_LIMIT.min(self.budget));
        let outcome = program.eval(&[Some(this), old], &mut meter);
        self.budget = self.budget.saturating_sub(meter.spent());
        outcome
    }

    fn failed(&mut self, error: &EvalError, compiled: &CompiledRule, type_name: &str, path: &Path) {
        let title = compiled.rule.title();
        match error {
            EvalError::NoSuchOverload => {
                let why = "call arguments did not match a supported operator, function or macro signature for rule";
                self.found.errors.push(Error::invalid(path, type_name, format!("'{error}': {why}: {title}")));
            }
            EvalError::CostExceeded if self.budget == 0 => {
                let why =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                self.stop(Error::invalid(path, type_name, why));
            }
            EvalError::CostExceeded => {
                let why = "no further validation rules will be run due to call cost exceeds limit for rule";
                self.stop(Error::invalid(path, type_name, format!("'{error}': {why}: {title}")));
            }
            other => {
                let why = format!("{other} evaluating rule: {title}");
                self.found.errors.push(Error::invalid(path, type_name, why));
            }
        }
    }

    /// The text of a failure.
    ///
    /// # Errors
    /// When the budget ended with it.
    fn message(
        &mut self,
        compiled: &CompiledRule,
        node: &PreparedNode,
        value: &Value,
        old: Option<&Value>,
        optional: bool,
    ) -> Result<String, String> {
        let Some(Ok(program)) = &compiled.message else { return Ok(compiled.rule.default_message()) };
        match self.eval(program, node, value, old, optional) {
            Ok(CelValue::String(text)) => {
                let text = text.trim();
                let fine = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(if fine { text.to_owned() } else { compiled.rule.default_message() })
            }
            Err(EvalError::CostExceeded) if self.budget == 0 => {
                let why = "messageExpression evaluation failed due to running out of cost budget";
                Err(format!("{why}, no further validation rules will be run"))
            }
            Err(EvalError::CostExceeded) => {
                let source = &compiled.rule.message_expression;
                let why =
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                Err(format!("{why}: {source:?}"))
            }
            _ => Ok(compiled.rule.default_message()),
        }
    }
}

/// A failure shows the value, unless it is a list or an object.
fn error_for(reason: Option<&str>, value: &Value, path: &Path, detail: String) -> Error {
    let of_many = value.is_array() || value.is_object();
    match reason {
        Some("FieldValueForbidden") => Error::forbidden(path, detail),
        Some("FieldValueRequired") => Error::required(path, detail),
        Some("FieldValueDuplicate") if of_many => Error::new(ErrorKind::DuplicateOmitted, path, ""),
        Some("FieldValueDuplicate") => Error::duplicate(path, value.clone()),
        _ if of_many => Error::without_value(path, detail),
        _ => Error::invalid(path, value.clone(), detail),
    }
}

/// Whether a value is unchanged. At any depth, the order of the items of lists with keys does not count.
fn is_unchanged(type_: &TypeOf, id: SchemaId, old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let schema = type_.schemas.get(id);
    match (old, new) {
        (Value::Array(was), Value::Array(is)) => {
            let (Some(items), ListType::Map(_)) = (schema.items, &schema.list_type) else { return false };
            let known = by_identity(&schema.list_type, was);
            let before = |item| known.get(&identity(&schema.list_type, item)?).copied();
            let is_known = |item| before(item).is_some_and(|before| is_unchanged(type_, items, before, item));
            was.len() == is.len() && is.iter().all(is_known)
        }
        (Value::Object(was), Value::Object(is)) => {
            let schema_of = |name: &str| schema.properties.get(name).map(|property| property.schema);
            let is_known = |(name, value): (&String, &Value)| {
                let Some(before) = was.get(name) else { return false };
                match schema_of(name).or(schema.additional_properties) {
                    Some(next) => is_unchanged(type_, next, before, value),
                    None => before == value,
                }
            };
            was.len() == is.len() && is.iter().all(is_known)
        }
        _ => false,
    }
}

/// Failures of the object's own apiVersion and kind are not tolerated, as upstream: old and new are converted to one
/// version, so they never differ.
fn is_type_meta(path: &Path) -> bool {
    matches!(path.to_string().as_str(), "apiVersion" | "kind")
}

fn type_name(schema: &Schema) -> &'static str {
    match schema.type_ {
        Type::Any => "",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}

/// The identity of an item in a list of type set or map.
pub(crate) fn identity(list_type: &ListType, item: &Value) -> Option<String> {
    let ListType::Map(keys) = list_type else { return None };
    let keys: Vec<Option<&Value>> = keys.iter().map(|key| item.get(&**key)).collect();
    serde_json::to_string(&keys).ok()
}

/// The items of a list by [`identity`].
pub(crate) fn by_identity<'v>(list_type: &ListType, items: &'v [Value]) -> BTreeMap<String, &'v Value> {
    items.iter().filter_map(|item| Some((identity(list_type, item)?, item))).collect()
}
