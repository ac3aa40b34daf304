//! MultiClusterService.

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;

crate::api_type!(MultiClusterService, "networking.karmada.io", "v1alpha1", "multiclusterservices", true);

/// Makes a Service reachable across clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterService {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: MultiClusterServiceSpec,
    /// core/v1 ServiceStatus.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ServiceStatus,
}

/// How, and between which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterServiceSpec {
    /// Clusters with clients; empty = all registered.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub consumer_clusters: Vec<ClusterSelector>,
    /// Exposed ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ports: Vec<ExposurePort>,
    /// Clusters with backends; empty = all registered.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub provider_clusters: Vec<ClusterSelector>,
    /// Deprecated; read by nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<ExposureRange>,
    /// Deprecated; read by nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub service_consumption_clusters: Vec<String>,
    /// Deprecated; read by nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub service_provision_clusters: Vec<String>,
    /// `CrossCluster` or `LoadBalancer`; at most one distinct value; immutable. The CRD has no enum.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub types: Vec<String>,
}

/// A cluster by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSelector {
    /// Cluster name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// An exposed port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExposurePort {
    /// DNS label; unique.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// 1–65535.
    #[schemars(extend("x-required" = true))]
    pub port: i32,
}

/// Superseded by providerClusters and consumerClusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExposureRange {
    /// Deprecated.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
}

/// The status of the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Types ServiceApplied, EndpointSliceDispatched.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>", extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Where the load balancer answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
}

/// Where the load balancer answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// One address of the load balancer.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// One address of the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// Host name of the address.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub hostname: String,
    /// IP address.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub ip: String,
    /// How traffic to the address is delivered: VIP or Proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_mode: Option<String>,
    /// One port of the load balancer.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<PortStatus>,
}

/// One port of the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortStatus {
    /// What is wrong with the port.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "maxLength" = 316, "pattern" = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
    pub error: String,
    /// Port number.
    #[schemars(extend("x-required" = true))]
    pub port: i32,
    /// TCP, UDP or SCTP.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub protocol: String,
}
