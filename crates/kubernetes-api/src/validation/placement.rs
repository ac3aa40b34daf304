//! Where pods may run: what they tolerate, which nodes they ask for, how they are spread; and the taints of nodes.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::supported;
use super::table::Function;
use super::{Object, forbidden, internal, invalid, list, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("node_selector_term", node_selector_term),
    ("node_taints", node_taints),
    ("spread_constraint", spread_constraint),
    ("toleration", toleration),
];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn toleration(toleration: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (operator, effect) = (text(toleration, "operator"), text(toleration, "effect"));
    let value = text(toleration, "value");
    let (at_operator, at_effect) = (at.child("operator"), at.child("effect"));
    if text(toleration, "key").is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        invalid(errors, &at_operator, &operator.into(), detail);
    }
    if toleration.contains_key("tolerationSeconds") && effect != "NoExecute" {
        invalid(errors, &at_effect, &effect.into(), "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator {
        "" | "Equal" => {
            let complaints = names::is_label_value(value);
            if !complaints.is_empty() {
                invalid(errors, &at_operator, &value.into(), &complaints.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            let shown = internal::shown("Toleration", &Value::Object(toleration.clone()));
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(Error::invalid(&at_operator.path(), Value::Null, detail).shown_as(shown));
        }
        "Exists" | "Gt" | "Lt" => {}
        other => supported(&other.into(), &["Equal", "Exists"], &at_operator, errors),
    }
    if !effect.is_empty() {
        supported(&effect.into(), &EFFECTS, &at_effect, errors);
    }
}

/// Upstream looks for them in `metadata`.
fn node_taints(spec: &Object, _at: &At<'_>, errors: &mut ErrorList) {
    let root = At::root();
    let at = root.child("metadata");
    let at_list = at.child("taints");
    let mut seen = HashSet::new();
    for (index, taint) in list(spec, "taints").iter().enumerate() {
        let at = at_list.index(index);
        let part = |name: &str| taint[name].as_str().unwrap_or_default();
        let (key, effect) = (part("key"), part("effect"));
        for complaint in names::is_qualified_name(key) {
            invalid(errors, &at.child("key"), &key.into(), &complaint);
        }
        let complaints = names::is_label_value(part("value"));
        if !complaints.is_empty() {
            invalid(errors, &at.child("value"), &part("value").into(), &complaints.join(";"));
        }
        match effect {
            "" => required(errors, &at.child("effect"), ""),
            other => supported(&other.into(), &EFFECTS, &at.child("effect"), errors),
        }
        if !seen.insert((key, effect)) {
            let shown = format!(
                r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":null}}"#,
                Value::from(key),
                Value::from(part("value")),
                Value::from(effect)
            );
            let mut duplicate = Error::duplicate(&at.path(), taint.clone()).shown_as(shown);
            "taints must be unique by key and effect pair".clone_into(&mut duplicate.detail);
            errors.push(duplicate);
        }
    }
}

fn spread_constraint(constraint: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let unsatisfiable = text(constraint, "whenUnsatisfiable");
    if let Some(domains) = constraint.get("minDomains").filter(|_| unsatisfiable != "DoNotSchedule") {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}");
        invalid(errors, &at.child("minDomains"), domains, &detail);
    }
}

/// Two constraints with the same key and answer are one kind of spread; upstream names the first of them.
pub(super) fn spread(constraints: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let kind = |constraint: &Value| {
        let part = |name: &str| constraint[name].as_str().unwrap_or_default().to_owned();
        (part("topologyKey"), part("whenUnsatisfiable"))
    };
    let mut later = HashSet::new();
    for (index, constraint) in constraints.iter().enumerate().rev() {
        let (key, answer) = kind(constraint);
        let shown = format!("{{{key}, {answer}}}");
        if !later.insert((key, answer)) {
            errors.push(Error::duplicate(&at.index(index).child("{topologyKey, whenUnsatisfiable}").path(), shown));
        }
    }
}

fn node_selector_term(term: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_list = at.child("matchExpressions");
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        expression_on_labels(expression, &at_list.index(index), errors);
    }
    let at_list = at.child("matchFields");
    for (index, expression) in list(term, "matchFields").iter().enumerate() {
        expression_on_fields(expression, &at_list.index(index), errors);
    }
}

fn expression_on_labels(expression: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let values = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
    let at_values = at.child("values");
    match expression["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            required(errors, &at_values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            forbidden(errors, &at_values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            required(errors, &at_values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => invalid(errors, &at.child("operator"), &other.into(), "not a valid selector operator"),
    }
    let key = expression["key"].as_str().unwrap_or_default();
    for complaint in names::is_qualified_name(key) {
        invalid(errors, &at.child("key"), &key.into(), &complaint);
    }
    for (index, value) in values.iter().enumerate() {
        for complaint in value.as_str().map(names::is_label_value).unwrap_or_default() {
            invalid(errors, &at_values.index(index), value, &complaint);
        }
    }
}

/// Only the names of nodes can be asked for, one at a time.
fn expression_on_fields(expression: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let values = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
    let at_values = at.child("values");
    match expression["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            required(errors, &at_values, detail);
        }
        "In" | "NotIn" => {}
        other => invalid(errors, &at.child("operator"), &other.into(), "not a valid selector operator"),
    }
    let key = expression["key"].as_str().unwrap_or_default();
    if key != "metadata.name" {
        return invalid(errors, &at.child("key"), &key.into(), "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        for complaint in value.as_str().map(names::is_dns1123_subdomain).unwrap_or_default() {
            invalid(errors, &at_values.index(index), value, &complaint);
        }
    }
}
