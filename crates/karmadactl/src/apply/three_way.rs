//! The patch of a client-side apply, computed from the last applied manifest, the new one and the live object.
//!
//! Fields of the last manifest that the new one lacks are removed; fields that neither has are not changed. Lists of
//! built-in kinds are merged by the keys of their schema (strategic merge patch); everything else follows RFC 7386.

use apimachinery::object::ObjectTree as _;
use apimachinery::schema::{PatchStrategy, Schema, SchemaId, Schemas, TypeOf};
use serde_json::{Map, Value, json};

/// The limit of the YAML decoder.
const MAX_DEPTH: usize = 128;

/// The patch; an empty object without changes. `type_` is the type of a built-in kind.
pub fn patch(original: Option<&Value>, modified: &Value, live: &Value, type_: Option<&TypeOf>) -> Value {
    let at = type_.map(|type_| At { schemas: &type_.schemas, node: type_.schemas.get(type_.root) });
    let empty = Map::new();
    let original = original.and_then(Value::as_object).unwrap_or(&empty);
    let (modified, live) = (modified.as_object().unwrap_or(&empty), live.as_object().unwrap_or(&empty));
    let mut patch = maps(original, modified, live, at, false, 0);
    // Identity is in the path; a patch that repeats it would never be empty.
    for field in ["apiVersion", "kind"] {
        patch.remove(field);
    }
    if let Some(metadata) = patch.metadata_mut() {
        metadata.remove("name");
        metadata.remove("namespace");
        if metadata.is_empty() {
            patch.remove("metadata");
        }
    }
    Value::Object(patch)
}

/// A place in the schema of a built-in kind.
#[derive(Clone, Copy)]
struct At<'s> {
    schemas: &'s Schemas,
    node: &'s Schema,
}

impl<'s> At<'s> {
    fn below(self, id: Option<SchemaId>) -> Option<Self> {
        id.map(|id| Self { schemas: self.schemas, node: self.schemas.get(id) })
    }

    fn child(self, key: &str) -> (Option<Self>, Option<&'s PatchStrategy>) {
        match self.node.properties.get(key) {
            Some(property) => (self.below(Some(property.schema)), Some(&property.patch)),
            None => (self.below(self.node.additional_properties), None),
        }
    }
}

/// `keeps` adds `$retainKeys`: of a union, the members that are not named go.
fn maps(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    live: &Map<String, Value>,
    at: Option<At<'_>>,
    keeps: bool,
    depth: usize,
) -> Map<String, Value> {
    let mut patch = Map::new();
    if depth > MAX_DEPTH {
        return modified.clone();
    }
    for (key, value) in modified {
        let (below, strategy) = at.map_or((None, None), |at| at.child(key));
        let place = Place { at: below, strategy, depth: depth + 1 };
        member(&mut patch, key, original.get(key), value, live.get(key), place);
    }
    for key in original.keys() {
        if !modified.contains_key(key) && live.get(key).is_some_and(|value| !value.is_null()) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    if keeps && !patch.is_empty() {
        let kept: Vec<&String> = modified.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
        patch.insert("$retainKeys".into(), json!(kept));
    }
    patch
}

#[derive(Clone, Copy)]
struct Place<'s> {
    at: Option<At<'s>>,
    strategy: Option<&'s PatchStrategy>,
    depth: usize,
}

fn member(
    patch: &mut Map<String, Value>,
    key: &str,
    original: Option<&Value>,
    modified: &Value,
    live: Option<&Value>,
    place: Place<'_>,
) {
    let live = live.filter(|value| !value.is_null());
    match (modified, live) {
        (Value::Null, None) => {}
        (modified, None) => {
            patch.insert(key.to_owned(), modified.clone());
        }
        (Value::Object(modified), Some(Value::Object(live))) => {
            let empty = Map::new();
            let original = original.and_then(Value::as_object).unwrap_or(&empty);
            let keeps = place.strategy.is_some_and(|strategy| strategy.retain_keys);
            let change = maps(original, modified, live, place.at, keeps, place.depth);
            if !change.is_empty() {
                patch.insert(key.to_owned(), Value::Object(change));
            }
        }
        (Value::Array(modified), Some(Value::Array(live))) if place.strategy.is_some_and(|it| it.merge) => {
            let original = original.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            match place.strategy.and_then(|strategy| strategy.merge_key.as_deref()) {
                Some(merge_key) => keyed(patch, key, merge_key, [original, modified, live], place),
                None => primitives(patch, key, [original, modified, live]),
            }
        }
        (modified, Some(live)) if same(modified, live) => {}
        (modified, Some(_)) => {
            patch.insert(key.to_owned(), modified.clone());
        }
    }
}

/// Numbers are equal by value, as Go reads both into one type.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A list of objects that a field names.
fn keyed(
    patch: &mut Map<String, Value>,
    field: &str,
    merge_key: &str,
    [original, modified, live]: [&[Value]; 3],
    place: Place<'_>,
) {
    let find = |list: &[Value], name: &Value| list.iter().find(|item| same(&item[merge_key], name)).cloned();
    let items = place.at.and_then(|at| at.below(at.node.items));
    let keeps = place.strategy.is_some_and(|strategy| strategy.retain_keys);
    let empty = Map::new();
    let mut changes = Vec::new();
    for item in modified {
        let name = &item[merge_key];
        let Some(current) = find(live, name) else {
            changes.push(item.clone());
            continue;
        };
        let before = find(original, name);
        let before = before.as_ref().and_then(Value::as_object).unwrap_or(&empty);
        let (desired, current) = (item.as_object().unwrap_or(&empty), current.as_object().cloned().unwrap_or_default());
        let mut change = maps(before, desired, &current, items, keeps, place.depth + 1);
        if !change.is_empty() {
            change.insert(merge_key.to_owned(), name.clone());
            changes.push(Value::Object(change));
        }
    }
    for item in original {
        let name = &item[merge_key];
        if find(modified, name).is_none() && find(live, name).is_some() {
            changes.push(json!({"$patch": "delete", merge_key: name}));
        }
    }
    let order = |list: &[Value]| -> Vec<Value> {
        let names = list.iter().map(|item| item[merge_key].clone());
        names.filter(|name| find(modified, name).is_some() && find(live, name).is_some()).collect()
    };
    let reordered = order(modified) != order(live);
    if changes.is_empty() && !reordered {
        return;
    }
    let names: Vec<Value> = modified.iter().map(|item| json!({merge_key: item[merge_key]})).collect();
    patch.insert(format!("$setElementOrder/{field}"), Value::Array(names));
    if !changes.is_empty() {
        patch.insert(field.to_owned(), Value::Array(changes));
    }
}

/// A list of texts or numbers that is merged as a set, such as finalizers.
fn primitives(patch: &mut Map<String, Value>, field: &str, [original, modified, live]: [&[Value]; 3]) {
    let added: Vec<Value> = modified.iter().filter(|item| !live.contains(item)).cloned().collect();
    let removed: Vec<Value> =
        original.iter().filter(|item| !modified.contains(item) && live.contains(item)).cloned().collect();
    let kept = modified.iter().filter(|item| live.contains(item));
    let is_reordered = kept.ne(live.iter().filter(|item| modified.contains(item)));
    if added.is_empty() && removed.is_empty() && !is_reordered {
        return;
    }
    patch.insert(format!("$setElementOrder/{field}"), Value::Array(modified.to_vec()));
    if !added.is_empty() {
        patch.insert(field.to_owned(), Value::Array(added));
    }
    if !removed.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{field}"), Value::Array(removed));
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::GroupVersionKind;

    use super::*;

    fn deployment() -> TypeOf {
        kubernetes_api::schema_for(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("built in")
    }

    /// Checks the patch, and the live object after the server has applied it.
    fn check(original: Value, modified: Value, live: Value, expected_patch: Value, expected: Value) {
        let type_ = deployment();
        let found = patch(Some(&original), &modified, &live, Some(&type_));
        assert_eq!(found, expected_patch);
        let mut after = live;
        apimachinery::strategic::apply(&mut after, &found, &type_).expect("the patch is applied");
        assert_eq!(after, expected);
        let again = patch(Some(&modified), &modified, &after, Some(&type_));
        assert_eq!(again, json!({}), "a second apply changes nothing");
    }

    fn containers(containers: Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    }

    #[test]
    fn only_previously_applied_fields_are_removed() {
        check(
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"paused": true}}),
            json!({"metadata": {"labels": {"a": "3"}}, "spec": {"replicas": 2}}),
            json!({"metadata": {"labels": {"a": "1", "b": "2", "other": "x"}}, "spec": {"paused": true, "replicas": 1}}),
            json!({"metadata": {"labels": {"a": "3", "b": null}}, "spec": {"paused": null, "replicas": 2}}),
            json!({"metadata": {"labels": {"a": "3", "other": "x"}}, "spec": {"replicas": 2}}),
        );
    }

    #[test]
    fn lists_are_merged_by_their_keys() {
        check(
            containers(json!([{"name": "a", "image": "1"}, {"name": "b"}])),
            containers(json!([{"name": "a", "image": "2"}, {"name": "c"}])),
            containers(
                json!([{"name": "a", "image": "1", "imagePullPolicy": "Always"}, {"name": "b"}, {"name": "side"}]),
            ),
            json!({"spec": {"template": {"spec": {
                "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
                "containers": [{"name": "a", "image": "2"}, {"name": "c"}, {"$patch": "delete", "name": "b"}]}}}}),
            containers(
                json!([{"name": "a", "image": "2", "imagePullPolicy": "Always"}, {"name": "c"}, {"name": "side"}]),
            ),
        );
    }

    #[test]
    fn the_order_of_a_list_is_a_change() {
        check(
            containers(json!([{"name": "a"}, {"name": "b"}])),
            containers(json!([{"name": "b"}, {"name": "a"}])),
            containers(json!([{"name": "a", "image": "1"}, {"name": "b"}])),
            json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}}}),
            containers(json!([{"name": "b"}, {"name": "a", "image": "1"}])),
        );
    }

    #[test]
    fn the_order_of_finalizers_is_a_change() {
        let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
        check(
            finalizers(&["a/a", "b/b"]),
            finalizers(&["b/b", "a/a"]),
            finalizers(&["a/a", "b/b", "other/c"]),
            json!({"metadata": {"$setElementOrder/finalizers": ["b/b", "a/a"]}}),
            finalizers(&["b/b", "a/a", "other/c"]),
        );
    }

    #[test]
    fn unions_and_sets_are_patched_as_kubectl_does() {
        check(
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
                "metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}, "metadata": {"finalizers": ["b/b", "c/c"]}}),
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
                "metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}},
                "metadata": {"$setElementOrder/finalizers": ["b/b", "c/c"], "finalizers": ["c/c"],
                    "$deleteFromPrimitiveList/finalizers": ["a/a"]}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}, "metadata": {"finalizers": ["b/b", "c/c"]}}),
        );
    }

    #[test]
    fn other_kinds_are_merged_as_documents() {
        let found = patch(
            Some(&json!({"kind": "A", "spec": {"list": [1, 2], "gone": 1, "n": 1}})),
            &json!({"kind": "A", "metadata": {"name": "x"}, "spec": {"list": [2], "n": 1}}),
            &json!({"kind": "A", "metadata": {"name": "x"}, "spec": {"list": [1, 2], "gone": 1, "n": 1.0, "theirs": 1}}),
            None,
        );
        assert_eq!(found, json!({"spec": {"list": [2], "gone": null}}));
        assert_eq!(patch(None, &json!({"a": null}), &json!({"b": 1}), None), json!({}));
    }
}
