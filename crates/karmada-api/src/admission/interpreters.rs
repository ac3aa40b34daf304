//! Validates the configurations of the resource interpreter: webhooks and customizations.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::{is_dns1035_label, is_dns1123_subdomain};
use apimachinery::webhook_client::{self, Rules};
use serde_json::Value;

use super::autoscaling::{list, text};
use super::{Denied, Request};

/// The operations that a rule may name, `*` first.
const OPERATIONS: &[&str] = &[
    "*",
    "AggregateStatus",
    "InterpretComponent",
    "InterpretDependency",
    "InterpretHealth",
    "InterpretReplica",
    "InterpretStatus",
    "Retain",
    "ReviseReplica",
];

pub(super) fn webhooks(object: &Value) -> Result<(), Denied> {
    let mut errors = ErrorList::new();
    let mut names = BTreeSet::new();
    for (index, hook) in list(&object["webhooks"]).iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        let (name, name_path) = (text(hook, "name"), path.child("name"));
        errors.extend(qualified_name(name, &name_path));
        for (index, rule) in list(&hook["rules"]).iter().enumerate() {
            errors.extend(self::rule(rule, &path.child("rules").index(index)));
        }
        if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(Error::invalid(&path.child("timeoutSeconds"), seconds, detail));
        }
        webhook_client::validate(&hook["clientConfig"], &path.child("clientConfig"), Rules::KARMADA, &mut errors);
        errors.extend(versions(list(&hook["interpreterContextVersions"]), &path.child("interpreterContextVersions")));
        if !names.insert(name) {
            errors.push(Error::duplicate(&name_path, name));
        }
    }
    Denied::unless_empty(errors)
}

fn qualified_name(name: &str, path: &Path) -> ErrorList {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors: ErrorList =
        is_dns1123_subdomain(name).into_iter().map(|detail| Error::invalid(path, name, detail)).collect();
    if errors.is_empty() && !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(path, name, detail));
    }
    errors
}

fn rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = check_wildcard(rule, path, "operations", "operations", true);
    for (index, operation) in list(&rule["operations"]).iter().enumerate() {
        if !operation.as_str().is_some_and(|it| OPERATIONS.contains(&it)) {
            let path = path.child("operations").index(index);
            errors.push(Error::not_supported(&path, operation.clone(), OPERATIONS));
        }
    }
    errors.extend(check_wildcard(rule, path, "apiGroups", "API groups", true));
    errors.extend(check_wildcard(rule, path, "apiVersions", "API versions", false));
    errors.extend(check_wildcard(rule, path, "kinds", "kinds", false));
    errors
}

/// A list with at least one item, in which `*` must be the only one.
fn check_wildcard(rule: &Value, path: &Path, field: &str, words: &str, may_be_empty_text: bool) -> ErrorList {
    let (items, path) = (list(&rule[field]), path.child(field));
    let mut errors = ErrorList::new();
    if items.is_empty() {
        errors.push(Error::required(&path, ""));
    }
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {words}");
        errors.push(Error::invalid(&path, items.to_vec(), detail));
    }
    if !may_be_empty_text {
        let empty = items.iter().enumerate().filter(|(_, item)| *item == "");
        errors.extend(empty.map(|(index, _)| Error::required(&path.index(index), "")));
    }
    errors
}

fn versions(versions: &[Value], path: &Path) -> ErrorList {
    if versions.is_empty() {
        return vec![Error::required(path, "must specify one of v1alpha1")];
    }
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let (name, path) = (version.as_str().unwrap_or_default(), path.index(index));
        if !seen.insert(name) {
            errors.push(Error::invalid(&path, name, "duplicate version"));
            continue;
        }
        errors.extend(is_dns1035_label(name).into_iter().map(|detail| Error::invalid(&path, name, detail)));
    }
    if !seen.contains("v1alpha1") {
        errors.push(Error::invalid(path, versions.to_vec(), "must include at least one of v1alpha1"));
    }
    errors
}

/// Operations and the fields of their scripts, in the order of validation.
const SCRIPTS: &[(&str, &str)] = &[
    ("Retain", "retention"),
    ("InterpretReplica", "replicaResource"),
    ("InterpretComponent", "componentResource"),
    ("ReviseReplica", "replicaRevision"),
    ("InterpretStatus", "statusReflection"),
    ("AggregateStatus", "statusAggregation"),
    ("InterpretHealth", "healthInterpretation"),
    ("InterpretDependency", "dependencyInterpretation"),
];

fn script<'a>(object: &'a Value, field: &str) -> &'a str {
    object["spec"]["customizations"][field]["luaScript"].as_str().unwrap_or_default()
}

/// A kind has at most one script per operation over all customizations, except for dependencies, which are merged.
/// Scripts must compile.
pub(super) fn customization(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let name = &object["metadata"]["name"];
    for other in request.customizations.iter().filter(|it| it["metadata"]["name"] != *name) {
        let (target, other_target) = (&object["spec"]["target"], &other["spec"]["target"]);
        if text(target, "apiVersion") != text(other_target, "apiVersion")
            || text(target, "kind") != text(other_target, "kind")
        {
            continue;
        }
        let exclusive = SCRIPTS.iter().filter(|(operation, _)| *operation != "InterpretDependency");
        for (operation, field) in exclusive {
            if !script(object, field).is_empty() && !script(other, field).is_empty() {
                let other = text(&other["metadata"], "name");
                return Err(Denied::Rule(format!(
                    "conflicting with InterpreterOperation({operation}) of existing \
                     ResourceInterpreterCustomization({other})"
                )));
            }
        }
    }
    let Some(compile) = request.options.compile_script else { return Ok(()) };
    for (operation, field) in SCRIPTS {
        let script = script(object, field);
        if !script.is_empty() {
            compile(script)
                .map_err(|why| Denied::Rule(format!("InterpreterOperation({operation}) Lua script error: {why}")))?;
        }
    }
    Ok(())
}
