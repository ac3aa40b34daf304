//! Storage, priorities, leases, webhooks and certificates.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use apimachinery::webhook_client::{self, Rules};
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("admission_rule", admission_rule),
    ("claim_spec", claim_spec),
    ("client_config", client_config),
    ("priority_class", priority_class),
    ("unique_webhooks", unique_webhooks),
    ("webhook", webhook),
];

/// Higher values are the system's own.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn claim_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let modes = list(spec, "accessModes");
    access_modes(modes, at, errors);
    let others = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"];
    let mixed = modes.iter().any(|mode| others.iter().any(|other| mode == *other));
    if modes.iter().any(|mode| mode == "ReadWriteOncePod") && mixed {
        forbidden(errors, &at.child("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    let requests = object(spec, "resources").and_then(|resources| object(resources, "requests"));
    let storage = requests.and_then(|requests| requests.get("storage"));
    let at_requests = at.child("resources");
    let at_storage = at_requests.key("storage");
    match storage.and_then(Value::as_str).map(str::parse::<Quantity>) {
        None if storage.is_none() => required(errors, &at_storage, ""),
        Some(Ok(amount)) if amount.is_zero() || amount.is_negative() => {
            invalid(errors, &at_storage, &Value::from(amount.to_string()), "must be greater than zero");
        }
        _ => {}
    }
    data_sources(spec, at, errors);
}

/// The data sources of a claim.
fn data_sources(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = object(spec, field) else { continue };
        let at = at.child(field);
        for part in ["name", "kind"] {
            if text(source, part).is_empty() {
                required(errors, &at.child(part), "");
            }
        }
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            invalid(errors, &at, &kind.into(), detail);
        }
        for complaint in Some(group).filter(|g| !g.is_empty()).map(names::is_dns1123_subdomain).unwrap_or_default() {
            invalid(errors, &at.child("apiGroup"), &group.into(), &complaint);
        }
    }
}

pub(super) fn access_modes(modes: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes {
        super::checks::supported(mode, &known, &at.child("accessModes"), errors);
    }
}

fn priority_class(class: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = class.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default());
    let own = ["system-cluster-critical", "system-node-critical"].contains(&name);
    if own {
        return;
    }
    if name.starts_with("system-") {
        let at = at.child("metadata");
        let detail = "priority class names with 'system-' prefix are reserved for system use only";
        forbidden(errors, &at.child("name"), detail);
    }
    if class.get("value").and_then(Value::as_i64).is_some_and(|value| value > MAX_USER_PRIORITY) {
        let detail = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        forbidden(errors, &at.child("value"), &detail);
    }
}

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
        for complaint in names::is_dns1123_subdomain(name) {
            invalid(errors, &at_name, &name.into(), &complaint);
        }
        if name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            invalid(errors, &at_name, &name.into(), detail);
        }
    }
    let versions = list(webhook, "admissionReviewVersions");
    let at_versions = at.child("admissionReviewVersions");
    if versions.is_empty() {
        required(errors, &at_versions, "must specify one of v1, v1beta1");
    } else if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        invalid(errors, &at_versions, &Value::from(versions.to_vec()), detail);
    }
    if let Some(seconds) = webhook.get("timeoutSeconds")
        && !seconds.as_i64().is_some_and(|seconds| (1..=30).contains(&seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        invalid(errors, &at.child("timeoutSeconds"), seconds, detail);
    }
    let at_effects = at.child("sideEffects");
    match webhook.get("sideEffects") {
        None => required(errors, &at_effects, "must specify one of None, NoneOnDryRun"),
        Some(effects) if effects != "None" && effects != "NoneOnDryRun" => {
            errors.push(Error::not_supported(&at_effects.path(), effects.clone(), &["None", "NoneOnDryRun"]));
        }
        Some(_) => {}
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
    let scope = text(rule, "scope");
    if !scope.is_empty() && !matches!(scope, "*" | "Cluster" | "Namespaced") {
        let known = ["Cluster", "Namespaced", "*"];
        errors.push(Error::not_supported(&at.child("scope").path(), scope, &known));
    }
}

fn rule_resources(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let resources = list(rule, "resources");
    let at = at.child("resources");
    let all = Value::from(resources.to_vec());
    let texts: Vec<&str> = resources.iter().filter_map(Value::as_str).collect();
    if texts.is_empty() {
        required(errors, &at, "");
    }
    let unnamed = texts.iter().enumerate().filter(|(_, resource)| resource.is_empty());
    unnamed.for_each(|(index, _)| required(errors, &at.index(index), ""));
    if texts.contains(&"*/*") && texts.len() > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        invalid(errors, &at, &all, detail);
    }
    if texts.contains(&"*") && texts.iter().any(|text| *text != "*" && !text.contains('/')) {
        let detail = "if '*' is present, must not specify other resources without subresources";
        invalid(errors, &at, &all, detail);
    }
}

fn client_config(config: &Object, at: &At<'_>, errors: &mut ErrorList) {
    webhook_client::validate(&Value::Object(config.clone()), &at.path(), Rules::KUBERNETES, errors);
}
