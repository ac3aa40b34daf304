//! Types that interpreters exchange: sent, never stored.

use apimachinery::meta::{LabelSelector, null_as_default};
use serde::{Deserialize, Serialize};

/// A dependency of an object, by name or by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DependentObjectReference {
    /// API version of the dependency.
    pub api_version: String,
    /// Kind of the dependency.
    pub kind: String,
    /// Namespace of the dependency; empty for cluster-scoped ones.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Takes precedence over the selector.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Labels of the dependencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}
