//! An object as it travels through the program: encoded JSON plus the metadata everyone asks for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::GroupVersionKind;
use crate::meta::OwnerReference;

/// Namespace and name. An empty namespace is a cluster-scoped object's; the order is the storage order (namespace,
/// then name, bytewise).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: String::new(), name: name.into() }
    }

    /// `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(ns) => write!(f, "{ns}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An encoded object. Cheap to share as `Arc<Object>`; never edited in place: decode, change, encode.
#[derive(Clone)]
pub struct Object {
    json: Bytes,
    head: Head,
}

/// The part of an object that is parsed once, when it enters the program.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: String,
    kind: String,
    metadata: HeadMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    namespace: String,
    #[serde(deserialize_with = "null_is_default")]
    uid: String,
    #[serde(deserialize_with = "null_is_default")]
    resource_version: String,
    #[serde(deserialize_with = "null_is_default")]
    generation: i64,
    deletion_timestamp: Option<Box<str>>,
    #[serde(deserialize_with = "null_is_default")]
    labels: BTreeMap<Box<str>, Box<str>>,
    #[serde(deserialize_with = "null_is_default")]
    finalizers: Vec<Box<str>>,
    #[serde(deserialize_with = "null_is_default")]
    owner_references: Vec<OwnerReference>,
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Object {
    /// Parses the metadata of an encoded object; the rest of the document is skipped over, not built.
    pub fn parse(json: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let json = json.into();
        let head: Head = serde_json::from_slice(&json)?;
        Ok(Self { json, head })
    }

    /// Encodes a tree.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        Self::parse(serde_json::to_vec(value)?)
    }

    /// Encodes a typed object.
    pub fn encode<T: serde::Serialize>(typed: &T) -> Result<Self, serde_json::Error> {
        Self::parse(serde_json::to_vec(typed)?)
    }

    /// The encoded document.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Builds the whole tree; for cold paths and for edits.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    /// Decodes into a typed object.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    pub fn api_version(&self) -> &str {
        &self.head.api_version
    }

    pub fn kind(&self) -> &str {
        &self.head.kind
    }

    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = self.api_version().split_once('/').unwrap_or(("", self.api_version()));
        GroupVersionKind::new(group, version, self.kind())
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.head.metadata.namespace.as_str(), self.name())
    }

    pub fn name(&self) -> &str {
        &self.head.metadata.name
    }

    /// `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        let ns = self.head.metadata.namespace.as_str();
        (!ns.is_empty()).then_some(ns)
    }

    pub fn uid(&self) -> &str {
        &self.head.metadata.uid
    }

    /// The opaque text as it stands in the document; empty when the object was never stored.
    pub fn resource_version(&self) -> &str {
        &self.head.metadata.resource_version
    }

    pub fn generation(&self) -> i64 {
        self.head.metadata.generation
    }

    pub fn is_deleting(&self) -> bool {
        self.head.metadata.deletion_timestamp.is_some()
    }

    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.head.metadata.deletion_timestamp.as_deref()
    }

    pub fn labels(&self) -> &BTreeMap<Box<str>, Box<str>> {
        &self.head.metadata.labels
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.head.metadata.labels.get(key).map(AsRef::as_ref)
    }

    pub fn finalizers(&self) -> &[Box<str>] {
        &self.head.metadata.finalizers
    }

    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.head.metadata.owner_references
    }

    /// Parsed on each call: annotations are large and few paths look at them.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Doc {
            metadata: Meta,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Meta {
            #[serde(deserialize_with = "null_is_default")]
            annotations: BTreeMap<String, String>,
        }
        serde_json::from_slice::<Doc>(&self.json).map(|doc| doc.metadata.annotations).unwrap_or_default()
    }

    /// One annotation; see [`Object::annotations`] for the cost.
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.annotations().remove(key)
    }

    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} rv={}", self.kind(), self.key(), self.resource_version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_and_nulls_are_absent() {
        let object = Object::parse(
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"ns","labels":null,
               "annotations":{"k":"v"},"finalizers":["x"],"resourceVersion":"7"},"spec":{"deep":[1,2,{"a":null}]}}"#,
        )
        .expect("a valid document");
        assert_eq!(object.gvk(), GroupVersionKind::new("apps", "v1", "Deployment"));
        assert_eq!(object.key().to_string(), "ns/a");
        assert_eq!(object.resource_version(), "7");
        assert_eq!(object.annotation("k").as_deref(), Some("v"));
        assert!(object.labels().is_empty() && !object.is_deleting());
    }
}
