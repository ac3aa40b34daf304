//! Allocation for services: addresses, IP families and node ports. A [`Book`] records the allocated ones; the API
//! server has one and updates it from its store.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value, json};

mod book;
mod range;

pub use book::{Allocation, Book, new_allocations};
pub use range::{ParseRangeError, Range, Ranges};

type Object = Map<String, Value>;

fn text<'a>(spec: &'a Value, name: &str) -> &'a str {
    spec[name].as_str().unwrap_or_default()
}

fn has_addresses(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn has_node_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
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

/// Completes an update: omitted fields keep their stored values, and values that the new type does not support are
/// removed unless the client sets them.
pub(crate) fn carry_over(old: &Value, service: &mut Value) {
    let was = &old["spec"];
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if has_addresses(was) && has_addresses(spec) {
        if text(spec, "clusterIP") != text(was, "clusterIP") && spec["clusterIPs"] == was["clusterIPs"] {
            remove(spec, "clusterIPs");
        }
        if text(spec, "clusterIP").is_empty() && spec["clusterIPs"].is_null() {
            keep(spec, was, "clusterIP");
            keep(spec, was, "clusterIPs");
        }
        keep(spec, was, "ipFamilies");
        keep(spec, was, "ipFamilyPolicy");
    }
    if !has_addresses(spec) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            remove_same(spec, was, field);
        }
    }
    if text(spec, "type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"] {
            remove_same(spec, was, field);
        }
    } else {
        keep(spec, was, "healthCheckNodePort");
    }
    if !matches!(text(spec, "type"), "NodePort" | "LoadBalancer") && spec["externalIPs"].is_null() {
        remove_same(spec, was, "externalTrafficPolicy");
    }
    let (keeps, uses) =
        (has_node_ports(was) && has_node_ports(spec), matches!(text(spec, "type"), "NodePort" | "LoadBalancer"));
    for port in ports(spec) {
        let same = |old: &&Value| {
            let protocol = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("TCP").to_owned();
            old.get("port") == port.get("port") && protocol(old.get("protocol")) == protocol(port.get("protocol"))
        };
        let Some(before) = was["ports"].as_array().into_iter().flatten().find(same).and_then(|old| old.get("nodePort"))
        else {
            continue;
        };
        if keeps && !port.contains_key("nodePort") {
            port.insert("nodePort".into(), before.clone());
        } else if !uses && port.get("nodePort") == Some(before) {
            port.remove("nodePort");
        }
    }
    normalize(service);
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

/// Decides the families of a service that needs addresses.
fn families(spec: &mut Value, ranges: &Ranges) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    let (first, second) = (ranges.primary.family(), ranges.secondary.as_ref().map(Range::family));
    for (index, family) in spec["ipFamilies"].as_array().into_iter().flatten().enumerate() {
        if family != first && second.is_none_or(|second| family != second) {
            let at = path.child("ipFamilies").index(index);
            errors.push(Error::invalid(&at, family.clone(), "not configured on this cluster"));
        }
    }
    let no_pods = text(spec, "clusterIP") == "None" && spec["selector"].as_object().is_none_or(Map::is_empty);
    if text(spec, "ipFamilyPolicy").is_empty() {
        let count = |field: &str| spec[field].as_array().map_or(0, Vec::len);
        let both = count("ipFamilies") == 2 || count("clusterIPs") == 2;
        // Without a selector, addresses may be of either family.
        let policy = if both || no_pods { "RequireDualStack" } else { "SingleStack" };
        spec["ipFamilyPolicy"] = policy.into();
    }
    let policy = text(spec, "ipFamilyPolicy").to_owned();
    if policy == "RequireDualStack" && second.is_none() && !no_pods {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&path.child("ipFamilyPolicy"), policy.as_str(), detail));
    }
    let mut list: Vec<String> = spec["ipFamilies"].as_array().into_iter().flatten().filter_map(as_text).collect();
    if list.is_empty() {
        let addresses = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(as_text);
        list = addresses.filter_map(|text| Some(range::family_of(&text.parse().ok()?).to_owned())).collect();
    }
    if list.is_empty() {
        list.push(first.to_owned());
    }
    let wants_both = policy == "RequireDualStack" || policy == "PreferDualStack" && second.is_some();
    if wants_both && list.len() == 1 {
        list.push(if list[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
    }
    spec["ipFamilies"] = list.into();
    errors
}

fn as_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
