//! MultiClusterService.

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
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
    /// The exposure, and the provider and consumer clusters.
    #[schemars(extend("x-required" = true))]
    pub spec: MultiClusterServiceSpec,
    /// The state of the Service.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ServiceStatus,
}

/// The exposure, and the provider and consumer clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterServiceSpec {
    /// Clusters that consume the Service. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub consumer_clusters: Vec<ClusterSelector>,
    /// The exposed ports. Empty: all ports of the Service.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ports: Vec<ExposurePort>,
    /// Clusters whose pods back the Service. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub provider_clusters: Vec<ClusterSelector>,
    /// Deprecated: it has no effect. Use providerClusters and consumerClusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<ExposureRange>,
    /// Deprecated: it has no effect. Use consumerClusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub service_consumption_clusters: Vec<String>,
    /// Deprecated: it has no effect. Use providerClusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub service_provision_clusters: Vec<String>,
    /// How the Service is exposed. `CrossCluster`: to the other clusters. `LoadBalancer`: to external clients. Exactly
    /// one of them; immutable.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub types: Vec<String>,
}

/// A cluster by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSelector {
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// An exposed port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExposurePort {
    /// Name of the port, a unique DNS label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Number of the port, 1 to 65535.
    #[schemars(extend("x-required" = true))]
    pub port: i32,
}

/// Deprecated: replaced by providerClusters and consumerClusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExposureRange {
    /// Deprecated: it has no effect.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
}

/// The status of the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Conditions: ServiceApplied and EndpointSliceDispatched.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>", extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The addresses of the load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
}

/// The addresses of the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// The addresses of the load balancer.
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
    /// The ports of the load balancer, with their errors.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<PortStatus>,
}

/// One port of the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortStatus {
    /// The error of the port.
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
