//! Admission policies and their bindings, and the expressions of policies and webhooks.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::{selector, shape, supported};
use super::table::Function;
use super::webhooks::admission_rule;
use super::{Object, forbidden, invalid, list, object, required, text};
use crate::expressions::{RequiredType, Scope};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("audit_annotations", audit_annotations),
    ("match_condition", match_condition),
    ("match_conditions", match_conditions),
    ("mutating_policy", mutating_policy),
    ("mutation", mutation),
    ("parameter_kind", parameter_kind),
    ("policy_expressions", policy_expressions),
    ("policy_binding", policy_binding),
    ("policy_validation", policy_validation),
    ("policy_variable", policy_variable),
    ("validating_policy", validating_policy),
    ("validation_actions", validation_actions),
];

const MAX_CONDITIONS: usize = 64;
const MAX_ANNOTATIONS: usize = 20;
/// Bytes of the expression of an annotation.
const MAX_ANNOTATION: usize = 5 << 10;

fn validating_policy(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match_constraints(spec, at, errors);
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        for field in ["validations", "auditAnnotations"] {
            required(errors, &at.child(field), "validations or auditAnnotations must contain at least one item");
        }
    }
}

/// Conditions that an update does not change are not checked again.
pub(super) fn validating_policy_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    if ["paramKind", "matchConditions"].iter().all(|field| old["spec"][field] == new["spec"][field]) {
        errors.retain(|error| !error.path.as_str().starts_with("spec.matchConditions"));
    }
}

fn mutating_policy(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match_constraints(spec, at, errors);
    if list(spec, "mutations").is_empty() {
        required(errors, &at.child("mutations"), "mutations must contain at least one item");
    }
    match text(spec, "reinvocationPolicy") {
        "" => required(errors, &at.child("reinvocationPolicy"), ""),
        specified => supported(&specified.into(), &["Never", "IfNeeded"], &at.child("reinvocationPolicy"), errors),
    }
}

/// The resources that a policy matches; at least one rule is required.
fn match_constraints(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("matchConstraints");
    let Some(constraints) = object(spec, "matchConstraints") else { return required(errors, &at, "") };
    match_resources(constraints, &at, errors);
    if list(constraints, "resourceRules").is_empty() {
        required(errors, &at.child("resourceRules"), "");
    }
}

fn match_resources(resources: &Object, at: &At<'_>, errors: &mut ErrorList) {
    supported(&text(resources, "matchPolicy").into(), &["Equivalent", "Exact"], &at.child("matchPolicy"), errors);
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(value) = resources.get(field) {
            selector(value, &at.child(field), errors);
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let at = at.child(field);
        for (index, rule) in list(resources, field).iter().enumerate() {
            let Some(rule) = rule.as_object() else { continue };
            let at = at.index(index);
            resource_names(list(rule, "resourceNames"), &at.child("resourceNames"), errors);
            admission_rule(rule, &at, errors);
        }
    }
}

fn resource_names(specified: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, name) in specified.iter().enumerate() {
        shape(name, names::is_path_segment, &at.index(index), errors);
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.index(index).path(), name.clone()));
        }
    }
}

/// Conditions of policies, and of webhooks as well.
fn match_conditions(parent: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (specified, at) = (list(parent, "matchConditions"), at.child("matchConditions"));
    if specified.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(&at.path(), specified.len(), MAX_CONDITIONS));
    }
    let mut seen = HashSet::new();
    for (index, condition) in specified.iter().enumerate() {
        let name = condition["name"].as_str().unwrap_or_default();
        if !name.is_empty() && !seen.insert(name) {
            errors.push(Error::duplicate(&at.index(index).child("name").path(), name));
        }
        let source = condition["expression"].as_str().unwrap_or_default().trim();
        let scope = Scope::new(parent.contains_key("paramKind"));
        compile(&scope, source, RequiredType::Bool, &at.index(index).child("expression"), errors);
    }
}

/// Adds the error in an expression; other rules report an empty one.
fn compile(
    scope: &Scope,
    source: &str,
    required_type: RequiredType,
    at: &At<'_>,
    errors: &mut ErrorList,
) -> Option<cel::Program> {
    if source.trim().is_empty() {
        return None;
    }
    scope.compile(source, required_type).map_err(|why| invalid(errors, at, &source.into(), &why)).ok()
}

/// The expressions of a policy, apart from its match conditions.
fn policy_expressions(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut scope = Scope::new(spec.contains_key("paramKind"));
    let source = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let at_variables = at.child("variables");
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        let at = at_variables.index(index);
        let program =
            compile(&scope, &source(variable, "expression"), RequiredType::Any, &at.child("expression"), errors);
        scope.declare(variable["name"].as_str().unwrap_or_default(), program.as_ref());
    }
    let at_validations = at.child("validations");
    for (index, validation) in list(spec, "validations").iter().enumerate() {
        let at = at_validations.index(index);
        compile(&scope, &source(validation, "expression"), RequiredType::Bool, &at.child("expression"), errors);
        let (message, at) = (source(validation, "messageExpression"), at.child("messageExpression"));
        compile(&scope.without_authorizer(), &message, RequiredType::String, &at, errors);
    }
    let (at_mutations, of_mutations) = (at.child("mutations"), scope.clone().with_mutations());
    for (index, mutation) in list(spec, "mutations").iter().enumerate() {
        let at = at_mutations.index(index);
        let (field, required_type) = match mutation["patchType"].as_str() {
            Some("ApplyConfiguration") => ("applyConfiguration", RequiredType::Object),
            Some("JSONPatch") => ("jsonPatch", RequiredType::Patches),
            _ => continue,
        };
        let at = at.child(field);
        compile(&of_mutations, &source(&mutation[field], "expression"), required_type, &at.child("expression"), errors);
    }
    let at_annotations = at.child("auditAnnotations");
    for (index, annotation) in list(spec, "auditAnnotations").iter().enumerate() {
        let at = at_annotations.index(index);
        let (value, at) = (source(annotation, "valueExpression"), at.child("valueExpression"));
        let trimmed = value.trim();
        if trimmed.is_empty() || trimmed.len() > MAX_ANNOTATION {
            continue;
        }
        if let Err(why) = scope.compile(trimmed, RequiredType::StringOrNull) {
            invalid(errors, &at, &value.into(), &why);
        }
    }
}

fn match_condition(condition: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if text(condition, "expression").trim().is_empty() {
        required(errors, &at.child("expression"), "");
    }
    match text(condition, "name") {
        "" => required(errors, &at.child("name"), ""),
        name => shape(&name.into(), names::is_qualified_name, &at.child("name"), errors),
    }
}

fn parameter_kind(parameter: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (version, at_version) = (text(parameter, "apiVersion"), at.child("apiVersion"));
    match version {
        "" => required(errors, &at_version, ""),
        _ if version.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {version}");
            invalid(errors, &at_version, &version.into(), &detail);
        }
        _ => group_version(version, &at_version, errors),
    }
    let (kind, at_kind) = (text(parameter, "kind"), at.child("kind"));
    let complaints = names::is_dns1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        required(errors, &at_kind, "");
    } else if !complaints.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        invalid(errors, &at_kind, &kind.into(), &detail);
    }
}

fn group_version(text: &str, at: &At<'_>, errors: &mut ErrorList) {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    let mut check_part = |part: &str, complaints: Vec<String>| {
        if !complaints.is_empty() {
            invalid(errors, at, &part.into(), &complaints.join(","));
        }
    };
    if !group.is_empty() {
        check_part(group, names::is_dns1123_subdomain(group));
    }
    if version.is_empty() {
        check_part(text, vec!["version must be specified".to_owned()]);
    } else {
        check_part(version, names::is_dns1035_label(version));
    }
}

/// Reserved words of CEL.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

fn policy_variable(variable: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = text(variable, "name");
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if name.trim().is_empty() {
        required(errors, &at.child("name"), "name is not specified");
    } else if !letters || !begins || RESERVED.contains(&name) {
        invalid(errors, &at.child("name"), &name.into(), "name is not a valid CEL identifier");
    }
    if text(variable, "expression").trim().is_empty() {
        required(errors, &at.child("expression"), "expression is not specified");
    }
}

const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

fn policy_validation(validation: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if text(validation, "expression").trim().is_empty() {
        required(errors, &at.child("expression"), "expression is not specified");
    }
    let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let (computed, message) = (text(validation, "messageExpression"), text(validation, "message"));
    if blank(computed) {
        invalid(errors, &at.child("messageExpression"), &computed.into(), "must be non-empty if specified");
    }
    if blank(message) {
        invalid(errors, &at.child("message"), &message.into(), "message must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        invalid(errors, &at.child("message"), &message.into(), "message must not contain line breaks");
    }
    if let Some(reason) = validation.get("reason") {
        supported(reason, &REASONS, &at.child("reason"), errors);
    }
}

/// Audit annotation keys, which are combined with the policy's name.
fn audit_annotations(policy: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = policy.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default());
    let at = at.child("spec");
    let at = at.child("auditAnnotations");
    let specified = object(policy, "spec").map_or(&[][..], |spec| list(spec, "auditAnnotations"));
    if specified.len() > MAX_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        invalid(errors, &at, &specified.to_vec().into(), &detail);
    }
    let mut seen = HashSet::new();
    for (index, annotation) in specified.iter().enumerate() {
        let at = at.index(index);
        let key = annotation["key"].as_str().unwrap_or_default();
        let whole = format!("{name}/{key}");
        for complaint in names::is_qualified_name(&whole) {
            invalid(errors, &at.child("key"), &whole.as_str().into(), &complaint);
        }
        let value = annotation["valueExpression"].as_str().unwrap_or_default().trim();
        if value.is_empty() {
            required(errors, &at.child("valueExpression"), "valueExpression is not specified");
        } else if value.len() > MAX_ANNOTATION {
            let detail = format!("must not exceed {MAX_ANNOTATION} bytes in length");
            required(errors, &at.child("valueExpression"), &detail);
        }
        if !seen.insert(key) {
            errors.push(Error::duplicate(&at.child("key").path(), key));
        }
    }
}

fn mutation(mutation: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let known = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
    let type_ = text(mutation, "patchType");
    if type_.is_empty() {
        return required(errors, &at.child("patchType"), "");
    }
    if !known.iter().any(|(name, _)| *name == type_) {
        return errors.push(Error::not_supported(&at.child("patchType").path(), type_, &known.map(|(name, _)| name)));
    }
    for (name, field) in known {
        let at = at.child(field);
        match object(mutation, field) {
            Some(_) if name != type_ => {
                let (shown, detail) =
                    (format!("{{{field}}}"), format!("must not be specified when patchType is {type_}"));
                invalid(errors, &at, &shown.into(), &detail);
            }
            None if name == type_ => {
                required(errors, &at, &format!("must be specified when patchType is {type_}"));
            }
            Some(specified) if text(specified, "expression").trim().is_empty() => {
                required(errors, &at.child("expression"), "expression is not specified");
            }
            _ => {}
        }
    }
}

/// Bindings of both kinds of policies.
fn policy_binding(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match text(spec, "policyName") {
        "" => required(errors, &at.child("policyName"), ""),
        name => shape(&name.into(), names::is_dns1123_subdomain, &at.child("policyName"), errors),
    }
    if let Some(parameters) = object(spec, "paramRef") {
        parameter_reference(parameters, &at.child("paramRef"), errors);
    }
    if let Some(resources) = object(spec, "matchResources") {
        // The misspelling is upstream's.
        match_resources(resources, &at.child("matchResouces"), errors);
    }
}

fn parameter_reference(reference: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const EITHER: &str = "name and selector are mutually exclusive";
    let (name, chosen) = (text(reference, "name"), reference.get("selector"));
    let (at_name, at_selector) = (at.child("name"), at.child("selector"));
    shape(&name.into(), names::is_path_segment, &at_name, errors);
    if let Some(value) = chosen {
        selector(value, &at_selector, errors);
    }
    match (name.is_empty(), chosen.is_none()) {
        (false, false) => {
            forbidden(errors, &at_name, EITHER);
            forbidden(errors, &at_selector, EITHER);
        }
        (true, true) => required(errors, at, "one of name or selector must be specified"),
        _ => {}
    }
    match text(reference, "parameterNotFoundAction") {
        "" => required(errors, &at.child("parameterNotFoundAction"), ""),
        action => supported(&action.into(), &["Deny", "Allow"], &at.child("parameterNotFoundAction"), errors),
    }
}

fn validation_actions(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let actions = list(spec, "validationActions");
    let at = at.child("validationActions");
    if actions.is_empty() {
        return required(errors, &at, "at least one validation action is required");
    }
    for (index, action) in actions.iter().enumerate() {
        supported(action, &["Audit", "Deny", "Warn"], &at.index(index), errors);
        if actions[..index].contains(action) {
            errors.push(Error::duplicate(&at.index(index).path(), action.clone()));
        }
    }
    if ["Deny", "Warn"].iter().all(|action| actions.iter().any(|specified| specified == action)) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        invalid(errors, &at, &Value::from(actions.to_vec()), detail);
    }
}
