//! Allocation for services: addresses, IP families and node ports. A [`Book`] records the allocated ones; the API
//! server has one and updates it from its store.

use serde_json::{Map, Value, json};

mod book;
mod families;
mod range;
mod update;

pub use book::{Allocation, Book, new_allocations};
pub use range::{ParseRangeError, Range, Ranges};
pub(crate) use update::carry_over;

type Object = Map<String, Value>;

fn text<'a>(spec: &'a Value, name: &str) -> &'a str {
    spec[name].as_str().unwrap_or_default()
}

fn has_addresses(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

/// Whether its ports can have node ports.
fn has_node_ports(spec: &Value) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

/// Whether ports without a node port get one.
fn allocates_node_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// Whether load balancers check the health of its nodes at a port of its own.
fn has_health_checks(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn ports(spec: &mut Value) -> impl Iterator<Item = &mut Object> {
    spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// `clusterIP` is the first of `clusterIPs`; a client may give one of them.
pub(crate) fn normalize(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let single = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = spec.get("clusterIPs").and_then(|list| list[0].as_str()).unwrap_or_default().to_owned();
    match (single.is_empty(), first.is_empty()) {
        (false, true) => drop(spec.insert("clusterIPs".into(), json!([single]))),
        (true, false) => drop(spec.insert("clusterIP".into(), first.into())),
        _ => {}
    }
}

fn as_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
