//! Validation of the defaults in a structural schema.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value, json};

use crate::structural_rules::is_set;
use crate::validation::Validator;
use crate::{pruning, structural};

/// Validates all defaults of a schema except those in the values of maps, as upstream. Recursion is bounded by the
/// depth that the JSON parser permits (128).
pub fn validate(schema: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(map) = schema.as_object() {
        node(map, path, true, false, &mut errors);
    }
    errors
}

/// `whole`: whether the schema is of an object with metadata. `in_meta`: whether it is of such metadata.
fn node(map: &Map<String, Value>, path: &Path, whole: bool, in_meta: bool, errors: &mut ErrorList) {
    let whole = whole || is_set(map, "x-kubernetes-embedded-resource");
    let in_meta = in_meta && !whole;
    check(map, &path.child("default"), whole, in_meta, errors);
    if let Some(items) = map.get("items").and_then(Value::as_object) {
        node(items, &path.child("items"), false, in_meta, errors);
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        let is_meta = whole && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
        node(property, &path.child("properties").key(name), false, in_meta || is_meta, errors);
    }
}

fn check(map: &Map<String, Value>, path: &Path, whole: bool, in_meta: bool, errors: &mut ErrorList) {
    // A null default counts as absent.
    let Some(default) = map.get("default").filter(|default| !default.is_null()) else { return };
    // Validated inside a wrapper: at the root of a schema, metadata would be implied.
    let mut wrapper = json!({"type": "object", "properties": {"default": map}});
    if whole {
        wrapper["properties"]["default"]["x-kubernetes-embedded-resource"] = true.into();
    }
    let type_ = structural::compile(Some(&wrapper), None);
    let mut instance = json!({"default": default});
    // Metadata is validated against ObjectMeta, not against the given schema.
    if !pruning::prune(&mut instance, &type_).is_empty() && !in_meta {
        errors.push(Error::invalid(path, default.clone(), "must not have unknown fields"));
    }
    // Rules that do not compile are reported here: upstream compiles the rules of a schema after its defaults.
    for error in Validator::new(type_).validate_default(&instance) {
        let inner = error.path.as_str().strip_prefix("default").unwrap_or_default().to_owned();
        let full = Path::new(&format!("{path}{inner}"));
        errors.push(Error { path: full, ..error });
    }
}
