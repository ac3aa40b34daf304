//! Judging the rules of a definition when it is written: whether they compile, where they point, what they may cost.

use apimachinery::field::{Error, ErrorKind, ErrorList, Path};
use apimachinery::schema::{ListType, SchemaId, Schemas};
use serde_json::Value;

use crate::rules::{CompiledRule, Rule, compile, field_path, has_rules};
use crate::shapes::{metadata, shape};
use crate::structural;

/// What one rule may be estimated to cost, for all the nodes of an object it applies to.
const RULE_LIMIT: u64 = 10_000_000;

/// What all rules of a schema together may be estimated to cost.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Rules named when the limit of a schema is exceeded.
const NAMED: usize = 4;

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Judges all rules of a schema. Recursion is bounded by the depth that the JSON parser lets through (128).
pub fn validate(schema: &Value, path: &Path, errors: &mut ErrorList) {
    let type_ = structural::compile(Some(schema), None);
    let mut walk = Walk { schemas: &type_.schemas, errors, costs: Vec::new() };
    walk.node(type_.root, &Place { path: path.clone(), root: true, cardinality: Some(1), uncorrelatable: None });
    let total = walk.costs.iter().fold(0u64, |total, (_, cost)| total.saturating_add(*cost));
    if total > SCHEMA_LIMIT {
        let mut costs = walk.costs;
        costs.retain(|(_, cost)| *cost >= SCHEMA_LIMIT / 100);
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in costs.into_iter().take(NAMED) {
            let why = "contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(Error::forbidden(&path, why));
        }
        let what = "x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema";
        errors.push(Error::forbidden(path, cost_text(what, total, SCHEMA_LIMIT)));
    }
}

/// Where in a schema the walk is.
struct Place {
    path: Path,
    root: bool,
    /// How many nodes of an object are here; `None` when only the size of a request bounds them.
    cardinality: Option<u64>,
    /// The list around whose items have no counterpart in an older object.
    uncorrelatable: Option<Path>,
}

struct Walk<'a> {
    schemas: &'a Schemas,
    errors: &'a mut ErrorList,
    costs: Vec<(Path, u64)>,
}

impl Walk<'_> {
    fn node(&mut self, id: SchemaId, place: &Place) {
        let schemas = self.schemas;
        let schema = schemas.get(id);
        let is_metadata = |name: &str| name == "metadata" && (place.root || schema.embedded_resource);
        if has_rules(schemas, id) {
            self.rules(id, shape(schemas, id, place.root), place);
        }
        for (name, property) in &schema.properties {
            let path = place.path.child("properties").key(name);
            let inner = Place {
                path,
                root: false,
                cardinality: place.cardinality,
                uncorrelatable: place.uncorrelatable.clone(),
            };
            if is_metadata(name) {
                self.rules(property.schema, Some(metadata(schemas, property.schema)), &inner);
            } else {
                self.node(property.schema, &inner);
            }
        }
        let constraints = schema.constraints.as_deref();
        let many = |declared: Option<u64>| Some(place.cardinality?.saturating_mul(declared?));
        if let Some(items) = schema.items {
            let keyed = matches!(schema.list_type, ListType::Map(_));
            let inner = Place {
                path: place.path.child("items"),
                root: false,
                cardinality: many(constraints.and_then(|constraints| constraints.max_items)),
                uncorrelatable: place.uncorrelatable.clone().or((!keyed).then(|| place.path.clone())),
            };
            self.node(items, &inner);
        }
        if let Some(values) = schema.additional_properties {
            let inner = Place {
                path: place.path.child("additionalProperties"),
                root: false,
                cardinality: many(constraints.and_then(|constraints| constraints.max_properties)),
                uncorrelatable: place.uncorrelatable.clone(),
            };
            self.node(values, &inner);
        }
    }

    fn rules(&mut self, id: SchemaId, shape: Option<std::sync::Arc<cel::Shape>>, place: &Place) {
        let Some(compiled) = compile(self.schemas, id, shape.as_ref()) else { return };
        let times = place.cardinality.unwrap_or(compiled.cardinality);
        for (index, rule) in compiled.rules.iter().enumerate() {
            let path = place.path.child("x-kubernetes-validations").index(index);
            check_texts(&rule.rule, self.schemas, id, &path, self.errors);
            if !rule.rule.rule.trim().is_empty() {
                self.programs(rule, times, &path, place);
            }
        }
    }

    fn programs(&mut self, compiled: &CompiledRule, times: u64, path: &Path, place: &Place) {
        let at = path.child("rule");
        match &compiled.program {
            Err(why) => self.errors.push(refused(&at, &compiled.rule, why)),
            Ok(program) => self.cost(&at, "estimated rule cost", program.max_cost(), times),
        }
        match (&compiled.message, path.child("messageExpression")) {
            (None, _) => {}
            (Some(Err(why)), at) => self.errors.push(refused(&at, &compiled.rule, why)),
            (Some(Ok(program)), at) => self.cost(&at, "estimated messageExpression cost", program.max_cost(), times),
        }
        if compiled.transition
            && let Some(list) = &place.uncorrelatable
        {
            let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.push(Error::invalid(&at, compiled.rule.rule.as_str(), why));
        }
        if let (Some(flag), Ok(_), false) = (compiled.rule.optional_old_self, &compiled.program, compiled.transition) {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.push(Error::invalid(&path.child("optionalOldSelf"), flag, why));
        }
    }

    fn cost(&mut self, path: &Path, what: &str, each: u64, times: u64) {
        let cost = each.saturating_mul(times);
        if cost > RULE_LIMIT {
            self.errors.push(Error::forbidden(path, cost_text(what, cost, RULE_LIMIT)));
        }
        self.costs.push((path.clone(), cost));
    }
}

fn cost_text(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 { "more than 100x".to_owned() } else { format!("{factor:.1}x") };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

fn refused(path: &Path, rule: &Rule, why: &str) -> Error {
    Error::new(ErrorKind::InvalidShown(shown(rule)), path, why)
}

/// A rule the way upstream's messages print it: as the literal of a Go struct.
fn shown(rule: &Rule) -> String {
    use apimachinery::field::go_quoted;
    let reason = if rule.reason.is_some() {
        "(*apiextensions.FieldValueErrorReason)(0x0)"
    } else {
        "(*apiextensions.FieldValueErrorReason)(nil)"
    };
    let optional = if rule.optional_old_self.is_some() { "(*bool)(0x0)" } else { "(*bool)(nil)" };
    format!(
        "apiextensions.ValidationRule{{Rule:{}, Message:{}, MessageExpression:{}, Reason:{reason}, FieldPath:{}, OptionalOldSelf:{optional}}}",
        go_quoted(&rule.rule),
        go_quoted(&rule.message),
        go_quoted(&rule.message_expression),
        go_quoted(&rule.field_path)
    )
}

/// What can be said of a rule without compiling it.
fn check_texts(rule: &Rule, schemas: &Schemas, id: SchemaId, path: &Path, errors: &mut ErrorList) {
    if rule.rule.trim().is_empty() {
        errors.push(Error::required(&path.child("rule"), "rule is not specified"));
    }
    let message = path.child("message");
    let text = rule.message.trim();
    if !rule.message.is_empty() && text.is_empty() {
        errors.push(Error::invalid(&message, rule.message.as_str(), "message must be non-empty if specified"));
    } else if text.contains('\n') {
        errors.push(Error::invalid(&message, rule.message.as_str(), "message must not contain line breaks"));
    } else if text.is_empty() && rule.rule.trim().contains('\n') {
        errors.push(Error::required(&message, "message must be specified if rule contains line breaks"));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(Error::required(&path.child("messageExpression"), why));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
    }
    let at = path.child("fieldPath");
    let field = rule.field_path.as_str();
    if !field.is_empty() && field.trim().is_empty() {
        errors.push(Error::invalid(&at, field, "fieldPath must be non-empty if specified"));
    } else if field.contains('\n') {
        errors.push(Error::invalid(&at, field, "fieldPath must not contain line breaks"));
    } else if let Err(why) = field_path(field.trim(), schemas, id) {
        errors.push(Error::invalid(&at, field, format!("fieldPath must be a valid path: {why}")));
    }
}
