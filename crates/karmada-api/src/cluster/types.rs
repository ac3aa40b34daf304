//! Cluster: a member and what is known of it.

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::is_default;
use crate::kubernetes::{Quantity, ResourceList, Taint};

crate::api_type!(Cluster, "cluster.karmada.io", "v1alpha1", "clusters", false);

/// A member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: ClusterSpec,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ClusterStatus,
}

impl Cluster {
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    pub fn is_ready(&self) -> bool {
        self.condition(crate::constants::conditions::READY).is_some_and(|condition| condition.status == "True")
    }

    /// Whether the cluster serves a kind.
    pub fn api_enablement(&self, api_version: &str, kind: &str) -> ApiEnablementStatus {
        let served = self.status.api_enablements.iter().any(|enablement| {
            enablement.group_version == api_version && enablement.resources.iter().any(|resource| resource.kind == kind)
        });
        let complete = self
            .condition(crate::constants::conditions::COMPLETE_API_ENABLEMENTS)
            .is_some_and(|condition| condition.status == "True");
        match (served, complete) {
            (true, _) => ApiEnablementStatus::Enabled,
            (false, true) => ApiEnablementStatus::Disabled,
            (false, false) => ApiEnablementStatus::Unknown,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiEnablementStatus {
    Enabled,
    Disabled,
    /// Not seen, but what was seen may not be all.
    Unknown,
}

/// Who keeps the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncMode {
    /// The control plane reaches the member.
    #[default]
    Push,
    /// An agent in the member reaches the control plane.
    Pull,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// UID of the member's namespace kube-system.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub id: String,
    pub sync_mode: SyncMode,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    #[serde(
        rename = "insecureSkipTLSVerification",
        skip_serializing_if = "is_default",
        deserialize_with = "null_as_default"
    )]
    pub insecure_skip_tls_verification: bool,
    #[serde(rename = "proxyURL", skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub proxy_url: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub proxy_header: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub provider: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub region: String,
    /// Superseded by zones; moved there on every write.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub zone: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub zones: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_models: Vec<ResourceModel>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalSecretReference {
    pub namespace: String,
    pub name: String,
}

/// A grade by which nodes are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceModel {
    pub grade: u64,
    pub ranges: Vec<ResourceModelRange>,
}

/// From `min` up to, not including, `max`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceModelRange {
    pub name: String,
    pub min: Quantity,
    pub max: Quantity,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kubernetes_version: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_enablements: Vec<ApiEnablement>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub remedy_actions: Vec<String>,
}

/// What a member serves of one group version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEnablement {
    pub group_version: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<EnabledResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnabledResource {
    /// The plural of the URL.
    pub name: String,
    pub kind: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    #[serde(skip_serializing_if = "is_default")]
    pub total_num: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub ready_num: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSummary {
    /// Sum over the nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocatable: ResourceList,
    /// Asked for by pods that wait for a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocating: ResourceList,
    /// Asked for by pods that have one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocated: ResourceList,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// Nodes of one grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatableModeling {
    pub grade: u64,
    pub count: i64,
}
