//! Services and the slices of their endpoints. Which addresses are free is decided where they are allocated.

use std::collections::HashSet;
use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList};
use serde_json::{Value, json};

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("endpoint_slice", endpoint_slice), ("service_spec", service_spec)];

fn service_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    let ports = list(spec, "ports");
    let at_ports = at.child("ports");
    if ports.is_empty() && !headless && type_ != "ExternalName" {
        required(errors, &at_ports, "");
    }
    service_ports(ports, type_, &at_ports, errors);
    match type_ {
        "ExternalName" => external_name(spec, at, errors),
        "NodePort" | "LoadBalancer" if headless => {
            let detail = format!("may not be set to 'None' for {type_} services");
            invalid(errors, &at.child("clusterIPs").index(0), &"None".into(), &detail);
        }
        _ => addresses(spec, at, errors),
    }
    if type_ != "LoadBalancer" {
        for field in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
            if spec.contains_key(field) {
                forbidden(errors, &at.child(field), "may only be used when `type` is 'LoadBalancer'");
            }
        }
    }
    if type_ != "LoadBalancer" && !list(spec, "loadBalancerSourceRanges").is_empty() {
        let at = at.child("LoadBalancerSourceRanges");
        forbidden(errors, &at, "may only be used when `type` is 'LoadBalancer'");
    }
    let external = matches!(type_, "NodePort" | "LoadBalancer") || !list(spec, "externalIPs").is_empty();
    if let Some(policy) = spec.get("externalTrafficPolicy").filter(|_| !external) {
        let detail = "may only be set for externally-accessible services";
        invalid(errors, &at.child("externalTrafficPolicy"), policy, detail);
    }
    let at_external = at.child("externalIPs");
    for (index, address) in list(spec, "externalIPs").iter().enumerate() {
        if address.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            invalid(errors, &at_external.index(index), address, detail);
        }
    }
    let seconds = spec.get("sessionAffinityConfig").and_then(|config| config["clientIP"]["timeoutSeconds"].as_i64());
    if let Some(seconds) = seconds.filter(|seconds| !(1..=86400).contains(seconds)) {
        let at = at.child("sessionAffinityConfig");
        let at = at.child("clientIP");
        invalid(errors, &at.child("timeoutSeconds"), &seconds.into(), "must be greater than 0 and less than 86400");
    }
}

fn service_ports(ports: &[Value], type_: &str, at: &At<'_>, errors: &mut ErrorList) {
    let (mut places, mut node_ports) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            required(errors, &at.child("name"), "");
        }
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        if let Some(number) = port["port"].as_i64()
            && !places.insert((protocol, number))
        {
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            let place = json!({"protocol": protocol, "port": number});
            errors.push(Error::duplicate(&at.path(), place).shown_as(shown));
        }
        let Some(node_port) = port["nodePort"].as_i64().filter(|port| *port != 0) else { continue };
        if matches!(type_, "ClusterIP" | "ExternalName") {
            let detail = format!("may not be used when `type` is '{type_}'");
            forbidden(errors, &at.child("nodePort"), &detail);
        } else if !node_ports.insert((protocol, node_port)) {
            errors.push(Error::duplicate(&at.child("nodePort").path(), node_port));
        }
    }
}

fn external_name(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = text(spec, "externalName");
    let at_name = at.child("externalName");
    // A trailing dot makes the name absolute.
    let bare = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        required(errors, &at_name, "");
    } else {
        for complaint in apimachinery::names::is_dns1123_subdomain(bare) {
            invalid(errors, &at_name, &name.into(), &complaint);
        }
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.contains_key(field) {
            forbidden(errors, &at.child(field), "may not be set for ExternalName services");
        }
    }
}

fn addresses(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let given = list(spec, "clusterIPs");
    let at_list = at.child("clusterIPs");
    let first = given.first().and_then(Value::as_str).unwrap_or_default();
    let single = text(spec, "clusterIP");
    if !given.is_empty() && first != single {
        let detail = "first value must match `clusterIP`";
        invalid(errors, &at_list, &Value::from(given.to_vec()), detail);
    }
    if given.len() > 2 {
        invalid(errors, &at_list, &Value::from(given.to_vec()), "may only hold up to 2 values");
    }
    let whole: Vec<&str> = if given.is_empty() {
        Some(single).filter(|text| !text.is_empty()).into_iter().collect()
    } else {
        given.iter().filter_map(Value::as_str).collect()
    };
    for (index, address) in whole.iter().enumerate() {
        if *address != "None" && !address.is_empty() && address.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            invalid(errors, &at_list.index(index), &(*address).into(), detail);
        }
    }
    let families = list(spec, "ipFamilies");
    if families.len() == 2 && families[0] == families[1] {
        let at = at.child("ipFamilies");
        errors.push(Error::duplicate(&at.index(1).path(), families[1].clone()));
    }
}

fn endpoint_slice(slice: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(slice, "addressType");
    let at_list = at.child("endpoints");
    for (index, endpoint) in list(slice, "endpoints").iter().enumerate() {
        let at = at_list.index(index);
        let at = at.child("addresses");
        let addresses = endpoint.as_object().map(|endpoint| list(endpoint, "addresses")).unwrap_or_default();
        if addresses.is_empty() {
            required(errors, &at, "must contain at least 1 address");
        }
        for (index, address) in addresses.iter().enumerate() {
            let parsed = address.as_str().and_then(|text| text.parse::<IpAddr>().ok());
            let (fits, detail) = match type_ {
                "IPv4" => (parsed.is_some_and(|ip| ip.is_ipv4()), "must be a valid IPv4 address"),
                "IPv6" => (parsed.is_some_and(|ip| ip.is_ipv6()), "must be a valid IPv6 address"),
                _ => (true, ""),
            };
            if !fits {
                invalid(errors, &at.index(index), address, detail);
            }
        }
    }
    let mut names = HashSet::new();
    let at_list = at.child("ports");
    for (index, port) in list(slice, "ports").iter().enumerate() {
        if !names.insert(port["name"].as_str().unwrap_or_default()) {
            errors.push(Error::duplicate(&at_list.index(index).child("name").path(), port["name"].clone()));
        }
    }
}

/// Addresses of a service stay, unless it changes between having some and having none.
pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let external = |spec: &Value| spec["type"] == "ExternalName";
    let (Some(was), Some(is), false) = (was.as_object(), is.as_object(), external(was) || external(is)) else { return };
    let (before, after) = (list(was, "clusterIPs"), list(is, "clusterIPs"));
    let spec = At::root();
    let spec = spec.child("spec");
    if let (Some(old), Some(new)) = (before.first(), after.first())
        && old != new
    {
        let at = spec.child("clusterIPs");
        invalid(errors, &at.index(0), &Value::from(after.to_vec()), "may not change once set");
    } else if !before.is_empty() && after.is_empty() && object(is, "selector").is_some() {
        let at = spec.child("clusterIPs");
        invalid(errors, &at.index(0), &Value::from(after.to_vec()), "primary clusterIP can not be unset");
    }
}
