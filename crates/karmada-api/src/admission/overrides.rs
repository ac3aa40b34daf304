//! Validates OverridePolicies and ClusterOverridePolicies.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::{validate_annotations, validate_labels};
use serde_json::{Value, json};

use super::policies::{fields, selector_namespace};
use super::{Denied, Request, decode};
use crate::policy::v1alpha1::{FieldOverrider, FieldPatchOperation, OverridePolicy, OverriderOperator, Overriders};
use crate::shown;

pub(super) fn validate(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let policy: OverridePolicy = decode(object)?;
    let spec = &policy.spec;
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    // An empty list counts as set.
    let has_rules = object["spec"]["overrideRules"].is_array();
    if let Some(affinity) = &spec.target_cluster {
        errors.extend(fields(affinity.field_selector.as_ref(), &path.child("targetCluster")));
        if has_rules {
            let detail = "overrideRules and targetCluster can't co-exist";
            errors.push(shown::invalid(&path.child("targetCluster"), affinity, detail));
        }
    }
    let counted = Overriders { field_overrider: Vec::new(), ..spec.overriders.clone() };
    if has_rules && counted != Overriders::default() {
        let mut value = serde_json::to_value(&spec.overriders).unwrap_or_default();
        show_values(&mut value);
        let detail = "overrideRules and overriders can't co-exist";
        errors.push(shown::invalid(&path.child("overriders"), &value, detail));
    }
    for (index, rule) in spec.override_rules.iter().enumerate() {
        let path = path.child("overrideRules").index(index);
        errors.extend(overriders(&rule.overriders, &path.child("overriders")));
        if let Some(affinity) = &rule.target_cluster {
            errors.extend(fields(affinity.field_selector.as_ref(), &path.child("targetCluster")));
        }
    }
    if request.kind == "OverridePolicy" {
        for (index, selector) in spec.resource_selectors.iter().enumerate() {
            if selector.namespace != request.namespace {
                errors.push(selector_namespace(&path.child("resourceSelectors").index(index), &selector.namespace));
            }
        }
    }
    Denied::unless_empty(errors)
}

/// Adds a value where upstream's typed overriders have one even if it is absent.
pub(super) fn show_values(overriders: &mut Value) {
    for list in ["plaintext", "fieldOverrider"] {
        let items = overriders.get_mut(list).and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(name_values);
    }
}

fn name_values(overrider: &mut Value) {
    for list in ["json", "yaml"] {
        let operations = overrider.get_mut(list).and_then(Value::as_array_mut);
        operations.into_iter().flatten().for_each(name_values);
    }
    if let Some(map) = overrider.as_object_mut().filter(|map| map.contains_key("operator")) {
        map.entry("value").or_insert(Value::Null);
    }
}

fn overriders(overriders: &Overriders, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, overrider) in overriders.annotations_overrider.iter().enumerate() {
        let path = path.child("annotationsOverrider").index(index).child("value");
        errors.extend(validate_annotations(&overrider.value, &path));
    }
    for (index, overrider) in overriders.labels_overrider.iter().enumerate() {
        let path = path.child("labelsOverrider").index(index).child("value");
        errors.extend(validate_labels(&overrider.value, &path));
    }
    for (index, overrider) in overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = &overrider.predicate {
            let path = path.child("imageOverrider").index(index).child("predicate").child("path");
            errors.extend(pointer(&predicate.path, &path));
        }
    }
    for (index, overrider) in overriders.field_overrider.iter().enumerate() {
        errors.extend(field(overrider, &path.child("fieldOverrider").index(index)));
    }
    errors
}

fn pointer(text: &str, path: &Path) -> Option<Error> {
    let fine = text.is_empty() || text.starts_with('/');
    let detail = "JSON pointer must be empty or start with a \"/\"\nJSON pointer error";
    (!fine).then(|| Error::invalid(path, text, detail))
}

fn field(overrider: &FieldOverrider, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    match (overrider.yaml.is_empty(), overrider.json.is_empty()) {
        (false, false) => {
            let detail = "FieldOverrider has both YAML and JSON set. Only one is allowed";
            let mut value = serde_json::to_value(overrider).unwrap_or_default();
            name_values(&mut value);
            errors.push(shown::invalid(path, &value, detail));
        }
        (true, true) => errors.push(Error::required(path, "FieldOverrider must have either JSON or YAML set")),
        _ => {}
    }
    errors.extend(pointer(&overrider.field_path, &path.child("fieldPath")));
    for (name, operations) in [("json", &overrider.json), ("yaml", &overrider.yaml)] {
        for (index, operation) in operations.iter().enumerate() {
            errors.extend(patch(operation, &path.child(name).index(index)));
        }
    }
    errors
}

fn patch(operation: &FieldPatchOperation, path: &Path) -> ErrorList {
    let mut errors: ErrorList = pointer(&operation.sub_path, &path.child("subPath")).into_iter().collect();
    let present = operation.value.as_ref().is_some_and(|value| !value.is_null());
    let path = path.child("value");
    match operation.operator {
        OverriderOperator::Remove if present => {
            // A string is printed as JSON: upstream stores the value as encoded bytes.
            errors.push(shown::invalid(&path, &operation.value, "value is not allowed for remove operation"));
        }
        OverriderOperator::Add | OverriderOperator::Replace if !present => {
            errors.push(Error::invalid(&path, json!(null), "value is required for add or replace operation"));
        }
        _ => {}
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::super::{Operation, Options};
    use super::*;

    #[test]
    fn rules() {
        let rule = |overriders: Value| json!({"overrideRules": [{"overriders": overriders}]});
        for (spec, expected) in [
            (json!({}), "ok"),
            (json!({"targetCluster": {}, "overrideRules": []}), "overrideRules and targetCluster can't co-exist"),
            (
                json!({"overriders": {"plaintext": [{"path": "/a", "operator": "remove"}]}, "overrideRules": []}),
                "overrideRules and overriders can't co-exist",
            ),
            (
                rule(json!({"labelsOverrider": [{"operator": "add", "value": {"a b": "c"}}]})),
                "labelsOverrider[0].value",
            ),
            (
                rule(
                    json!({"imageOverrider": [{"component": "Tag", "operator": "remove", "predicate": {"path": "spec"}}]}),
                ),
                "JSON pointer must be empty",
            ),
            (
                rule(json!({"fieldOverrider": [{"fieldPath": "/a"}]})),
                "FieldOverrider must have either JSON or YAML set",
            ),
            (
                rule(json!({"fieldOverrider": [{"fieldPath": "/a", "json": [{"subPath": "/b", "operator": "add"}]}]})),
                "value is required for add or replace operation",
            ),
            (
                rule(
                    json!({"fieldOverrider": [{"fieldPath": "/a", "json": [{"subPath": "/b", "operator": "remove", "value": 1}]}]}),
                ),
                "value is not allowed for remove operation",
            ),
            (json!({"resourceSelectors": [{"namespace": "other"}]}), "spec.resourceSelectors[0].namespace"),
        ] {
            let request = Request {
                operation: Operation::Create,
                group: "policy.karmada.io",
                kind: "OverridePolicy",
                namespace: "ns",
                old: None,
                uuid: "",
                customizations: &[],
                options: Options::default(),
            };
            let object = json!({ "spec": spec });
            let refusal = validate(&request, &object).map_or_else(|denied| denied.to_string(), |()| "ok".to_owned());
            assert!(refusal.contains(expected), "{object}\n{refusal}");
        }
    }
}
