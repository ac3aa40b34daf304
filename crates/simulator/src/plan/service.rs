//! Services: an EndpointSlice for each, with the pods that its selector matches.

use std::collections::BTreeMap;

use apimachinery::Object;
use apimachinery::meta::null_as_default;
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::{Meta, key_of};
use super::pod::{Phase, PodFacts};
use super::{Action, Kind, Plan};

pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The API's limit of endpoints per slice; for a service with more pods the first ones are listed.
const MOST_ENDPOINTS: usize = 1000;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    type_: String,
    #[serde(rename = "clusterIP", deserialize_with = "null_as_default")]
    cluster_ip: String,
    #[serde(deserialize_with = "null_as_default")]
    selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "null_as_default")]
    publish_not_ready_addresses: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    protocol: Option<String>,
    app_protocol: Option<String>,
    port: i64,
    target_port: Value,
}

/// A pod that the service selects.
pub(crate) struct Backend<'b> {
    pub facts: &'b PodFacts,
    pub zone: Option<&'b str>,
    /// The ports that its containers name.
    pub ports: BTreeMap<String, i64>,
}

impl Service {
    /// Whether it has a selector that matches the pod's labels.
    pub fn selects(&self, pod: &Object) -> bool {
        self.selects_any() && self.spec.selector.iter().all(|(key, value)| pod.label(key) == Some(value))
    }

    pub fn selects_any(&self) -> bool {
        !self.spec.selector.is_empty() && self.spec.type_ != "ExternalName"
    }
}

/// `slices` are those with the service's name.
pub(crate) fn plan(service: &Service, backends: &[Backend<'_>], slices: &[Value]) -> Plan {
    if service.metadata.is_deleting() {
        return Plan::nothing();
    }
    let managed: Vec<&Value> =
        slices.iter().filter(|slice| slice["metadata"]["labels"][MANAGED_BY] == MANAGER).collect();
    let (kept, surplus) = managed.split_at(usize::from(service.selects_any() && !managed.is_empty()));
    let mut actions: Vec<Action> = surplus.iter().map(|slice| delete(slice)).collect();
    if service.selects_any() {
        let desired = desired(service, backends);
        match kept.first() {
            None => actions.push(Action::Create(Kind::EndpointSlice, new(service, desired))),
            Some(slice) => actions.extend(changed(slice, &desired)),
        }
    }
    Plan { actions, again: None }
}

fn changed(slice: &Value, desired: &Value) -> Option<Action> {
    let (endpoints, ports) = (&desired["endpoints"], &desired["ports"]);
    let version = &slice["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version}, "endpoints": endpoints, "ports": ports});
    let differs = slice["endpoints"] != *endpoints || slice["ports"] != *ports;
    differs.then(|| Action::Patch(Kind::EndpointSlice, key_of(slice), patch))
}

fn delete(slice: &Value) -> Action {
    let uid = slice["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    Action::Delete { kind: Kind::EndpointSlice, key: key_of(slice), uid, now: false }
}

fn desired(service: &Service, backends: &[Backend<'_>]) -> Value {
    let with_address = backends.iter().filter(|backend| backend.facts.ip.is_some() && !backend.facts.is_terminal());
    let endpoints: Vec<Value> = with_address.take(MOST_ENDPOINTS).map(|backend| endpoint(service, backend)).collect();
    let named = backends.iter().map(|backend| &backend.ports).find(|ports| !ports.is_empty());
    let ports: Vec<Value> = service.spec.ports.iter().filter_map(|port| self::port(port, named)).collect();
    json!({"endpoints": endpoints, "ports": ports})
}

fn endpoint(service: &Service, backend: &Backend<'_>) -> Value {
    let PodFacts { key, uid, ip, node, deleting, phase, .. } = backend.facts;
    let serving = backend.facts.is_ready() && *phase == Phase::Running;
    let ready = (serving && !deleting) || service.spec.publish_not_ready_addresses;
    let mut endpoint = json!({
        "addresses": [ip],
        "conditions": {"ready": ready, "serving": serving || ready, "terminating": deleting},
        "nodeName": node,
        "targetRef": {"kind": "Pod", "namespace": key.namespace(), "name": key.name(), "uid": uid},
    });
    if let Some(zone) = backend.zone {
        endpoint["zone"] = zone.into();
    }
    endpoint
}

/// A named port that no container has is omitted.
fn port(port: &Port, named: Option<&BTreeMap<String, i64>>) -> Option<Value> {
    let number = match &port.target_port {
        Value::Number(number) => number.as_i64()?,
        Value::String(name) if !name.is_empty() => match name.parse() {
            Ok(number) => number,
            Err(_) => *named?.get(name)?,
        },
        _ => port.port,
    };
    let mut shown = json!({"name": port.name, "port": number, "protocol": port.protocol.as_deref().unwrap_or("TCP")});
    if let Some(protocol) = &port.app_protocol {
        shown["appProtocol"] = protocol.as_str().into();
    }
    Some(shown)
}

fn new(service: &Service, mut slice: Value) -> Value {
    let mut labels = json!(service.metadata.labels);
    labels[SERVICE_NAME] = service.metadata.name.as_str().into();
    labels[MANAGED_BY] = MANAGER.into();
    if service.spec.cluster_ip == "None" {
        labels["service.kubernetes.io/headless"] = "".into();
    }
    slice["apiVersion"] = "discovery.k8s.io/v1".into();
    slice["kind"] = "EndpointSlice".into();
    slice["addressType"] = "IPv4".into();
    slice["metadata"] = json!({
        "generateName": format!("{}-", service.metadata.name), "namespace": service.metadata.namespace,
        "labels": labels, "ownerReferences": service.metadata.owned_by_this("v1", "Service"),
    });
    slice
}
