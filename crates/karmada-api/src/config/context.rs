//! What interpreters exchange: never stored, only sent.

use apimachinery::meta::{LabelSelector, null_as_default};
use serde::{Deserialize, Serialize};

/// An object another object needs, by name or by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DependentObjectReference {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Wins over the selector.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}
