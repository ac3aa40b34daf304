//! Kubernetes' types in ours: tolerations, node selectors, taints, quantities. Label selectors, conditions and metadata
//! are in `apimachinery`.

use std::collections::BTreeMap;

use apimachinery::meta::{Time, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// A quantity as written, e.g. `500m` or `4Gi`. `apimachinery::quantity` has the arithmetic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Quantity(pub String);

impl Quantity {
    /// The quantity as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Number(serde_json::Number),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => Self(text),
            Written::Number(number) => Self(number.to_string()),
        })
    }
}

/// `core/v1.Toleration`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The effect that is tolerated; empty tolerates all effects.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub effect: String,
    /// The taint's key; empty with operator Exists tolerates all keys.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub key: String,
    /// Equal (also when empty) or Exists.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub operator: String,
    /// Seconds for which a NoExecute taint is tolerated. Absent: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
    /// The taint's value, with operator Equal.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}

impl Toleration {
    /// Whether this tolerates `taint`, by the rules of Kubernetes' `ToleratesTaint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

/// `core/v1.Taint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// NoSchedule or NoExecute.
    #[schemars(extend("x-required" = true))]
    pub effect: String,
    /// The taint's key.
    #[schemars(extend("x-required" = true))]
    pub key: String,
    /// When the taint was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub time_added: Option<Time>,
    /// The taint's value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}

/// `core/v1.NodeSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorRequirement {
    /// The key that the requirement applies to.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub operator: String,
    /// The values the operator compares with.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// `core/v1.NodeSelectorTerm`: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeSelectorTerm {
    /// Requirements on the node's labels.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on the node's fields.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// `core/v1.NodeSelector`: one matching term suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeSelector {
    /// The terms; one matching term suffices.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "x-kubernetes-list-type" = "atomic"))]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}
