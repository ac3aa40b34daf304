//! Updates of an object in a member: whether they are permitted, the retained fields, and whether a write is needed.

use std::collections::BTreeSet;

use apimachinery::object::ObjectTree as _;
use interpreter::{Interpreter, Operation};
use karmada_api::constants::{annotations, labels};
use karmada_api::manifest::{metadata_map, prune};
use serde_json::Value;

use crate::template::Template;

/// The action for a manifest whose object exists in the member.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The object is as it should be.
    Unchanged,
    /// Replace the object by this one (it carries the observed resourceVersion).
    Put(Value),
}

/// Why the object is not updated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum Error {
    #[error(
        "resource(kind={kind}, {key}) already exists in the cluster {cluster} and the \
         work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource"
    )]
    UnmanagedObject { kind: String, key: String, cluster: String },
    #[error("{0}")]
    Retain(#[from] interpreter::Error),
}

/// The end of the message of [`Error::UnmanagedObject`], in upstream's words too.
const NOT_MANAGED: &str = "Karmada will not manage this resource";

/// Whether the message of a condition reports that a foreign object has the name in the member.
pub fn reports_conflict(message: &str) -> bool {
    message.contains(NOT_MANAGED)
}

/// Whether an object in a member is ours.
pub fn is_managed(object: Template<'_>) -> bool {
    marks_managed(object.label(labels::MANAGED))
}

/// Whether an object with this value of the label `karmada.io/managed` is ours.
pub fn marks_managed(value: Option<&str>) -> bool {
    value == Some("true")
}

/// Whether `manifest` may change the existing object: it is managed, or may be taken over.
///
/// # Errors
/// `UnmanagedObject` for an unmanaged object without the conflict resolution `Overwrite`.
pub fn may_write(manifest: &Value, observed: &Value, cluster: &str) -> Result<(), Error> {
    let source = Template(manifest);
    let may_overwrite = source.annotation(annotations::CONFLICT_RESOLUTION) == Some("overwrite");
    if is_managed(Template(observed)) || may_overwrite {
        return Ok(());
    }
    Err(Error::UnmanagedObject {
        kind: source.kind().to_owned(),
        key: format!("{}/{}", source.namespace(), source.name()),
        cluster: cluster.to_owned(),
    })
}

/// Plans the update of `observed` to `manifest` in a member.
///
/// # Errors
/// When the interpreter fails to retain fields of the object.
pub fn plan_update(
    manifest: &Value,
    observed: &Value,
    interpreter: &Interpreter,
    cluster: &str,
) -> Result<Update, Error> {
    may_write(manifest, observed, cluster)?;
    let mut desired = manifest.clone();
    retain_metadata(&mut desired, observed);
    if interpreter.enabled_for(&desired, Operation::Retain) {
        interpreter.retain(&mut desired, observed)?;
    }
    let mut current = observed.clone();
    prune(&mut current);
    retain_metadata(&mut current, observed);
    Ok(if is_same(&current, &desired) { Update::Unchanged } else { Update::Put(desired) })
}

/// Equal, where null and absent maps of metadata mean the same.
fn is_same(current: &Value, desired: &Value) -> bool {
    let tidy = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.metadata_mut() {
            metadata.retain(|_, value| {
                !value.is_null()
                    && value.as_object().is_none_or(|map| !map.is_empty())
                    && value.as_array().is_none_or(|list| !list.is_empty())
            });
        }
        object
    };
    current == desired || tidy(current) == tidy(desired)
}

/// Keeps the metadata that the member's API server and other clients in the member own.
fn retain_metadata(desired: &mut Value, observed: &Value) {
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        let value = observed["metadata"][field].clone();
        let Some(metadata) = desired.metadata_mut() else { continue };
        if value.is_null() {
            metadata.remove(field);
        } else {
            metadata.insert(field.to_owned(), value);
        }
    }
    for (field, record) in [("annotations", annotations::MANAGED_ANNOTATIONS), ("labels", annotations::MANAGED_LABELS)]
    {
        retain_map(desired, observed, field, record);
    }
}

/// Keeps every observed key, except earlier keys of ours that are no longer desired.
fn retain_map(desired: &mut Value, observed: &Value, field: &str, record: &str) {
    let Some(seen) = observed["metadata"][field].as_object() else { return };
    let recorded: BTreeSet<&str> = Template(observed).annotation(record).unwrap_or_default().split(',').collect();
    let map = metadata_map(desired, field);
    for (key, value) in seen {
        if !map.contains_key(key) && !recorded.contains(key.as_str()) {
            map.insert(key.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "labels": {"karmada.io/managed": "true", "mine": "1"}}, "data": {"k": "v"}})
    }

    fn plan(manifest: &Value, observed: &Value) -> Result<Update, Error> {
        plan_update(manifest, observed, &Interpreter::default(), "m1")
    }

    #[test]
    fn unmanaged_objects_are_conflicts() {
        let mut observed = manifest();
        observed["metadata"]["labels"] = json!({});
        let error = plan(&manifest(), &observed).unwrap_err();
        assert!(error.to_string().starts_with("resource(kind=ConfigMap, ns/a) already exists in the cluster m1"));
        assert!(reports_conflict(&format!("Failed to apply all manifests (0/1): {error}")));
        assert!(!reports_conflict("Failed to apply all manifests (0/1): connection refused"));
        let mut takes_over = manifest();
        takes_over["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": "overwrite"});
        assert!(matches!(plan(&takes_over, &observed), Ok(Update::Put(_))));
    }

    #[test]
    fn keys_of_others_are_kept_and_dropped_keys_removed() {
        let mut observed = manifest();
        observed["metadata"]["resourceVersion"] = json!("9");
        observed["metadata"]["uid"] = json!("u");
        observed["metadata"]["finalizers"] = json!(["f"]);
        observed["metadata"]["labels"]["foreign"] = json!("1");
        observed["status"] = json!({"x": 1});
        assert_eq!(plan(&manifest(), &observed), Ok(Update::Unchanged));

        observed["metadata"]["labels"]["dropped"] = json!("1");
        observed["metadata"]["annotations"] = json!({"resourcetemplate.karmada.io/managed-labels": "dropped,mine"});
        let Ok(Update::Put(put)) = plan(&manifest(), &observed) else { panic!("a label is to be removed") };
        assert_eq!(put["metadata"]["labels"], json!({"karmada.io/managed": "true", "mine": "1", "foreign": "1"}));
        assert_eq!(put["metadata"]["resourceVersion"], "9");
        assert_eq!(put["metadata"]["finalizers"], json!(["f"]));

        let mut changed = manifest();
        changed["data"]["k"] = json!("w");
        assert!(matches!(plan(&changed, &observed), Ok(Update::Put(_))));
    }

    #[test]
    fn managed_objects_get_the_desired_labels() {
        let mut observed = manifest();
        observed["metadata"]["labels"]["karmada.io/managed"] = json!("false");
        assert!(plan(&manifest(), &observed).is_err(), "the mark has a value");
        // A key that is wanted has the value that is wanted; owners are the member's.
        let mut observed = manifest();
        observed["metadata"]["labels"]["mine"] = json!("theirs");
        observed["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
        let Ok(Update::Put(put)) = plan(&manifest(), &observed) else { panic!("a label is to be changed") };
        assert_eq!(put["metadata"]["labels"]["mine"], "1");
        assert_eq!(put["metadata"]["ownerReferences"], json!([{"uid": "u"}]));
    }
}
