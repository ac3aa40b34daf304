//! The strategy of the kind CustomResourceDefinition itself.

use apimachinery::extent::TooLarge;
use apimachinery::field::{Error, ErrorList, Path, go_quoted};
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::resource::{RequestContext, Strategy};
use serde_json::{Value, json};

use crate::definition::{
    CLEANUP_FINALIZER, Condition, CustomResourceDefinition, default_definition, storage_version_name,
};
use crate::definition_validation;
use crate::formats;
use crate::naming::set_condition;

/// Strategy of `customresourcedefinitions.apiextensions.k8s.io`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefinitionStrategy;

impl Strategy for DefinitionStrategy {
    fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        default_definition(object);
        Ok(())
    }

    fn prepare_create(&self, _context: &RequestContext, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            map.remove("status");
        }
        default_definition(object);
    }

    /// From now on objects may be stored in the new storage version, so the same write adds it to
    /// `status.storedVersions`.
    fn prepare_update(&self, context: &RequestContext, _old: &Value, object: &mut Value) {
        let storage = storage_version_name(object).map(Value::from).filter(|_| context.subresource.is_empty());
        if let Some(storage) = storage
            && let Some(stored) = object.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut)
            && !stored.contains(&storage)
        {
            stored.push(storage);
        }
    }

    /// Its instances go first.
    fn mark_deleted(&self, now: Time, object: &mut Value) -> bool {
        let Ok(mut crd) = CustomResourceDefinition::from_value(object) else { return false };
        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon".to_owned();
        let pending = Condition::from(("Terminating", "True", "InstanceDeletionPending", message));
        set_condition(&mut crd.status, Some(pending), now);
        object["status"]["conditions"] = json!(crd.status.conditions);
        let Some(meta) = object.metadata_mut() else { return false };
        meta.insert("deletionTimestamp".into(), json!(now));
        let finalizers = meta.entry("finalizers").or_insert_with(|| json!([]));
        if finalizers.is_null() {
            *finalizers = json!([]);
        }
        if let Some(list) = finalizers.as_array_mut()
            && !list.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER)
        {
            list.push(CLEANUP_FINALIZER.into());
        }
        true
    }

    fn validate_create(&self, object: &Value) -> ErrorList {
        match CustomResourceDefinition::from_value(object) {
            Ok(crd) => definition_validation::validate(&crd),
            Err(error) => vec![malformed(&error)],
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn validate_update(&self, _context: &RequestContext, old: &Value, object: &Value) -> ErrorList {
        let old = CustomResourceDefinition::from_value(old);
        match (old, CustomResourceDefinition::from_value(object)) {
            // A definition that is being deleted stays editable, even if it violates newer rules.
            (_, Ok(crd)) if crd.metadata.deletion_timestamp.is_some() => ErrorList::new(),
            (Ok(old), Ok(crd)) => definition_validation::validate_update(&old, &crd),
            (Err(_), Ok(crd)) => definition_validation::validate(&crd),
            (_, Err(error)) => vec![malformed(&error)],
        }
    }

    fn warnings(&self, context: &RequestContext, old: Option<&Value>, object: &Value) -> Vec<String> {
        if !context.subresource.is_empty() {
            return Vec::new();
        }
        let known = old.map(unknown_formats).unwrap_or_default();
        let unknown = unknown_formats(object).into_iter().filter(|format| !known.contains(format));
        unknown.map(|format| format!("unrecognized format {}", go_quoted(format))).collect()
    }
}

/// The formats in the schemas of all versions.
fn unknown_formats(crd: &Value) -> Vec<&str> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions.flat_map(|version| formats::unknown_in(&version["schema"]["openAPIV3Schema"])).collect()
}

fn malformed(error: &serde_json::Error) -> Error {
    Error::invalid(&Path::new("spec"), Value::Null, error.to_string())
}
