//! Scheduling constraints of pods: tolerations, affinity, topology spread; and the taints of nodes.

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
    ("node_amounts", node_amounts),
    ("pod_affinity_term", pod_affinity_term),
    ("pod_ranges", pod_ranges),
    ("scheduling", scheduling),
    ("spread_constraint", spread_constraint),
    ("toleration", toleration),
];

/// The tolerations of a runtime class differ in more than their seconds.
fn scheduling(scheduling: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("tolerations");
    let mut seen = HashSet::new();
    for (index, toleration) in list(scheduling, "tolerations").iter().enumerate() {
        let part = |field: &str| toleration[field].as_str().unwrap_or_default();
        if !seen.insert(["key", "operator", "value", "effect"].map(part)) {
            let shown = internal::shown("Toleration", toleration);
            errors.push(Error::duplicate(&at.index(index).path(), Value::Null).shown_as(shown));
        }
    }
}

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
        "Exists" => {}
        other => supported(&other.into(), &["Equal", "Exists"], &at_operator, errors),
    }
    if !effect.is_empty() {
        supported(&effect.into(), &EFFECTS, &at_effect, errors);
    }
}

fn node_amounts(node: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(status) = node.get("status") else { return };
    super::status::node_amounts(status, &at.child("status"), errors);
}

/// The pod address ranges of a node, one for each family.
fn pod_ranges(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let ranges = list(spec, "podCIDRs");
    let at = at.child("podCIDRs");
    let mut families = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        if super::network::block(range, &at.index(index), errors) {
            families.push(range.as_str().is_some_and(|range| range.contains(':')));
        }
    }
    let readable = families.len() == ranges.len();
    if readable && ranges.len() > 1 && (ranges.len() > 2 || families[0] == families[1]) {
        let detail = "may specify no more than one CIDR for each IP family";
        invalid(errors, &at, &Value::from(ranges.to_vec()), detail);
    }
    for (index, range) in ranges.iter().enumerate() {
        if ranges[..index].contains(range) {
            errors.push(Error::duplicate(&at.index(index).path(), range.clone()));
        }
    }
}

/// Upstream's path is in `metadata`.
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
    let keys = list(constraint, "matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let at = at.child("matchLabelKeys");
    label_keys(constraint, keys, &at, errors);
    selected_twice(constraint, keys, &at, errors);
}

/// `matchLabelKeys` and `mismatchLabelKeys`: label keys whose values are taken from the pod.
fn label_keys(term: &Object, keys: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    if keys.is_empty() {
        return;
    }
    if !term.contains_key("labelSelector") {
        return forbidden(errors, at, "must not be specified when labelSelector is not set");
    }
    for (index, key) in keys.iter().enumerate() {
        for complaint in names::is_qualified_name(key.as_str().unwrap_or_default()) {
            invalid(errors, &at.index(index), key, &complaint);
        }
    }
}

/// A key's value is added to the selector once; another requirement on the key was set by the client.
fn selected_twice(term: &Object, keys: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let Some(selector) = term.get("labelSelector") else { return };
    let mut seen: HashSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        if let Some(index) = keys.iter().rposition(|listed| listed == key)
            && seen.contains(key)
        {
            invalid(errors, &at.index(index), &key.into(), "exists in both matchLabelKeys and labelSelector");
        }
        seen.insert(key);
    }
}

fn pod_affinity_term(term: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for name in list(term, "namespaces") {
        for complaint in names::is_dns1123_label(name.as_str().unwrap_or_default()) {
            // Upstream's path assumes a single namespace.
            invalid(errors, &at.child("namespace"), name, &complaint);
        }
    }
    let (alike, unlike) = (list(term, "matchLabelKeys"), list(term, "mismatchLabelKeys"));
    let at_alike = at.child("matchLabelKeys");
    label_keys(term, alike, &at_alike, errors);
    label_keys(term, unlike, &at.child("mismatchLabelKeys"), errors);
    // Upstream's path names the term instead of the list of keys.
    selected_twice(term, alike, at, errors);
    for (index, key) in alike.iter().enumerate().filter(|(_, key)| unlike.contains(key)) {
        invalid(errors, &at_alike.index(index), key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Two constraints with the same topology key and `whenUnsatisfiable` are duplicates; upstream's error names the first.
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
    // The value of a preference need not match any node.
    if at.is_below("preference") {
        return;
    }
    for (index, value) in values.iter().enumerate() {
        for complaint in value.as_str().map(names::is_label_value).unwrap_or_default() {
            invalid(errors, &at_values.index(index), value, &complaint);
        }
    }
}

/// Field expressions select by `metadata.name` only, with one value.
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
