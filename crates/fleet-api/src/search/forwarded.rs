//! The body of a write as its member receives it: with the member's own resource version, and without the mark of the
//! cluster.
//!
//! Objects and lists that this server returns carry versions of several members. Such a version is a precondition of
//! updates, patches and deletions, and a member cannot parse it.

use apimachinery::object::ObjectTree as _;
use karmada_api::constants::annotations::CACHED_FROM_CLUSTER;
use serde_json::{Value, json};

use super::versions::Since;

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A body to send instead of the client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    pub body: String,
    pub media_type: String,
}

/// The version does not include the cluster: the object was in another one when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterNotInVersion;

/// Whether a request may carry a version or a mark in its body.
pub fn concerns(verb: &str, subresource: &str) -> bool {
    matches!(verb, "update" | "patch" | "delete") || (verb == "create" && subresource == "eviction")
}

/// The body for `cluster`; `None` if it can be sent unchanged. A malformed body is forwarded to the member, which
/// refuses it.
pub fn rewritten(media_type: &str, body: &[u8], cluster: &str) -> Result<Option<Rewritten>, ClusterNotInVersion> {
    let Some(mut document) = parse(media_type, body) else { return Ok(None) };
    let changed = match &mut document {
        Value::Array(operations) if media_type == JSON_PATCH => {
            let mut changed = false;
            for operation in operations {
                changed |= restore_operation(operation, cluster)?;
            }
            changed
        }
        object => restore(object, cluster)?,
    };
    let media_type = if media_type.contains("patch") { media_type } else { JSON };
    Ok(changed.then(|| Rewritten { body: document.to_string(), media_type: media_type.to_owned() }))
}

fn parse(media_type: &str, body: &[u8]) -> Option<Value> {
    match media_type {
        "application/yaml" | APPLY_PATCH => apimachinery::yaml::to_json_value(body).ok(),
        "application/vnd.kubernetes.protobuf" => kubernetes_api::protobuf::decode(body).ok(),
        _ => serde_json::from_slice(body).ok(),
    }
}

/// An object, a patch of its form, DeleteOptions or an Eviction. True if something was changed.
fn restore(object: &mut Value, cluster: &str) -> Result<bool, ClusterNotInVersion> {
    let mut changed = remove_mark(object);
    for place in
        ["/metadata/resourceVersion", "/preconditions/resourceVersion", "/deleteOptions/preconditions/resourceVersion"]
    {
        if let Some(version) = object.pointer_mut(place) {
            changed |= restore_version(version, cluster)?;
        }
    }
    Ok(changed)
}

/// One operation of a JSON patch.
fn restore_operation(operation: &mut Value, cluster: &str) -> Result<bool, ClusterNotInVersion> {
    let path = operation["path"].as_str().unwrap_or_default().to_owned();
    let Some(value) = operation.get_mut("value") else { return Ok(false) };
    match path.as_str() {
        "" => restore(value, cluster),
        "/metadata" => {
            let mut object = json!({ "metadata": value.take() });
            let changed = restore(&mut object, cluster);
            *value = object["metadata"].take();
            changed
        }
        "/metadata/resourceVersion" => restore_version(value, cluster),
        _ => Ok(false),
    }
}

fn restore_version(version: &mut Value, cluster: &str) -> Result<bool, ClusterNotInVersion> {
    let Some(since @ Since::Each(_)) = version.as_str().map(Since::parse) else { return Ok(false) };
    *version = json!(since.of(cluster).ok_or(ClusterNotInVersion)?);
    Ok(true)
}

fn remove_mark(object: &mut Value) -> bool {
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return false;
    };
    let removed = annotations.remove(CACHED_FROM_CLUSTER).is_some();
    if removed
        && annotations.is_empty()
        && let Some(metadata) = object.metadata_mut()
    {
        metadata.remove("annotations");
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"member1":"1321","member2":"1331"}`
    const MERGED: &str = "eyJtZW1iZXIxIjoiMTMyMSIsIm1lbWJlcjIiOiIxMzMxIn0";

    fn check(media_type: &str, body: impl AsRef<[u8]>, expected: Result<Option<(&str, Value)>, ClusterNotInVersion>) {
        let body = body.as_ref();
        let found = rewritten(media_type, body, "member2").map(|it| {
            it.map(|it| (it.media_type, serde_json::from_str::<Value>(&it.body).expect("JSON, which is YAML too")))
        });
        let expected = expected.map(|it| it.map(|(media_type, body)| (media_type.to_owned(), body)));
        assert_eq!(found, expected, "{media_type} {}", String::from_utf8_lossy(body));
    }

    #[test]
    fn objects_have_the_members_version_in_every_form() {
        let object = |version: &str, annotations: Value| {
            let metadata = json!({"name": "a", "resourceVersion": version, "annotations": annotations});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "1"}})
        };
        let marked = object(MERGED, json!({CACHED_FROM_CLUSTER: "member2", "own": "1"}));
        let restored = object("1331", json!({"own": "1"}));
        check(JSON, marked.to_string(), Ok(Some((JSON, restored.clone()))));
        check("application/yaml", apimachinery::yaml::to_string(&marked), Ok(Some((JSON, restored.clone()))));
        let message = kubernetes_api::protobuf::encode(marked.to_string().as_bytes()).expect("a message");
        check("application/vnd.kubernetes.protobuf", message, Ok(Some((JSON, restored))));
        // An item of a list already has the member's version, and keeps it.
        let item = object("1291", json!({CACHED_FROM_CLUSTER: "member2"}));
        let mut restored = object("1291", json!({}));
        restored["metadata"].as_object_mut().expect("an object").remove("annotations");
        check(JSON, item.to_string(), Ok(Some((JSON, restored))));
        for untouched in ["1291", "", "0", "abc", "eyJ"] {
            check(JSON, object(untouched, json!({"own": "1"})).to_string(), Ok(None));
        }
        check(JSON, "{", Ok(None));
        check("application/octet-stream", b"\0", Ok(None));
    }

    #[test]
    fn patches_and_preconditions_of_deletions() {
        let own = json!({"metadata": {"resourceVersion": "1331"}});
        let merged = json!({"metadata": {"resourceVersion": MERGED}}).to_string();
        for media_type in ["application/merge-patch+json", "application/strategic-merge-patch+json", APPLY_PATCH] {
            check(media_type, &merged, Ok(Some((media_type, own.clone()))));
        }
        check(APPLY_PATCH, format!("metadata:\n  resourceVersion: {MERGED}\n"), Ok(Some((APPLY_PATCH, own.clone()))));
        let operations = |version: &str| {
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "replace", "path": "/metadata", "value": {"resourceVersion": version}},
                {"op": "add", "path": "", "value": {"metadata": {"resourceVersion": version}}},
                {"op": "remove", "path": "/data/a"},
            ])
        };
        check(JSON_PATCH, operations(MERGED).to_string(), Ok(Some((JSON_PATCH, operations("1331")))));
        check(JSON_PATCH, operations("1331").to_string(), Ok(None));
        let deletion = |version: &str| json!({"preconditions": {"uid": "u", "resourceVersion": version}});
        check(JSON, deletion(MERGED).to_string(), Ok(Some((JSON, deletion("1331")))));
        let eviction = |version: &str| json!({"metadata": {"name": "p"}, "deleteOptions": deletion(version)});
        check(JSON, eviction(MERGED).to_string(), Ok(Some((JSON, eviction("1331")))));
        check(JSON, "", Ok(None));
    }

    #[test]
    fn versions_of_other_clusters_are_no_precondition() {
        let of_member1 = "eyJtZW1iZXIxIjoiMTI5MSJ9";
        for place in [
            json!({"metadata": {"resourceVersion": of_member1}}),
            json!({"preconditions": {"resourceVersion": of_member1}}),
        ] {
            check(JSON, place.to_string(), Err(ClusterNotInVersion));
        }
        check(
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/resourceVersion", "value": of_member1}]).to_string(),
            Err(ClusterNotInVersion),
        );
    }
}
