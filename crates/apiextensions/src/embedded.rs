//! Embedded resources in custom resources: they have apiVersion and kind, and valid metadata.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::{Map, Value};

/// The errors of an object that a schema marks with `x-kubernetes-embedded-resource`.
pub(crate) fn check(object: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        if !object.contains_key(name) {
            errors.push(Error::required(&path.child(name), ""));
        }
    }
    if let Some(version) = object.get("apiVersion") {
        api_version(version, &path.child("apiVersion"), errors);
    }
    if let Some(kind_value) = object.get("kind") {
        kind(kind_value, &path.child("kind"), errors);
    }
    let Some(metadata) = object.get("metadata").filter(|metadata| metadata.is_object()) else { return };
    let mut metadata = metadata.clone();
    let named = metadata["name"].as_str().is_some_and(|name| !name.is_empty());
    if !named {
        // A name is optional here, so one is set for the check.
        metadata["name"] = "fakename".into();
    }
    let namespaced = metadata["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty());
    let path = path.child("metadata");
    errors.extend(names::validate_object_meta(&metadata, namespaced, names::path_segment_rule, &path));
}

fn api_version(value: &Value, path: &Path, errors: &mut ErrorList) {
    let why = match value.as_str() {
        None => "must be a string".to_owned(),
        Some("") => "must not be empty".to_owned(),
        Some(text) if text.matches('/').count() > 1 => format!("unexpected GroupVersion string: {text}"),
        Some(_) => return,
    };
    errors.push(Error::invalid(path, value.clone(), why));
}

fn kind(value: &Value, path: &Path, errors: &mut ErrorList) {
    let why = match value.as_str() {
        None => "must be a string".to_owned(),
        Some("") => "must not be empty".to_owned(),
        Some(text) => match names::is_dns1035_label(&text.to_lowercase()).join(",") {
            why if why.is_empty() => return,
            why => format!("may have mixed case, but should otherwise match: {why}"),
        },
    };
    errors.push(Error::invalid(path, value.clone(), why));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn embedded_objects_are_validated() {
        for (object, expected) in [
            (json!({"apiVersion": "v1", "kind": "Pod"}), &[][..]),
            (json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}, "namespace": "n"}}), &[]),
            (json!({}), &["e.apiVersion: Required value", "e.kind: Required value"]),
            (
                json!({"apiVersion": "", "kind": 1}),
                &["e.apiVersion: Invalid value: \"\": must not be empty", "e.kind: Invalid value: 1: must be a string"],
            ),
            (
                json!({"apiVersion": "a/b/c", "kind": "Pod"}),
                &["e.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"],
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "finalizers": ["x y"]}}),
                &[
                    "e.metadata.name: Invalid value: \"a/b\": may not contain '/'",
                    "e.metadata.finalizers: Invalid value: \"x y\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ],
            ),
        ] {
            let mut errors = ErrorList::new();
            check(object.as_object().expect("an object"), &Path::new("e"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{object}");
        }
    }
}
