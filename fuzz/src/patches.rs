//! The four kinds of patch. The input is two or more JSON documents: the object and its patches.

use apimachinery::managed_fields::{self, FieldSet, ManagerContext, ONE_VERSION};
use apimachinery::meta::Time;
use apimachinery::{json_patch, merge_patch, strategic};
use serde_json::Value;

use crate::{json_documents, type_of};

/// Results stay decodable: none exceeds the decoder's depth limit.
fn readable(value: &Value) {
    serde_json::from_str::<Value>(&value.to_string()).unwrap_or_else(|e| panic!("{e}: {value}"));
}

pub(crate) fn json_patch(input: &[u8]) {
    let documents = json_documents(input);
    let [live, patch, ..] = documents.as_slice() else { return };
    let Ok(patch) = json_patch::from_value(patch) else { return };
    let mut target = live.clone();
    match patch.apply(&mut target) {
        Ok(()) => readable(&target),
        Err(error) => assert!((400..500).contains(&error.to_status().code)),
    }
}

/// Merging the difference of two documents into the first gives the second; merging twice equals merging once.
pub(crate) fn merge_patch(input: &[u8]) {
    let documents = json_documents(input);
    let [live, patch, ..] = documents.as_slice() else { return };
    let mut once = live.clone();
    merge_patch::apply(&mut once, patch);
    readable(&once);
    let mut twice = once.clone();
    merge_patch::apply(&mut twice, patch);
    assert_eq!(once, twice);
    match merge_patch::diff(live, &once) {
        None => assert_eq!(*live, once),
        Some(patch) => {
            let mut target = live.clone();
            merge_patch::apply(&mut target, &patch);
            assert_eq!(target, once, "the difference is {patch}");
        }
    }
}

pub(crate) fn strategic(input: &[u8]) {
    let documents = json_documents(input);
    let [live, patch, ..] = documents.as_slice() else { return };
    let type_ = type_of(live);
    let mut target = live.clone();
    match strategic::apply(&mut target, patch, &type_) {
        Ok(()) => readable(&target),
        // kube-apiserver returns 500 for an unknown directive.
        Err(error) => assert!((400..=500).contains(&error.to_status().code), "{error}"),
    }
}

/// The first document is created, the others are applied in turn; every other one with force, the last one twice.
pub(crate) fn apply(input: &[u8]) {
    let documents = json_documents(input);
    let [first, rest @ ..] = documents.as_slice() else { return };
    let type_ = type_of(first);
    let none = FieldSet::default();
    let context = |manager| ManagerContext {
        manager,
        api_version: "apps/v1",
        subresource: "",
        now: Time::new(jiff::Timestamp::UNIX_EPOCH),
        reset_fields: &none,
        versions: ONE_VERSION,
    };
    let mut live = first.clone();
    if !live.is_object() {
        return;
    }
    managed_fields::update(None, &mut live, &context("creator"), &type_);
    for (index, patch) in rest.iter().enumerate().filter(|(_, patch)| patch.is_object()) {
        let manager = context(["one", "kubectl", "two"][index % 3]);
        let force = index % 2 == 1;
        let Ok(merged) = managed_fields::apply(Some(&live), patch, &manager, force, &type_) else { continue };
        readable(&merged);
        let again = managed_fields::apply(Some(&merged), patch, &manager, false, &type_)
            .unwrap_or_else(|e| panic!("what was applied cannot be applied again: {e}"));
        let mut again = again;
        managed_fields::keep_old_times(&merged, &mut again);
        assert_eq!(merged, again, "applying again changes something");
        live = merged;
    }
    let mut changed = live.clone();
    if let Some(patch) = rest.last().filter(|patch| patch.is_object()) {
        merge_patch::apply(&mut changed, patch);
        managed_fields::update(Some(&live), &mut changed, &context("editor"), &type_);
        readable(&changed);
    }
}
