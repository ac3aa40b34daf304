//! A pod as plans use it, and the pods that controllers create.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use apimachinery::ObjectKey;
use apimachinery::meta::{Time, null_as_default};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meta::Meta;
use super::resources::{Amount, Request, Requirements};
use super::scheduling::{Affinity, Toleration};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub node_name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub scheduler_name: String,
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub overhead: BTreeMap<String, Amount>,
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub affinity: Affinity,
    #[serde(deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "null_as_default")]
    pub scheduling_gates: Vec<Value>,
    #[serde(deserialize_with = "null_as_default")]
    pub host_network: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub image: String,
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Requirements,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ContainerPort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub container_port: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub phase: String,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<PodCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(deserialize_with = "null_as_default")]
    pub reason: String,
    #[serde(deserialize_with = "null_as_default")]
    pub message: String,
    pub last_transition_time: Option<Time>,
}

impl Pod {
    /// Whether all its containers have terminated and will not restart.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// The ports that its containers name.
    pub fn named_ports(&self) -> BTreeMap<String, i64> {
        let ports = self.spec.containers.iter().flat_map(|container| &container.ports);
        let named = ports.filter(|port| !port.name.is_empty());
        named.map(|port| (port.name.clone(), port.container_port)).collect()
    }

    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// The summary of a pod for everything but the kubelet; kept for every pod of the member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodFacts {
    pub key: ObjectKey,
    pub uid: Box<str>,
    pub revision: u64,
    /// The uid of its controller.
    pub owner: Option<Box<str>>,
    pub created: Option<Time>,
    /// Empty while it is not scheduled.
    pub node: Box<str>,
    pub request: Request,
    pub phase: Phase,
    /// Since when it has been ready.
    pub ready_since: Option<Time>,
    pub deleting: bool,
    pub ip: Option<Ipv4Addr>,
    /// The label that distinguishes pods of different templates.
    pub template_hash: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// The labels by which controllers distinguish pods of different templates.
const TEMPLATE_LABELS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

impl PodFacts {
    pub fn new(pod: &Pod) -> Self {
        let ready = pod.condition("Ready").filter(|condition| condition.status == "True");
        let hash = TEMPLATE_LABELS.iter().find_map(|label| pod.metadata.labels.get(*label));
        Self {
            key: pod.metadata.key(),
            uid: pod.metadata.uid.as_str().into(),
            revision: pod.metadata.resource_version.parse().unwrap_or(0),
            owner: pod.metadata.controller().map(|owner| owner.uid.as_str().into()),
            created: pod.metadata.creation_timestamp,
            node: pod.spec.node_name.as_str().into(),
            request: Request::of_pod(&pod.spec),
            phase: match pod.status.phase.as_str() {
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Pending,
            },
            ready_since: ready.and_then(|condition| condition.last_transition_time.or(pod.metadata.creation_timestamp)),
            deleting: pod.metadata.is_deleting(),
            ip: pod.status.pod_ip.as_ref().and_then(|ip| ip.parse().ok()),
            template_hash: hash.map(String::as_str).unwrap_or_default().into(),
        }
    }

    /// The properties that its controller and its services use.
    pub fn shown(&self) -> impl PartialEq + use<> {
        (self.phase, self.ready_since, self.deleting, self.ip, self.node.clone())
    }

    /// Whether its controller counts it: neither ended nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.deleting && !self.is_terminal()
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some() && !self.is_terminal()
    }

    /// Since when it has been available: `min_ready_seconds` after it became ready; may be in the future.
    pub fn available_since(&self, min_ready_seconds: i64) -> Option<jiff::Timestamp> {
        let since = self.ready_since.filter(|_| self.is_ready())?;
        Some(since.timestamp() + jiff::SignedDuration::from_secs(min_ready_seconds))
    }
}

/// A pod from a controller's template. `labels` are added to the template's.
pub(crate) fn from_template(
    template: &Value,
    owner: &Meta,
    api_version: &str,
    kind: &str,
    labels: &[(&str, &str)],
) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field).filter(|value| !value.is_null()) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut metadata = Value::Object(metadata);
    metadata["namespace"] = owner.namespace.as_str().into();
    metadata["generateName"] = format!("{}-", owner.name).into();
    metadata["ownerReferences"] = owner.owned_by_this(api_version, kind);
    for (key, value) in labels {
        metadata["labels"][*key] = (*value).into();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}
