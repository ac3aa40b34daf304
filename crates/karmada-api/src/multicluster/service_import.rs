//! ServiceImport of the multi-cluster services API.

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;

crate::api_type!(ServiceImport, "multicluster.x-k8s.io", "v1alpha1", "serviceimports", true);

/// A Service of other clusters, for use in this one.
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
    /// The Service as it appears in this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceImportSpec>,
    /// The clusters that export the Service.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ServiceImportStatus,
}

/// The Service as it appears in this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportSpec {
    /// The address of the Service; at most one.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("maxItems" = 1))]
    pub ips: Vec<String>,
    /// The ports of the Service.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<ServicePort>,
    /// Session affinity of clients: ClientIP or None. Default: None.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub session_affinity: String,
    /// Settings of session affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// `ClusterSetIP`: the Service has one address. `Headless`: it has none; such an import is ignored.
    #[serde(rename = "type")]
    #[schemars(extend("x-required" = true))]
    pub type_: ServiceImportType,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Protocol of the application, such as http.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Name of the port; required if there are several.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Port number.
    #[schemars(extend("x-required" = true))]
    pub port: i32,
    /// TCP, UDP or SCTP. Default: TCP.
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
    /// Seconds for which a client stays with one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// The clusters that export the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportStatus {
    /// The clusters that export the Service.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub clusters: Vec<ClusterStatus>,
}

/// A cluster that exports the Service.
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
    /// By one address.
    #[default]
    ClusterSetIP,
    /// Without an address.
    Headless,
}
