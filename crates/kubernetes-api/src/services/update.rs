//! Fields that an update of a service omits, and fields that its new type does not have.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{has_addresses, has_health_checks, has_node_ports, normalize, ports, text};

/// Completes an update: omitted fields keep their stored values, and values that the new type does not support are
/// removed unless the client sets them.
pub(crate) fn carry_over(old: &Value, service: &mut Value) {
    let was = &old["spec"];
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    drop_by_type(was, spec);
    keep_addresses(was, spec);
    if has_node_ports(was) && has_node_ports(spec) {
        keep_node_ports(was, spec);
    }
    if has_health_checks(was) && has_health_checks(spec) {
        keep(spec, was, "healthCheckNodePort");
    }
    let is_balanced = text(spec, "type") == "LoadBalancer";
    if let Some(status) = service.get_mut("status").and_then(Value::as_object_mut).filter(|_| !is_balanced) {
        status.insert("loadBalancer".into(), json!({}));
    }
    normalize(service);
}

fn is_externally_accessible(spec: &Value) -> bool {
    let has_external = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    has_node_ports(spec) || text(spec, "type") == "ClusterIP" && has_external
}

fn drop_by_type(was: &Value, spec: &mut Value) {
    if has_addresses(was) && !has_addresses(spec) {
        if spec["clusterIP"] == was["clusterIP"] && spec["clusterIPs"] == was["clusterIPs"] {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        remove_same(spec, was, "ipFamilies");
        remove_same(spec, was, "ipFamilyPolicy");
    }
    if has_node_ports(was) && !has_node_ports(spec) && node_ports(spec).is_subset(&node_ports(was)) {
        ports(spec).for_each(|port| drop(port.remove("nodePort")));
    }
    if has_health_checks(was) && !has_health_checks(spec) {
        remove_same(spec, was, "healthCheckNodePort");
    }
    if text(was, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        remove_same(spec, was, "allocateLoadBalancerNodePorts");
        remove_same(spec, was, "loadBalancerClass");
    }
    if is_externally_accessible(was) && !is_externally_accessible(spec) {
        remove_same(spec, was, "externalTrafficPolicy");
    }
}

fn keep_addresses(was: &Value, spec: &mut Value) {
    if !has_addresses(was) || !has_addresses(spec) {
        return;
    }
    if text(spec, "clusterIP") != text(was, "clusterIP") && spec["clusterIPs"] == was["clusterIPs"] {
        remove(spec, "clusterIPs");
    }
    if text(spec, "clusterIP").is_empty() && spec["clusterIPs"].is_null() {
        keep(spec, was, "clusterIP");
        keep(spec, was, "clusterIPs");
    }
    if text(spec, "clusterIP") == text(was, "clusterIP") {
        keep(spec, was, "clusterIPs");
    }
    keep(spec, was, "ipFamilies");
    keep(spec, was, "ipFamilyPolicy");
    if text(spec, "ipFamilyPolicy") == "SingleStack" {
        // Unchanged lists lose what the new policy does not permit.
        for field in ["clusterIPs", "ipFamilies"] {
            let is_same = spec[field] == was[field];
            if let Some(list) = spec.get_mut(field).and_then(Value::as_array_mut).filter(|_| is_same) {
                list.truncate(1);
            }
        }
    }
}

/// Ports keep their node ports by name, whatever else has changed, unless another port has taken them.
fn keep_node_ports(was: &Value, spec: &mut Value) {
    let taken = &node_ports(was) & &node_ports(spec);
    let name = |port: Option<&Value>| port.and_then(Value::as_str).unwrap_or_default().to_owned();
    let before = was["ports"].as_array().into_iter().flatten();
    let before: HashMap<String, u64> =
        before.filter_map(|port| Some((name(port.get("name")), port["nodePort"].as_u64()?))).collect();
    for port in ports(spec) {
        let is_set = port.get("nodePort").and_then(Value::as_u64).is_some_and(|number| number != 0);
        let known = before.get(&name(port.get("name"))).filter(|known| !is_set && !taken.contains(known));
        if let Some(known) = known {
            port.insert("nodePort".into(), (*known).into());
        }
    }
}

fn node_ports(spec: &Value) -> HashSet<u64> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_u64().filter(|number| *number != 0)).collect()
}

fn remove(spec: &mut Value, field: &str) {
    if let Some(spec) = spec.as_object_mut() {
        spec.remove(field);
    }
}

fn remove_same(spec: &mut Value, was: &Value, field: &str) {
    if spec.get(field) == was.get(field) {
        remove(spec, field);
    }
}

fn keep(spec: &mut Value, was: &Value, field: &str) {
    if spec[field].is_null()
        && let Some(value) = was.get(field)
    {
        spec[field] = value.clone();
    }
}
