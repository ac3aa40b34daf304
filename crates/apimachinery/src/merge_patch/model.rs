//! Merge patches by the RFC's rules for single members: each path is decided on its own, from the two documents.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The merged value at a path; `None` where it has no value.
fn decided(target: Option<&Value>, patch: Option<&Value>) -> Option<Value> {
    let Some(patch) = patch else { return target.cloned() };
    if !patch.is_object() {
        let kept = if target.is_some_and(Value::is_object) { patch.clone() } else { bare(patch) };
        return Some(kept).filter(|value| !value.is_null());
    }
    let members = |value: Option<&Value>| -> BTreeSet<String> {
        value.and_then(Value::as_object).into_iter().flat_map(|map| map.keys().cloned()).collect()
    };
    let target = target.filter(|target| target.is_object());
    let names = members(target).union(&members(Some(patch))).cloned().collect::<Vec<_>>();
    let member = |name: &String| decided(target.and_then(|target| target.get(name)), patch.get(name));
    Some(names.iter().filter_map(|name| Some((name.clone(), member(name)?))).collect())
}

/// Without members that are null, however deep.
fn bare(value: &Value) -> Value {
    let member = |value: &Value| decided(None, Some(value));
    match value {
        Value::Array(items) => items.iter().map(|item| member(item).unwrap_or_default()).collect(),
        other => other.clone(),
    }
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            3 => prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn every_path_equals_the_model(target in document(), patch in document()) {
        let mut result = target.clone();
        apply(&mut result, &patch);
        // Only a member can be removed; a patch that is null as a whole is a null.
        prop_assert_eq!(&result, &decided(Some(&target), Some(&patch)).unwrap_or_default(), "{} + {}", target, patch);
    }
}
