//! Transfers the fields of client-side apply to server-side apply, as kubectl does: otherwise a field removed from the
//! manifest would stay in the object, because its old manager still owns it.

use apimachinery::managed_fields::FieldSet;
use serde_json::{Value, json};

use super::last_applied::ANNOTATION;

/// The manager of client-side apply.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";
/// kubectl's manager of server-side apply; for it, the server keeps the annotation of client-side apply up to date.
pub const SERVER_SIDE: &str = "kubectl";
/// The manager that owns the annotation during the transfer.
pub const KEEPER: &str = "kubectl-last-applied";

fn is_client_sides(entry: &Value) -> bool {
    entry["manager"] == CLIENT_SIDE && entry["operation"] == "Update" && subresource(entry).is_empty()
}

fn subresource(entry: &Value) -> &str {
    entry["subresource"].as_str().unwrap_or_default()
}

/// The configuration that owns the annotation, if client-side apply does.
pub fn kept_annotation(object: &Value) -> Option<Value> {
    let metadata = &object["metadata"];
    let owns = |entry: &&Value| {
        is_client_sides(entry) && !entry["fieldsV1"]["f:metadata"]["f:annotations"][format!("f:{ANNOTATION}")].is_null()
    };
    metadata["managedFields"].as_array()?.iter().find(owns)?;
    let text = metadata["annotations"][ANNOTATION].as_str()?;
    let mut kept = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": metadata["name"], "annotations": {ANNOTATION: text}}});
    if let Some(namespace) = metadata["namespace"].as_str() {
        kept["metadata"]["namespace"] = json!(namespace);
    }
    Some(kept)
}

/// The JSON patch that moves the fields of client-side apply to `manager`, if there are any. The version of the object
/// guards it.
pub fn patch(object: &Value, manager: &str) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let (moved, mut kept): (Vec<Value>, Vec<Value>) = entries.iter().cloned().partition(is_client_sides);
    let newest = moved.last()?;
    let is_target =
        |entry: &Value| entry["manager"] == manager && entry["operation"] == "Apply" && subresource(entry).is_empty();
    let target = match kept.iter().position(is_target) {
        Some(at) => &mut kept[at],
        None => {
            let mut entry = newest.clone();
            (entry["manager"], entry["operation"]) = (json!(manager), json!("Apply"));
            kept.insert(0, entry);
            &mut kept[0]
        }
    };
    let version = target["apiVersion"].clone();
    let fields = |entry: &Value| FieldSet::parse(&entry["fieldsV1"]).unwrap_or_default();
    // Paths of another version may not exist in this one; their ownership is released, and the manifest is applied
    // again.
    let all = moved.iter().filter(|entry| entry["apiVersion"] == version).map(fields);
    let all = all.fold(fields(target), FieldSet::union);
    target["fieldsV1"] = all.to_value();
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, version: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }

    fn object(entries: &[Value]) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "d",
            "resourceVersion": "7", "annotations": {ANNOTATION: "{}\n"}, "managedFields": entries}})
    }

    #[test]
    fn fields_move_to_the_manager_that_applies() {
        let (a, b) = (json!({"f:data": {"f:a": {}}}), json!({"f:data": {"f:b": {}}}));
        let both = json!({"f:data": {"f:a": {}, "f:b": {}}});
        let client = |version: &str, fields: &Value| entry(CLIENT_SIDE, "Update", version, fields.clone());
        let apply_entry = |fields: &Value| entry("kubectl", "Apply", "v1", fields.clone());
        let other = entry("m", "Update", "v1", a.clone());
        for (entries, expected) in [
            (vec![other.clone(), apply_entry(&a)], None),
            (vec![client("v1", &b), apply_entry(&a)], Some(vec![apply_entry(&both)])),
            (vec![apply_entry(&a), other.clone(), client("v1", &b)], Some(vec![apply_entry(&both), other.clone()])),
            (vec![client("v1", &b), other.clone()], Some(vec![apply_entry(&b), other.clone()])),
            (vec![client("v1beta1", &b), apply_entry(&a)], Some(vec![apply_entry(&a)])),
        ] {
            let found = patch(&object(&entries), "kubectl");
            let expected = expected.map(|entries| {
                json!([{"op": "replace", "path": "/metadata/managedFields", "value": entries},
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}])
            });
            assert_eq!(found, expected, "{entries:?}");
        }
        let mut of_status = client("v1", &a);
        of_status["subresource"] = json!("status");
        assert_eq!(patch(&object(&[of_status]), "kubectl"), None);
    }

    #[test]
    fn the_annotation_is_kept_where_client_side_apply_owns_it() {
        let annotation = json!({"f:metadata": {"f:annotations": {format!("f:{ANNOTATION}"): {}}}});
        let owned = object(&[entry(CLIENT_SIDE, "Update", "v1", annotation.clone())]);
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "d", "annotations": {ANNOTATION: "{}\n"}}});
        assert_eq!(kept_annotation(&owned), Some(expected));
        assert_eq!(kept_annotation(&object(&[entry(KEEPER, "Apply", "v1", annotation)])), None);
        assert_eq!(kept_annotation(&object(&[])), None);
    }
}
