//! Nodes: the object for each shape of a member, and the scheduler's summary of a node.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use apimachinery::meta::{Time, null_as_default};
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::resources::{Amount, Request};
use super::scheduling::Taint;
use crate::options::NodeShape;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub metadata: Meta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(deserialize_with = "null_as_default")]
    unschedulable: bool,
    #[serde(deserialize_with = "null_as_default")]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "null_as_default")]
    allocatable: BTreeMap<String, Amount>,
    #[serde(deserialize_with = "null_as_default")]
    addresses: Vec<Address>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    type_: String,
    address: String,
}

/// A node as the scheduler uses it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFacts {
    pub name: Box<str>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: Request,
    pub pods: i64,
    pub address: Option<Ipv4Addr>,
}

impl From<Node> for NodeFacts {
    fn from(node: Node) -> Self {
        let internal = node.status.addresses.iter().find(|address| address.type_ == "InternalIP");
        Self {
            address: internal.and_then(|address| address.address.parse().ok()),
            name: node.metadata.name.into(),
            labels: node.metadata.labels,
            taints: node.spec.taints,
            unschedulable: node.spec.unschedulable,
            allocatable: Request::of(&node.status.allocatable),
            pods: node.status.allocatable.get("pods").map_or(0, |pods| pods.0.value()),
        }
    }
}

const VERSION: &str = "v1.36.0";

/// The name of a member's `index`th node, counted from 0.
pub(crate) fn name(member: &str, index: usize) -> String {
    format!("{member}-node-{}", index + 1)
}

/// The object of a new node.
pub(crate) fn object(member: &str, index: usize, shape: &NodeShape, now: Time) -> Value {
    let name = name(member, index);
    let [high, low] = u16::try_from(index + 2).unwrap_or(u16::MAX).to_be_bytes();
    let address = Ipv4Addr::new(172, 18, high, low);
    let mut labels = json!({"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
    for (key, value) in &shape.labels {
        labels[key.as_str()] = value.as_str().into();
    }
    let provider = shape.provider.as_ref();
    let spec = provider.map_or_else(|| json!({}), |provider| json!({"providerID": format!("{provider}://{name}")}));
    let resources = json!({"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods.to_string(),
        "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "allocatable": resources,
            "capacity": resources,
            "conditions": conditions(now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "osImage": "karmada member",
                "kernelVersion": "simulated", "containerRuntimeVersion": "simulated://1", "kubeletVersion": VERSION,
                "kubeProxyVersion": VERSION, "machineID": "", "systemUUID": "", "bootID": "",
            },
        },
    })
}

fn conditions(now: Time) -> Value {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    json!([
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}
