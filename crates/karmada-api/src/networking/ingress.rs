//! MultiClusterIngress. Its spec and status have Kubernetes' schemas and are kept as trees: no controller of ours reads
//! them.

use apimachinery::meta::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;

crate::api_type!(MultiClusterIngress, "networking.karmada.io", "v1alpha1", "multiclusteringresses", true);

/// An Ingress over several clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterIngress {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Rules as in an Ingress of networking.k8s.io/v1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::IngressSpec")]
    pub spec: Option<Value>,
    /// The state of the load balancer, as in an Ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::MultiClusterIngressStatus")]
    pub status: Option<Value>,
}
