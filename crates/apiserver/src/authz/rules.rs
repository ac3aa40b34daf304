//! The parts of RBAC objects that decide, as `rbac.authorization.k8s.io/v1` spells them.

use apimachinery::meta::null_as_default;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    #[serde(deserialize_with = "null_as_default")]
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub non_resource_urls: Vec<String>,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl PolicyRule {
    pub fn new(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Self {
        Self { verbs: owned(verbs), api_groups: owned(groups), resources: owned(resources), ..Self::default() }
    }

    pub fn paths(verbs: &[&str], paths: &[&str]) -> Self {
        Self { verbs: owned(verbs), non_resource_urls: owned(paths), ..Self::default() }
    }

    /// Restricts the rule to objects of these names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.resource_names = owned(names);
        self
    }

    pub fn everything() -> Self {
        Self::new(&["*"], &["*"], &["*"])
    }

    pub fn every_path() -> Self {
        Self::paths(&["*"], &["*"])
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subject {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_group: String,
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    pub name: String,
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
