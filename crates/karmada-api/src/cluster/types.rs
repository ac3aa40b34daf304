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
    /// How the member is reached, where it is, and what keeps workloads away.
    #[schemars(extend("x-required" = true))]
    pub spec: ClusterSpec,
    /// What is known of the member.
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
    /// What identifies the member: the UID of its namespace kube-system. Set when it joins.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub id: String,
    /// Push: the control plane reaches the member. Pull: an agent in it reaches the control plane.
    #[schemars(extend("x-required" = true))]
    pub sync_mode: SyncMode,
    /// URL of the member's API server, such as https://10.0.0.1:6443.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_endpoint: String,
    /// Secret in the control plane with the credentials for the member: the keys token and caBundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// Secret in the control plane with the token of an account of the member that may act as others; requests
    /// through `clusters/NAME/proxy` use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    #[serde(
        rename = "insecureSkipTLSVerification",
        skip_serializing_if = "is_default",
        deserialize_with = "null_as_default"
    )]
    /// True: the member's certificate is not verified, and whoever answers at its address is believed. Default:
    /// false.
    pub insecure_skip_tls_verification: bool,
    /// URL of a proxy on the way to the member: http, https or socks5.
    #[serde(rename = "proxyURL", skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub proxy_url: String,
    /// Headers for the CONNECT request to the proxy; a value may be several, separated by commas.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub proxy_header: BTreeMap<String, String>,
    /// The provider the member runs at; spread constraints and field selectors read it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub provider: String,
    /// The region the member is in; spread constraints and field selectors read it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub region: String,
    /// Deprecated: use zones, where it is moved to when the Cluster is written.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub zone: String,
    /// The zones the member's nodes are in; spread constraints and field selectors read them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub zones: Vec<String>,
    /// What keeps workloads away that do not tolerate it: NoSchedule lets nothing new in, NoExecute makes workloads
    /// leave.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    /// Grades by which the member's nodes are counted, so that the scheduler knows how large they are. Default: nine
    /// grades over cpu and memory.
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
    /// Number of the grade; the smallest nodes have the lowest.
    #[schemars(extend("x-required" = true))]
    pub grade: u64,
    /// What a node of the grade has of each resource; the ranges of all grades adjoin, from 0 to the largest number.
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
    /// The amount from which on a node is of the next grade.
    #[schemars(extend("x-required" = true))]
    pub max: Quantity,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Version of the member's API server, such as v1.36.0.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kubernetes_version: String,
    /// The groups, versions and kinds the member serves.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_enablements: Vec<ApiEnablement>,
    /// Conditions: Ready, CompleteAPIEnablements and others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// How many nodes the member has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// What the member's nodes have, and what pods ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// Actions that Remedies ask for at present, such as TrafficControl.
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
    /// The resources of the group and version.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<EnabledResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnabledResource {
    /// Name of the resource in URLs, such as deployments.
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// The kind of its objects.
    pub kind: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// Nodes in all, ready or not.
    #[serde(skip_serializing_if = "is_default")]
    pub total_num: i32,
    /// Nodes that are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_num: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSummary {
    /// What pods may use, over all nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocatable: ResourceList,
    /// Asked for by pods that wait for a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocating: ResourceList,
    /// Asked for by pods that have one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub allocated: ResourceList,
    /// How many nodes are of each grade of spec.resourceModels, by what they have left.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// Nodes of one grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatableModeling {
    /// Number of the grade; the smallest nodes have the lowest.
    #[schemars(extend("x-required" = true))]
    pub grade: u64,
    /// How many nodes are of the grade.
    #[schemars(extend("x-required" = true))]
    pub count: i64,
}
