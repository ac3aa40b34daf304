//! Type checking of ValidatingAdmissionPolicies: expressions are compiled against the schemas of the kinds that the
//! rules name. Errors become warnings in `status.typeChecking`; the policy stays in effect.

mod openapi;

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{GroupVersionKind, GroupVersionResource};
use cel::Shape;
use serde_json::{Value, json};

use crate::expressions::{RequiredType, Scope};
pub use openapi::Document;

/// The maximum number of checked kinds of a rule, as in kube-apiserver.
const MAX_KINDS: usize = 10;

/// The resources that each rule of a policy names. Rules with wildcards in groups or versions are skipped, as are
/// wildcards and subresources among resources.
pub fn resources(policy: &Value) -> Vec<Vec<GroupVersionResource>> {
    let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().into_iter().flatten();
    rules.map(named).filter(|named| !named.is_empty()).collect()
}

fn named(rule: &Value) -> Vec<GroupVersionResource> {
    let list = |field: &str| -> BTreeSet<&str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (groups, versions) = (list("apiGroups"), list("apiVersions"));
    if groups.iter().chain(&versions).any(|name| name.contains('*')) {
        return Vec::new();
    }
    let mut resources = list("resources");
    resources.retain(|name| !name.contains(['*', '/']));
    let of_group = |group: &&str| {
        let of_version = |version: &&str| {
            let named = |resource: &&str| GroupVersionResource {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                resource: (*resource).to_owned(),
            };
            resources.iter().map(named).collect::<Vec<_>>()
        };
        versions.iter().flat_map(of_version).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

/// The kinds of the resources of [`resources`], sorted. Rules after the first one that reaches the limit are skipped.
pub fn kinds(
    rules: &[Vec<GroupVersionResource>],
    kind: impl Fn(&GroupVersionResource) -> Option<GroupVersionKind>,
) -> Vec<GroupVersionKind> {
    let mut found = BTreeSet::new();
    for rule in rules {
        let kinds: Vec<GroupVersionKind> = rule.iter().filter_map(&kind).take(MAX_KINDS).collect();
        let is_full = kinds.len() == MAX_KINDS;
        found.extend(kinds);
        if is_full {
            break;
        }
    }
    found.into_iter().collect()
}

/// `paramKind` of a policy.
pub fn param_kind(policy: &Value) -> Option<GroupVersionKind> {
    let reference = &policy["spec"]["paramKind"];
    GroupVersionKind::from_api_version(reference["apiVersion"].as_str()?, reference["kind"].as_str()?).ok()
}

/// The kinds to check a policy against.
#[derive(Debug, Default)]
pub struct Types {
    /// Kinds without a schema are skipped.
    pub objects: Vec<(GroupVersionKind, Arc<Shape>)>,
    /// The schema of the parameters.
    pub params: Option<Arc<Shape>>,
}

/// `status.typeChecking` of a policy: empty without warnings.
pub fn check(policy: &Value, types: &Types) -> Value {
    let scopes: Vec<(String, Scope)> =
        types.objects.iter().map(|(kind, shape)| (go_text(kind), scope(policy, shape, types))).collect();
    let warnings = |source: &Value| -> Option<String> {
        let source = source.as_str().filter(|source| !source.is_empty())?;
        let failed = scopes.iter().filter_map(|(kind, scope)| {
            let why = scope.compile(source, RequiredType::Any).err()?;
            Some(format!("{kind}: {why}\n"))
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("\n"))
    };
    let validations = policy["spec"]["validations"].as_array().into_iter().flatten();
    let found = validations.enumerate().flat_map(|(number, validation)| {
        ["expression", "messageExpression"].map(|field| {
            let warning = warnings(&validation[field])?;
            Some(json!({"fieldRef": format!("spec.validations[{number}].{field}"), "warning": warning}))
        })
    });
    let found: Vec<Value> = found.flatten().collect();
    if found.is_empty() { json!({}) } else { json!({ "expressionWarnings": found }) }
}

/// The scope of a policy; its variables have the types derived from the schemas. One that does not compile has any
/// type.
fn scope(policy: &Value, object: &Arc<Shape>, types: &Types) -> Scope {
    let mut scope = Scope::typed(Arc::clone(object), types.params.clone());
    for variable in policy["spec"]["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        let program = scope.compile(text("expression"), RequiredType::Any);
        scope.declare(text("name"), program.as_ref().ok());
    }
    scope
}

/// The kind as Go prints it.
fn go_text(kind: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

#[cfg(test)]
mod tests;
