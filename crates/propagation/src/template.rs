//! A resource template: a user's object in the control plane, as a tree with its identity read once.

use apimachinery::{GroupVersionKind, ObjectKey};
use serde_json::Value;

/// Reads identity and metadata of a tree; absent values are read as empty.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a>(pub &'a Value);

impl<'a> Template<'a> {
    fn meta(self, field: &str) -> &'a str {
        self.0["metadata"][field].as_str().unwrap_or_default()
    }

    /// The apiVersion.
    pub fn api_version(self) -> &'a str {
        self.0["apiVersion"].as_str().unwrap_or_default()
    }

    /// The kind.
    pub fn kind(self) -> &'a str {
        self.0["kind"].as_str().unwrap_or_default()
    }

    /// The name.
    pub fn name(self) -> &'a str {
        self.meta("name")
    }

    /// Empty for a cluster-scoped object.
    pub fn namespace(self) -> &'a str {
        self.meta("namespace")
    }

    /// The UID.
    pub fn uid(self) -> &'a str {
        self.meta("uid")
    }

    /// The resource version.
    pub fn resource_version(self) -> &'a str {
        self.meta("resourceVersion")
    }

    /// The generation; 0 for a template without one.
    pub fn generation(self) -> i64 {
        self.0["metadata"]["generation"].as_i64().unwrap_or_default()
    }

    /// The value of a label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.0["metadata"]["labels"][key].as_str()
    }

    /// The value of an annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.0["metadata"]["annotations"][key].as_str()
    }

    /// Whether a deletionTimestamp is set.
    pub fn is_deleting(self) -> bool {
        !self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// Namespace and name.
    pub fn key(self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), self.name())
    }

    /// The group, version and kind.
    pub fn gvk(self) -> GroupVersionKind {
        let (group, version) = self.api_version().split_once('/').unwrap_or(("", self.api_version()));
        GroupVersionKind::new(group, version, self.kind())
    }
}
