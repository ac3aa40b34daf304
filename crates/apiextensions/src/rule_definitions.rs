//! Validation of a definition's CEL rules on write: their texts, compilation, field paths, estimated cost.

use std::sync::Arc;

use apimachinery::field::{Error, ErrorKind, ErrorList, Path, json_of_go};
use apimachinery::schema::{SchemaId, Schemas};
use serde_json::{Map, Value};

use crate::rules::{CompiledRule, Rule, compile, field_path};
use crate::{structural, structural_rules};

/// The maximum estimated cost of one rule, for all the nodes of an object it applies to.
const RULE_LIMIT: u64 = 10_000_000;

/// The maximum estimated cost of all rules of a schema together.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Rules named when the limit of a schema is exceeded.
const NAMED: usize = 4;

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The estimated costs of the rules of a schema.
#[derive(Default)]
pub(crate) struct Costs(Vec<(Path, u64)>);

impl Costs {
    /// Checks the total cost of all rules; errors name the schema's `path`.
    pub(crate) fn check(self, path: &Path, errors: &mut ErrorList) {
        let mut costs = self.0;
        let total = costs.iter().fold(0u64, |total, (_, cost)| total.saturating_add(*cost));
        if total <= SCHEMA_LIMIT {
            return;
        }
        costs.retain(|(_, cost)| *cost >= SCHEMA_LIMIT / 100);
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in costs.into_iter().take(NAMED) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(Error::forbidden(&path, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(Error::forbidden(path, cost_text(what, total, SCHEMA_LIMIT)));
    }

    fn note(&mut self, path: &Path, what: &str, cost: u64, errors: &mut ErrorList) {
        if cost > RULE_LIMIT {
            errors.push(Error::forbidden(path, cost_text(what, cost, RULE_LIMIT)));
        }
        self.0.push((path.clone(), cost));
    }
}

/// The rules of one node of a structural schema.
pub(crate) struct Rules<'a> {
    pub schemas: &'a Schemas,
    pub id: SchemaId,
    pub shape: Option<Arc<cel::Shape>>,
    /// How many nodes of an object are here; `None` when only the size of a request bounds them.
    pub cardinality: Option<u64>,
    /// The list around whose items have no counterpart in an older object.
    pub uncorrelatable: Option<&'a Path>,
}

impl Rules<'_> {
    /// Checks the programs of rules whose texts are valid.
    pub(crate) fn check(&self, path: &Path, costs: &mut Costs, errors: &mut ErrorList) {
        if self.shape.is_none() {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
                       convert structural schema to CEL declarations";
            errors.push(Error::new(ErrorKind::Internal, path, why));
            return;
        }
        let Some(compiled) = compile(self.schemas, self.id, self.shape.as_ref()) else { return };
        let times = self.cardinality.unwrap_or(compiled.cardinality);
        for (index, rule) in compiled.rules.iter().enumerate() {
            self.programs(rule, times, &path.index(index), costs, errors);
        }
    }

    fn programs(&self, compiled: &CompiledRule, times: u64, path: &Path, costs: &mut Costs, errors: &mut ErrorList) {
        let at = path.child("rule");
        match &compiled.program {
            Err(why) => errors.push(refused(&at, &compiled.rule, why)),
            Ok(program) => {
                let cost = program.max_cost().saturating_mul(times);
                costs.note(&at, "estimated rule cost", cost, errors);
            }
        }
        match (&compiled.message, path.child("messageExpression")) {
            (None, _) => {}
            (Some(Err(why)), at) => errors.push(refused(&at, &compiled.rule, why)),
            // As upstream, a message counts once, however many nodes there are.
            (Some(Ok(program)), at) => {
                costs.note(&at, "estimated messageExpression cost", program.max_cost(), errors);
            }
        }
        match (compiled.transition, self.uncorrelatable, compiled.rule.optional_old_self) {
            (true, Some(list), _) => {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                errors.push(Error::invalid(&at, compiled.rule.rule.as_str(), why));
            }
            (false, _, Some(flag)) => {
                let why = "may not be set if oldSelf is not used in rule";
                errors.push(Error::invalid(&path.child("optionalOldSelf"), flag, why));
            }
            _ => {}
        }
    }
}

fn cost_text(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        over if over > 100.0 => "more than 100x".to_owned(),
        // A factor that would be printed as 1.0 gets more digits.
        slight if slight < 1.5 => format!("{slight:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

fn refused(path: &Path, rule: &Rule, why: &str) -> Error {
    Error::new(ErrorKind::InvalidShown(shown(rule)), path, why)
}

/// Prints a rule as in upstream's messages: with the members of its internal struct.
fn shown(rule: &Rule) -> String {
    let text = |text: &str| json_of_go(&Value::from(text));
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        rule.reason.as_deref().map_or_else(|| "null".to_owned(), text),
        text(&rule.field_path),
        Value::from(rule.optional_old_self),
    )
}

/// The checks of a node's rules that need no compilation.
pub(crate) fn check_texts(schema: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().map(Rule::read).enumerate() {
        let path = path.child("x-kubernetes-validations").index(index);
        check_message(&rule, &path, errors);
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
        }
        check_field_path(&rule.field_path, schema, &path.child("fieldPath"), errors);
    }
}

fn breaks_lines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

fn check_message(rule: &Rule, path: &Path, errors: &mut ErrorList) {
    let message = path.child("message");
    let (text, condition) = (rule.message.trim(), rule.rule.trim());
    if condition.is_empty() {
        errors.push(Error::required(&path.child("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && text.is_empty() {
        errors.push(Error::invalid(&message, rule.message.as_str(), "must be non-empty if specified"));
    } else if breaks_lines(text) {
        errors.push(Error::invalid(&message, rule.message.as_str(), "must not contain line breaks"));
    } else if text.is_empty() && breaks_lines(condition) {
        errors.push(Error::required(&message, "message must be specified if rule contains line breaks"));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(Error::required(&path.child("messageExpression"), why));
    }
}

fn check_field_path(field: &str, schema: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    if field.is_empty() {
        return;
    }
    if field.trim().is_empty() {
        errors.push(Error::invalid(path, field, "must be non-empty if specified"));
    }
    if breaks_lines(field) {
        errors.push(Error::invalid(path, field, "must not contain line breaks"));
    }
    // Paths in a schema that is not structural are not checked.
    if structural_rules::is_unreadable(schema) {
        return;
    }
    // Implied fields are not declared.
    let wrapper = serde_json::json!({"properties": {"self": schema}});
    let type_ = structural::compile(Some(&wrapper), None);
    let Some(property) = type_.schemas.get(type_.root).properties.get("self") else { return };
    if field_path(field, &type_.schemas, property.schema).is_err() {
        errors.push(Error::invalid(path, field, "must be a valid path"));
    }
}
