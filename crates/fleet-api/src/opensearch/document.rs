//! Documents and indexes: their names, mappings and fields.

use std::collections::BTreeMap;

use apimachinery::Object;
use karmada_api::constants::annotations::CACHED_FROM_CLUSTER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::source::Source;

/// Lucene accepts terms of up to 32,766 bytes. A flat object makes a term of the path, a separator and the value.
const MAX_TERM: usize = 32_000;
/// OpenSearch rejects longer ids.
pub(super) const MAX_ID: usize = 512;

/// The index of a kind; `None` for a kind that no index can be named after.
pub(super) fn index_of(kind: &str) -> Option<String> {
    let is_valid = !kind.is_empty()
        && kind.len() <= 200
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    is_valid.then(|| format!("kubernetes-{}", kind.to_ascii_lowercase()))
}

/// The mapping for an index, from the best to the most widely supported. Labels and annotations are maps with arbitrary keys:
/// as plain objects each key would become a field, and `app` would conflict with `app.kubernetes.io/name`.
/// OpenSearch has `flat_object` since 2.7, Elasticsearch has `flattened`.
pub(super) fn mappings() -> [Value; 3] {
    let flat = |kind: &str| (json!({ "type": kind }), json!({ "type": kind }));
    let plain = (
        json!({ "type": "object", "enabled": false }),
        json!({ "type": "object", "dynamic": false, "properties": { CACHED_FROM_CLUSTER: { "type": "keyword" } } }),
    );
    [flat("flat_object"), flat("flattened"), plain].map(|(labels, annotations)| mapping(&labels, &annotations))
}

fn mapping(labels: &Value, annotations: &Value) -> Value {
    let keyword = json!({ "type": "text", "fields": { "keyword": { "type": "keyword", "ignore_above": 256 } } });
    let date = json!({ "type": "date", "ignore_malformed": true });
    json!({ "mappings": { "properties": {
        "apiVersion": keyword,
        "kind": keyword,
        "metadata": { "properties": {
            "name": keyword, "namespace": keyword, "resourceVersion": keyword,
            "creationTimestamp": date, "deletionTimestamp": date,
            "labels": labels, "annotations": annotations,
        } },
        "spec": { "type": "text" },
        "status": { "type": "text" },
    } } })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    /// JSON in a text, so that the fields of different kinds need no mapping.
    spec: &'a str,
    status: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<&'a str>,
    /// Shows whether the document is up to date. Upstream's documents lack it.
    resource_version: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Created {
    creation_timestamp: Option<String>,
}

/// The document of an object, in one line.
pub(super) fn document(source: &Source, object: &Object) -> Result<Vec<u8>, serde_json::Error> {
    let place = &source.place;
    let created: Created = serde_json::from_slice(&object.metadata_json()).unwrap_or_default();
    let mut annotations = object.annotations();
    annotations.retain(|key, value| key.len() + value.len() <= MAX_TERM);
    annotations.insert(CACHED_FROM_CLUSTER.to_owned(), place.cluster.clone());
    let (spec, status) = (object.member("spec"), object.member("status"));
    let text =
        |part: &'_ Option<bytes::Bytes>| part.as_deref().and_then(|it| std::str::from_utf8(it).ok()).map(str::to_owned);
    let (spec, status) = (text(&spec), text(&status));
    let api_version = place.resource.api_version();
    serde_json::to_vec(&Document {
        api_version: &api_version,
        kind: &place.resource.kind,
        metadata: Metadata {
            name: object.name(),
            namespace: object.namespace().unwrap_or_default(),
            creation_timestamp: created.creation_timestamp,
            deletion_timestamp: object.deletion_timestamp(),
            resource_version: object.resource_version(),
            labels: object.labels().iter().collect(),
            annotations,
        },
        // As upstream, which encodes the absent value.
        spec: spec.as_deref().unwrap_or("null"),
        status: status.as_deref().unwrap_or("null"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Member, source};
    use super::*;

    #[test]
    fn indexes_are_named_after_kinds() {
        for (kind, index) in [
            ("Deployment", Some("kubernetes-deployment")),
            ("", None),
            ("../_all", None),
            ("a,b", None),
            ("Ünicode", None),
            (&"a".repeat(300), None),
        ] {
            assert_eq!(index_of(kind).as_deref(), index, "{kind}");
        }
    }

    #[test]
    fn documents_have_upstreams_fields() {
        let object = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
                "creationTimestamp": "2026-11-21T00:00:00Z", "labels": {"app": "web", "app.kubernetes.io/name": "web"},
                "annotations": {"note": "a\nb", "huge": "x".repeat(40_000)}, "managedFields": [{"manager": "m"}]},
            "spec": {"nodeName": "n1"}, "data": {"secret": "value"}});
        let member = Member::default();
        let text = document(&source("member1", &member), &Object::from_value(&object).unwrap()).unwrap();
        assert!(!text.contains(&b'\n'));
        let found: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            found,
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7",
                    "creationTimestamp": "2026-11-21T00:00:00Z", "deletionTimestamp": null,
                    "labels": {"app": "web", "app.kubernetes.io/name": "web"},
                    "annotations": {"note": "a\nb", CACHED_FROM_CLUSTER: "member1"}},
                "spec": "{\"nodeName\":\"n1\"}", "status": "null"})
        );
    }
}
