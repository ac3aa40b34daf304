//! CustomResourceDefinitions: a schema, and objects of it.

use apiextensions::validation::Validator;
use apiextensions::{CustomResourceDefinition, DefinitionStrategy, defaulting, definition, pruning, structural};
use apimachinery::field::ErrorKind;
use apimachinery::meta::Time;
use apimachinery::resource::{RequestContext, Strategy};
use serde_json::{Value, json};

use crate::json_documents;

/// The first document is a definition, or a schema of one version; the others are objects of it.
pub(crate) fn crd(input: &[u8]) {
    let documents = json_documents(input);
    let [first, objects @ ..] = documents.as_slice() else { return };
    let mut crd = if first.get("spec").is_some() { first.clone() } else { around(first) };
    definition::default_definition(&mut crd);
    let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
    let (user, groups, subresource) = (String::new(), Vec::new(), String::new());
    let context = RequestContext { now, user, groups, subresource, dry_run: false };
    DefinitionStrategy.warnings(&context, None, &crd);
    let sound = DefinitionStrategy.validate_create(&crd).is_empty();
    let Ok(crd) = CustomResourceDefinition::from_value(&crd) else { return };
    let Some(version) = crd.storage_version().or(crd.spec.versions.first()) else { return };
    let type_ = structural::compile(version.json_schema(), None);
    let validator = Validator::new(type_.clone());
    for object in objects {
        let mut object = object.clone();
        pruning::prune(&mut object, &type_);
        if defaulting::default(&mut object, &type_).is_err() {
            continue;
        }
        let mut once = object.clone();
        assert!(
            pruning::prune(&mut once, &type_).is_empty() || !sound,
            "defaults of a sound schema are pruned: {object}"
        );
        let outcome = defaulting::default(&mut once, &type_);
        if sound && outcome.is_ok() {
            assert_eq!(once, object, "pruning and defaulting a second time changes something");
        }
        let errors = validator.validate(&object);
        // Existing errors are tolerated on updates, except in embedded objects without a kind.
        let (kept, _) = validator.validate_update(&object, &object, Vec::new());
        let unnamed = kept.iter().any(|error| {
            let path = error.path.as_str();
            let is_absent = matches!(error.kind, ErrorKind::Required) && error.detail.is_empty();
            error.detail == "must not be empty"
                || is_absent && (path.ends_with(".apiVersion") || path.ends_with(".kind"))
        });
        assert!(kept.is_empty() || errors.is_empty() || unnamed, "{kept:?}");
    }
}

fn around(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// An object, and the response of a conversion webhook to it.
pub(crate) fn conversion(input: &[u8]) {
    let documents = json_documents(input);
    let [original, response, ..] = documents.as_slice() else { return };
    let response = response.to_string();
    for version in ["v1", "v1beta1"] {
        let definition = json!({"spec": {"names": {"kind": "X", "listKind": "XList"}, "conversion": {
            "strategy": "Webhook", "webhook": {"conversionReviewVersions": [version]}}}});
        let definition = CustomResourceDefinition::from_value(&definition).expect("a definition");
        let hook = apiextensions::conversion::Hook::of(&definition).expect("a webhook");
        for is_list in [false, true] {
            let review = hook.review("1", "g/v2", is_list).expect("a known version");
            let Ok(converted) = review.accept(std::slice::from_ref(original), response.as_bytes()) else { continue };
            let [converted] = converted.as_slice() else { panic!("one object, not {}", converted.len()) };
            assert_eq!(converted["apiVersion"], "g/v2");
            let kept = |object: &Value| {
                let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
                metadata.remove("labels");
                metadata.remove("annotations");
                metadata
            };
            assert_eq!(kept(original), kept(converted), "metadata is the server's");
        }
    }
}
