//! ServiceImport of the multi-cluster services API.

use apimachinery::meta::{ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;

crate::api_type!(ServiceImport, "multicluster.x-k8s.io", "v1alpha1", "serviceimports", true);

/// A Service of other clusters, to be used here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImport {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceImportSpec>,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ServiceImportStatus,
}

/// How the Service looks here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportSpec {
    /// At most one VIP.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("maxItems" = 1))]
    pub ips: Vec<String>,
    /// Ports.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<ServicePort>,
    /// ClientIP/None.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub session_affinity: String,
    /// Settings of session affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// `ClusterSetIP` or `Headless`. Headless is ignored by Karmada.
    #[serde(rename = "type")]
    #[schemars(extend("x-required" = true))]
    pub type_: ServiceImportType,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// App protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Port name.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Port number.
    #[schemars(extend("x-required" = true))]
    pub port: i32,
    /// Protocol.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub protocol: String,
}

/// Settings of session affinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionAffinityConfig {
    /// Settings of affinity by client address.
    #[serde(rename = "clientIP", skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<ClientIPConfig>,
}

/// Settings of affinity by client address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIPConfig {
    /// How long a client stays with one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// Where the Service comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportStatus {
    /// One cluster that exports the Service.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub clusters: Vec<ClusterStatus>,
}

/// One cluster that exports the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster: String,
}

/// How an imported Service is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ServiceImportType {
    #[default]
    ClusterSetIP,
    Headless,
}
