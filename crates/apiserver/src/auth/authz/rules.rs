//! The parts of RBAC objects that decide, as `rbac.authorization.k8s.io/v1` spells them.

use apimachinery::meta::null_as_default;
use serde::{Deserialize, Serialize};

/// `PolicyRule`: permissions on resources or paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The verbs; `*` permits all.
    #[serde(deserialize_with = "null_as_default")]
    pub verbs: Vec<String>,
    /// The API groups; `*` permits all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_groups: Vec<String>,
    /// The resources, with subresources as `pods/log`; `*` permits all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<String>,
    /// The names of objects; empty permits all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_names: Vec<String>,
    /// Paths outside the resource space; `*` at the end matches any continuation.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub non_resource_urls: Vec<String>,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl PolicyRule {
    /// A rule on resources.
    pub fn new(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Self {
        Self { verbs: owned(verbs), api_groups: owned(groups), resources: owned(resources), ..Self::default() }
    }

    /// A rule on paths.
    pub fn paths(verbs: &[&str], paths: &[&str]) -> Self {
        Self { verbs: owned(verbs), non_resource_urls: owned(paths), ..Self::default() }
    }

    /// Restricts the rule to objects of these names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.resource_names = owned(names);
        self
    }

    /// The rule that permits everything on resources.
    pub fn everything() -> Self {
        Self::new(&["*"], &["*"], &["*"])
    }

    /// The rule that permits everything on paths.
    pub fn every_path() -> Self {
        Self::paths(&["*"], &["*"])
    }
}

/// `RoleRef`: the role that a binding grants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    /// The API group of the role.
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The name of the role.
    pub name: String,
}

/// `Subject`: the receiver of a binding's role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subject {
    /// The API group of the subject.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_group: String,
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// The name of the user, group or service account.
    pub name: String,
    /// The namespace of a service account.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// A (Cluster)Role, whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Role {
    #[serde(deserialize_with = "null_as_default")]
    pub rules: Vec<PolicyRule>,
}

/// A (Cluster)RoleBinding, whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Binding {
    #[serde(deserialize_with = "null_as_default")]
    pub subjects: Vec<Subject>,
    pub role_ref: RoleRef,
}
