//! Cluster: a member and what is known of it.

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::{Quantity, ResourceList, Taint};

crate::api_type!(Cluster, "cluster.karmada.io", "v1alpha1", "clusters", false);

/// A member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: ClusterSpec,
    /// Observed.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// The control plane reaches the member.
    #[default]
    Push,
    /// An agent in the member reaches the control plane.
    Pull,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// UID of the member's namespace kube-system.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub id: String,
    /// Push: the control plane reaches the member. Pull: an agent in it reaches the control plane.
    #[schemars(extend("x-required" = true))]
    pub sync_mode: SyncMode,
    /// URL of the member's API server.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_endpoint: String,
    /// Secret with the keys token and caBundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// Secret with the token of an account that may impersonate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    #[serde(
        rename = "insecureSkipTLSVerification",
        skip_serializing_if = "is_default",
        deserialize_with = "null_as_default"
    )]
    /// Whether the member's certificate is taken unseen.
    pub insecure_skip_tls_verification: bool,
    /// Forward proxy on the way to the member.
    #[serde(rename = "proxyURL", skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub proxy_url: String,
    /// Headers for the proxy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub proxy_header: BTreeMap<String, String>,
    /// Cloud provider.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub provider: String,
    /// Region.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub region: String,
    /// Superseded by zones; moved there on every write.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub zone: String,
    /// Zones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub zones: Vec<String>,
    /// Taints; workloads need tolerations for them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    /// Grades by which nodes are counted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_models: Vec<ResourceModel>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalSecretReference {
    /// Namespace of the Secret.
    #[schemars(extend("x-required" = true))]
    pub namespace: String,
    /// Name of the Secret.
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// A grade by which nodes are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceModel {
    /// The grade.
    #[schemars(extend("x-required" = true))]
    pub grade: u64,
    /// The range of each resource.
    #[schemars(extend("x-required" = true))]
    pub ranges: Vec<ResourceModelRange>,
}

/// From `min` up to, not including, `max`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceModelRange {
    /// The resource, such as cpu or memory.
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// The least amount, inclusive.
    #[schemars(extend("x-required" = true))]
    pub min: Quantity,
    /// The greatest amount, exclusive.
    #[schemars(extend("x-required" = true))]
    pub max: Quantity,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Version of the member.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kubernetes_version: String,
    /// What the member serves.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_enablements: Vec<ApiEnablement>,
    /// Conditions: Ready, CompleteAPIEnablements and others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// How many nodes there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// What the nodes have and what is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// Actions now asked for by remedies.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub remedy_actions: Vec<String>,
}

/// What a member serves of one group version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEnablement {
    /// Group and version, e.g. apps/v1.
    #[schemars(extend("x-required" = true))]
    pub group_version: String,
    /// The resources.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<EnabledResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnabledResource {
    /// The plural of the URL.
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// The kind of its objects.
    pub kind: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// Nodes in all.
    #[serde(skip_serializing_if = "is_default")]
    pub total_num: i32,
    /// Nodes that are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_num: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Nodes by grade.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// Nodes of one grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatableModeling {
    /// The grade.
    #[schemars(extend("x-required" = true))]
    pub grade: u64,
    /// How many nodes.
    #[schemars(extend("x-required" = true))]
    pub count: i64,
}
