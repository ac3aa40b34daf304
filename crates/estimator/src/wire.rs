//! The messages. Field numbers are the contract. Fields named `legacy_` contain the values up to release 1.17: they are
//! read when the bytes are empty, and never written.

use std::collections::BTreeMap;

use prost::Message;

pub const MAX_AVAILABLE_REPLICAS: &str =
    "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator/MaxAvailableReplicas";
pub const MAX_AVAILABLE_COMPONENT_SETS: &str =
    "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator/MaxAvailableComponentSets";
pub const GET_UNSCHEDULABLE_REPLICAS: &str =
    "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator/GetUnschedulableReplicas";

#[derive(Clone, PartialEq, Message)]
pub struct Quantity {
    #[prost(string, tag = "1")]
    pub text: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Toleration {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub operator: String,
    #[prost(string, tag = "3")]
    pub value: String,
    #[prost(string, tag = "4")]
    pub effect: String,
    #[prost(int64, optional, tag = "5")]
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeSelectorRequirement {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub operator: String,
    #[prost(string, repeated, tag = "3")]
    pub values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "1")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    #[prost(message, repeated, tag = "2")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    pub terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeClaim {
    #[prost(message, optional, tag = "1")]
    pub legacy_affinity: Option<NodeSelector>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub node_selector: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    pub legacy_tolerations: Vec<Toleration>,
    #[prost(bytes = "vec", tag = "4")]
    pub node_affinity: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub tolerations: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub node_claim: Option<NodeClaim>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub legacy_request: BTreeMap<String, Quantity>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub priority_class_name: String,
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub resource_request: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ComponentReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub node_claim: Option<NodeClaim>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub legacy_request: BTreeMap<String, Quantity>,
    #[prost(string, tag = "3")]
    pub priority_class_name: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub resource_request: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Component {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
    #[prost(int32, tag = "3")]
    pub replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct AssumedWorkload {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(message, repeated, tag = "2")]
    pub components: Vec<Component>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MaxAvailableReplicasRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, optional, tag = "2")]
    pub replica_requirements: Option<ReplicaRequirements>,
    #[prost(message, repeated, tag = "3")]
    pub assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MaxAvailableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub max_replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct MaxAvailableComponentSetsRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, repeated, tag = "2")]
    pub components: Vec<Component>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MaxAvailableComponentSetsResponse {
    #[prost(int32, tag = "1")]
    pub max_sets: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ObjectReference {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnschedulableReplicasRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, optional, tag = "2")]
    pub resource: Option<ObjectReference>,
    /// Nanoseconds.
    #[prost(int64, tag = "3")]
    pub unschedulable_threshold: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnschedulableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub unschedulable_replicas: i32,
}
