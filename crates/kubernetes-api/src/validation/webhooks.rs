//! Configurations of admission webhooks, and the rules that they share with admission policies.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorKind, ErrorList};
use apimachinery::names;
use apimachinery::webhook_client::{self, Rules};
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, invalid, list, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("admission_rule", admission_rule),
    ("client_config", client_config),
    ("unique_webhooks", unique_webhooks),
    ("webhook", webhook),
];

const UNKNOWN_VERSIONS: &str = "must include at least one of v1, v1beta1";
const OTHERS: &str = "if '*/*' is present, must not specify other resources";
const OTHERS_WHOLE: &str = "if '*' is present, must not specify other resources without subresources";
const EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

/// Webhooks of a configuration have unique names.
fn unique_webhooks(configuration: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("webhooks");
    let mut seen = HashSet::new();
    for (index, webhook) in list(configuration, "webhooks").iter().enumerate() {
        let name = webhook["name"].as_str().unwrap_or_default();
        if !name.is_empty() && !seen.insert(name) {
            errors.push(Error::duplicate(&at.index(index).child("name").path(), name));
        }
    }
}

fn webhook(webhook: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = text(webhook, "name");
    let at_name = at.child("name");
    if name.is_empty() {
        required(errors, &at_name, "");
    } else {
        let complaints = names::is_dns1123_subdomain(name);
        if !complaints.is_empty() {
            invalid(errors, &at_name, &name.into(), &complaints.join(","));
        } else if name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            invalid(errors, &at_name, &name.into(), detail);
        }
    }
    review_versions(list(webhook, "admissionReviewVersions"), &at.child("admissionReviewVersions"), errors);
    if let Some(seconds) = webhook.get("timeoutSeconds")
        && !seconds.as_i64().is_some_and(|seconds| (1..=30).contains(&seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        invalid(errors, &at.child("timeoutSeconds"), seconds, detail);
    }
    let at_effects = at.child("sideEffects");
    match webhook.get("sideEffects") {
        None => required(errors, &at_effects, "must specify one of None, NoneOnDryRun"),
        Some(effects) if !EFFECTS.iter().any(|known| effects == known) => {
            errors.push(Error::not_supported(&at_effects.path(), effects.clone(), &EFFECTS));
        }
        Some(_) => {}
    }
}

fn is_accepted(version: &Value) -> bool {
    version == "v1" || version == "v1beta1"
}

fn review_versions(versions: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    if versions.is_empty() {
        return required(errors, at, "must specify one of v1, v1beta1");
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = at.index(index);
        if !seen.insert(version) {
            invalid(errors, &at, version, "duplicate version");
            continue;
        }
        for complaint in names::is_dns1035_label(version.as_str().unwrap_or_default()) {
            invalid(errors, &at, version, &complaint);
        }
    }
    if !versions.iter().any(is_accepted) {
        invalid(errors, at, &Value::from(versions.to_vec()), UNKNOWN_VERSIONS);
    }
}

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// The requests that a webhook or a policy matches.
pub(super) fn admission_rule(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let operations = list(rule, "operations");
    let at_operations = at.child("operations");
    if operations.is_empty() {
        required(errors, &at_operations, "");
    }
    let all = |list: &[Value]| Value::from(list.to_vec());
    if operations.len() > 1 && operations.iter().any(|operation| operation == "*") {
        let detail = "if '*' is present, must not specify other operations";
        invalid(errors, &at_operations, &all(operations), detail);
    }
    for (index, operation) in operations.iter().enumerate() {
        super::checks::supported(operation, &OPERATIONS, &at_operations.index(index), errors);
    }
    for (field, words) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let specified = list(rule, field);
        let at = at.child(field);
        if specified.is_empty() {
            required(errors, &at, "");
        }
        if specified.len() > 1 && specified.iter().any(|item| item == "*") {
            let detail = format!("if '*' is present, must not specify other {words}");
            invalid(errors, &at, &all(specified), &detail);
        }
        let unnamed = specified.iter().enumerate().filter(|(_, item)| field == "apiVersions" && *item == "");
        unnamed.for_each(|(index, _)| required(errors, &at.index(index), ""));
    }
    rule_resources(rule, at, errors);
    if let Some(scope) = rule.get("scope") {
        super::checks::supported(scope, &["*", "Cluster", "Namespaced"], &at.child("scope"), errors);
    }
}

fn rule_resources(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let resources = list(rule, "resources");
    let at = at.child("resources");
    let all = Value::from(resources.to_vec());
    if resources.is_empty() {
        required(errors, &at, "");
    }
    let (mut of_any_part, mut of_any_resource) = (HashSet::new(), HashSet::new());
    let mut ends_whole = false;
    for (index, text) in resources.iter().map(|resource| resource.as_str().unwrap_or_default()).enumerate() {
        let at = at.index(index);
        let Some((resource, part)) = text.split_once('/') else {
            if text.is_empty() {
                required(errors, &at, "");
            } else {
                ends_whole = text != "*";
            }
            continue;
        };
        let mut repeats = |all: String| {
            let detail = format!("if '{all}' is present, must not specify {text}");
            invalid(errors, &at, &text.into(), &detail);
        };
        if of_any_part.contains(resource) {
            repeats(format!("{resource}/*"));
        }
        if of_any_resource.contains(part) {
            repeats(format!("*/{part}"));
        }
        if part == "*" {
            of_any_part.insert(resource);
        }
        if resource == "*" {
            of_any_resource.insert(part);
        }
    }
    let has = |wildcard: &str| resources.iter().any(|resource| resource == wildcard);
    if has("*/*") && resources.len() > 1 {
        invalid(errors, &at, &all, OTHERS);
    }
    // As upstream, only the last resource without a subresource counts: `a, *` is accepted.
    if has("*") && ends_whole {
        invalid(errors, &at, &all, OTHERS_WHOLE);
    }
}

fn client_config(config: &Object, at: &At<'_>, errors: &mut ErrorList) {
    webhook_client::validate(&Value::Object(config.clone()), &at.path(), Rules::KUBERNETES, errors);
}

/// Faults that the old configuration had already are no faults of an update.
pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let [was, is] = [old, new].map(|it| it["webhooks"].as_array().map_or(&[][..], Vec::as_slice));
    let mut names = HashSet::new();
    let had_duplicates = was.iter().any(|hook| !names.insert(hook["name"].as_str()));
    let knows_no_version = |versions: &Vec<Value>| !versions.is_empty() && !versions.iter().any(is_accepted);
    let had_unknown_versions =
        was.iter().any(|hook| hook["admissionReviewVersions"].as_array().is_some_and(knows_no_version));
    let had_effects = was.iter().any(|hook| !EFFECTS.iter().any(|known| hook["sideEffects"] == *known));
    let same_conditions =
        was.len() == is.len() && was.iter().zip(is).all(|(a, b)| a["matchConditions"] == b["matchConditions"]);
    errors.retain(|error| {
        let path = error.path.as_str();
        let is_known = (had_duplicates && is_duplicate_webhook(error))
            || (had_unknown_versions && error.detail == UNKNOWN_VERSIONS)
            || (had_effects && is_former_effect(error))
            || (same_conditions && path.contains("].matchConditions"));
        !is_known
    });
}

/// Whether two webhooks of a configuration have the same name.
pub(super) fn is_duplicate_webhook(error: &Error) -> bool {
    let path = error.path.as_str();
    let is_name = path.starts_with("webhooks[") && path.ends_with("].name") && path.matches('[').count() == 1;
    is_name && matches!(error.kind, ErrorKind::Duplicate(_))
}

/// Whether an error about a list comes after those about its items.
pub(super) fn follows_items(error: &Error) -> bool {
    [UNKNOWN_VERSIONS, OTHERS, OTHERS_WHOLE].contains(&error.detail.as_str())
}

/// Effects that `v1beta1` permitted.
fn is_former_effect(error: &Error) -> bool {
    let ErrorKind::NotSupported { value, .. } = &error.kind else { return false };
    error.path.as_str().ends_with("].sideEffects") && (*value == "Some" || *value == "Unknown")
}
