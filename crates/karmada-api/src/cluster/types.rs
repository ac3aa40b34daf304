//! Cluster: the API type of a member cluster.

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
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
    /// How the member is reached, its location, and its taints.
    #[schemars(extend("x-required" = true))]
    pub spec: ClusterSpec,
    /// The observed state of the member.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ClusterStatus,
}

impl Cluster {
    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition Ready is True.
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

/// Whether a cluster serves a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiEnablementStatus {
    /// It does.
    Enabled,
    /// It does not.
    Disabled,
    /// The kind was not discovered, but discovery may be incomplete.
    Unknown,
}

/// Which side opens the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// The control plane connects to the member.
    #[default]
    Push,
    /// An agent in the member connects to the control plane.
    Pull,
}

/// How the member is reached, its location, and its taints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Identity of the member: the UID of its namespace kube-system. Set when it joins.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub id: String,
    /// Push: the control plane connects to the member. Pull: an agent in the member connects to the control plane.
    #[schemars(extend("x-required" = true))]
    pub sync_mode: SyncMode,
    /// URL of the member's API server, such as https://10.0.0.1:6443.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_endpoint: String,
    /// Secret in the control plane with the credentials for the member: the keys token and caBundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// Secret in the control plane with the token of a member's account that may impersonate users; requests through
    /// `clusters/NAME/proxy` use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    #[serde(
        rename = "insecureSkipTLSVerification",
        skip_serializing_if = "is_default",
        deserialize_with = "null_as_default"
    )]
    /// True: the member's certificate is not verified, so any server at its address is trusted. Default: false.
    pub insecure_skip_tls_verification: bool,
    /// URL of a proxy between the control plane and the member: http, https or socks5.
    #[serde(rename = "proxyURL", skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub proxy_url: String,
    /// Headers of the CONNECT request to the proxy; a value may be several values, separated by commas.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub proxy_header: BTreeMap<String, String>,
    /// Provider of the member; used by spread constraints and field selectors.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub provider: String,
    /// Region of the member; used by spread constraints and field selectors.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub region: String,
    /// Deprecated: use zones. The value is moved there when the Cluster is written.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub zone: String,
    /// Zones of the member's nodes; used by spread constraints and field selectors.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub zones: Vec<String>,
    /// Taints, which keep workloads without a toleration away: NoSchedule rejects new workloads, NoExecute evicts
    /// workloads.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    /// Grades by which the member's nodes are counted; the scheduler estimates capacity with them. Default: nine grades
    /// over cpu and memory.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_models: Vec<ResourceModel>,
}

/// A Secret of the control plane.
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

/// A grade of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceModel {
    /// Number of the grade; the smallest nodes have the lowest.
    #[schemars(extend("x-required" = true))]
    pub grade: u64,
    /// The range of each resource of the grade's nodes. The ranges of all grades adjoin, from 0 to the maximum.
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
    /// The lower bound, inclusive.
    #[schemars(extend("x-required" = true))]
    pub min: Quantity,
    /// The upper bound, exclusive.
    #[schemars(extend("x-required" = true))]
    pub max: Quantity,
}

/// The observed state of the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Version of the member's API server, such as v1.36.0.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kubernetes_version: String,
    /// The groups, versions and kinds that the member serves.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_enablements: Vec<ApiEnablement>,
    /// Conditions: Ready, CompleteAPIEnablements and others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// The number of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// The resources of the member's nodes, and the requests of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// Actions that Remedies currently request, such as TrafficControl.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub remedy_actions: Vec<String>,
}

/// The resources of one group version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEnablement {
    /// Group and version, e.g. apps/v1.
    #[schemars(extend("x-required" = true))]
    pub group_version: String,
    /// The resources of the group and version.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<EnabledResource>,
}

/// A resource of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnabledResource {
    /// Name of the resource in URLs, such as deployments.
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// The kind of its objects.
    pub kind: String,
}

/// The number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// All nodes, ready or not.
    #[serde(skip_serializing_if = "is_default")]
    pub total_num: i32,
    /// Ready nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_num: i32,
}

/// Allocatable, requested and allocated resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSummary {
    /// The allocatable resources of all nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocatable: ResourceList,
    /// Requests of pods that are not scheduled yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocating: ResourceList,
    /// Requests of scheduled pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocated: ResourceList,
    /// The number of nodes of each grade of spec.resourceModels, by their free resources.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// The nodes of one grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatableModeling {
    /// Number of the grade; the smallest nodes have the lowest.
    #[schemars(extend("x-required" = true))]
    pub grade: u64,
    /// The number of nodes of the grade.
    #[schemars(extend("x-required" = true))]
    pub count: i64,
}
