//! Services. Allocation decides which addresses are free.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use serde_json::{Value, json};

use super::at::At;
use super::checks::supported;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] =
    &[("service_annotations", service_annotations), ("service_spec", service_spec)];

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
        _ => {}
    }
    if type_ != "ExternalName" {
        addresses(spec, at, errors);
    }
    balancer(spec, type_, at, errors);
    traffic(spec, type_, at, errors);
    affinity(spec, at, errors);
    let at_external = at.child("externalIPs");
    for (index, address) in list(spec, "externalIPs").iter().enumerate() {
        let at = at_external.index(index);
        if super::network::address(address, &at, errors) {
            super::machinery::callable_address(address, &at, errors);
        }
    }
}

/// Annotations of services that were replaced by fields.
fn service_annotations(service: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const MODE: &str = "service.kubernetes.io/topology-mode";
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let annotations = object(service, "metadata").and_then(|metadata| object(metadata, "annotations"));
    let (Some(annotations), Some(spec)) = (annotations, object(service, "spec")) else { return };
    let at = at.child("metadata");
    let at = at.child("annotations");
    if let (Some(mode), Some(hints)) = (annotations.get(MODE), annotations.get(HINTS))
        && mode != hints
    {
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        invalid(errors, &at.key(MODE), mode, &detail);
    }
    if !list(spec, "loadBalancerSourceRanges").is_empty() || !annotations.contains_key(RANGES) {
        return;
    }
    let at = at.key(RANGES);
    if text(spec, "type") != "LoadBalancer" {
        forbidden(errors, &at, "may only be used when `type` is 'LoadBalancer'");
    }
    let ranges = text(annotations, RANGES).trim();
    for range in ranges.split(',').filter(|_| !ranges.is_empty()) {
        super::network::block(&range.trim().into(), &at, errors);
    }
}

fn balancer(spec: &Object, type_: &str, at: &At<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "may only be used when `type` is 'LoadBalancer'";
    let ranges = list(spec, "loadBalancerSourceRanges");
    let at_ranges = at.child("LoadBalancerSourceRanges");
    if type_ != "LoadBalancer" {
        for field in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
            if spec.contains_key(field) {
                forbidden(errors, &at.child(field), DETAIL);
            }
        }
        if !ranges.is_empty() {
            forbidden(errors, &at_ranges, DETAIL);
        }
    } else if let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) {
        for complaint in apimachinery::names::is_qualified_name(class) {
            invalid(errors, &at.child("loadBalancerClass"), &class.into(), &complaint);
        }
    }
    for (index, range) in ranges.iter().enumerate() {
        let range = Value::from(range.as_str().unwrap_or_default().trim());
        super::network::block(&range, &at_ranges.index(index), errors);
    }
}

/// External traffic policies, and the health checks of load balancers.
fn traffic(spec: &Object, type_: &str, at: &At<'_>, errors: &mut ErrorList) {
    let reachable =
        matches!(type_, "NodePort" | "LoadBalancer") || type_ == "ClusterIP" && !list(spec, "externalIPs").is_empty();
    let policy = text(spec, "externalTrafficPolicy");
    let at_policy = at.child("externalTrafficPolicy");
    if !reachable {
        if !policy.is_empty() {
            invalid(errors, &at_policy, &policy.into(), "may only be set for externally-accessible services");
        }
    } else if policy.is_empty() {
        required(errors, &at_policy, "");
    } else {
        supported(&policy.into(), &["Cluster", "Local"], &at_policy, errors);
    }
    let port = spec.get("healthCheckNodePort").filter(|port| *port != 0);
    if let Some(port) = port {
        let at = at.child("healthCheckNodePort");
        if type_ != "LoadBalancer" || policy != "Local" {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            invalid(errors, &at, port, detail);
        } else {
            super::checks::port(port, &at, errors);
        }
    }
}

/// The maximum session affinity: a day, in seconds.
const MAX_AFFINITY: i64 = 86_400;

fn affinity(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let config = object(spec, "sessionAffinityConfig");
    let at_config = at.child("sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let seconds = config.and_then(|config| config.get("clientIP")).and_then(|ip| ip["timeoutSeconds"].as_i64());
            if let Some(seconds) = seconds.filter(|seconds| !(1..=MAX_AFFINITY).contains(seconds)) {
                let at = at_config.child("clientIP");
                let detail = format!("must be greater than 0 and less than {MAX_AFFINITY}");
                invalid(errors, &at.child("timeoutSeconds"), &seconds.into(), &detail);
            }
        }
        "None" if config.is_some() => {
            forbidden(errors, &at_config, "must not be set when session affinity is None");
        }
        _ => {}
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
        let number = port["port"].as_i64().unwrap_or(0);
        if !places.insert((protocol, number)) {
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            let place = json!({"protocol": protocol, "port": number});
            errors.push(Error::duplicate(&at.path(), place).shown_as(shown));
        }
        let Some(node_port) = port["nodePort"].as_i64().filter(|port| *port != 0) else { continue };
        if type_ == "ClusterIP" {
            forbidden(errors, &at.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if !node_ports.insert((protocol, node_port)) {
            errors.push(Error::duplicate(&at.child("nodePort").path(), node_port));
        }
    }
}

fn external_name(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        // Errors about a list derived from `clusterIP` name the list.
        let specified = spec.contains_key(field) || field == "clusterIPs" && !text(spec, "clusterIP").is_empty();
        if specified {
            forbidden(errors, &at.child(field), "may not be set for ExternalName services");
        }
    }
    // A trailing dot makes the name absolute.
    let name = text(spec, "externalName");
    let bare = name.strip_suffix('.').unwrap_or(name);
    let at_name = at.child("externalName");
    if bare.is_empty() {
        required(errors, &at_name, "");
    } else {
        for complaint in apimachinery::names::is_dns1123_subdomain(bare) {
            invalid(errors, &at_name, &bare.into(), &complaint);
        }
    }
}

/// Errors in the requested cluster IPs and their families, before any address is allocated.
pub(crate) fn requested_addresses(spec: &Object) -> ErrorList {
    let (root, mut errors) = (At::root(), ErrorList::new());
    addresses(spec, &root.child("spec"), &mut errors);
    errors
}

fn addresses(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let specified = list(spec, "clusterIPs");
    let at_list = at.child("clusterIPs");
    let first = specified.first().and_then(Value::as_str).unwrap_or_default();
    let single = text(spec, "clusterIP");
    let all = Value::from(specified.to_vec());
    if single.is_empty() && !specified.is_empty() {
        invalid(errors, &at_list, &all, "must be empty when `clusterIP` is not specified");
    } else if !specified.is_empty() && first != single {
        invalid(errors, &at_list, &all, "first value must match `clusterIP`");
    }
    let families = list(spec, "ipFamilies");
    let at_families = at.child("ipFamilies");
    for (index, family) in families.iter().enumerate() {
        let at = at_families.index(index);
        supported(family, &["IPv4", "IPv6"], &at, errors);
        if families[..index].contains(family) {
            errors.push(Error::duplicate(&at.path(), family.clone()));
        }
    }
    if let Some(policy) = spec.get("ipFamilyPolicy") {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        supported(policy, &known, &at.child("ipFamilyPolicy"), errors);
    }
    let one = [Value::from(single)];
    let whole = if specified.is_empty() && !single.is_empty() { &one[..] } else { specified };
    let before = errors.len();
    for (index, address) in whole.iter().enumerate() {
        if index == 0 && address == "None" {
            if whole.len() > 1 {
                invalid(errors, &at_list, &all, "'None' must be the first and only value");
            }
            continue;
        }
        super::network::address(address, &at_list.index(index), errors);
    }
    if whole.len() > 2 {
        invalid(errors, &at_list, &all, "may only hold up to 2 values");
    }
    if errors.len() == before {
        families_of(whole, families, &at_list, errors);
    }
}

/// One address for each family, in the order of the families.
fn families_of(addresses: &[Value], families: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let is_v6 = |address: &Value| address.as_str().is_some_and(|text| text.contains(':'));
    if let [first, second] = addresses
        && is_v6(first) == is_v6(second)
    {
        let detail = "may specify no more than one IP for each IP family";
        invalid(errors, at, &Value::from(addresses.to_vec()), detail);
    }
    if addresses.first().is_some_and(|address| address == "None") {
        return;
    }
    for (index, (address, family)) in addresses.iter().zip(families).enumerate() {
        if is_v6(address) != (family == "IPv6") {
            let family = family.as_str().unwrap_or_default();
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            invalid(errors, &at.index(index), address, &detail);
        }
    }
}

/// Cluster IPs and their families are immutable, except that the second ones come and go, and unless the service changes
/// between having and not having any; the class and the health check port of a load balancer are immutable.
pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (Some(was), Some(is)) = (old["spec"].as_object(), new["spec"].as_object()) else { return };
    let at = At::root();
    let at = at.child("spec");
    if text(was, "type") != "ExternalName" && text(is, "type") != "ExternalName" {
        addresses_update(was, is, &at, errors);
    }
    if text(was, "type") != "LoadBalancer" || text(is, "type") != "LoadBalancer" {
        return;
    }
    let class = |spec: &Object| spec.get("loadBalancerClass").cloned().unwrap_or_default();
    if class(was) != class(is) {
        invalid(errors, &at.child("loadBalancerClass"), &class(is), "may not change once set");
    }
    let is_checked = |spec: &Object| text(spec, "externalTrafficPolicy") == "Local";
    let port = |spec: &Object| spec.get("healthCheckNodePort").cloned().unwrap_or_default();
    if is_checked(was) && is_checked(is) && !port(was).is_null() && port(was) != port(is) {
        invalid(errors, &at.child("healthCheckNodePort"), &port(is), "field is immutable");
    }
}

fn addresses_update(was: &Object, is: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let is_headless = |spec: &Object| list(spec, "clusterIPs").first().is_some_and(|first| first == "None");
    let (before, after) = (list(was, "clusterIPs"), list(is, "clusterIPs"));
    if is_headless(was) && is_headless(is) {
        return;
    }
    let all = Value::from(after.to_vec());
    let at_list = at.child("clusterIPs");
    for (index, _) in before.iter().zip(after).enumerate().filter(|(_, (old, new))| old != new) {
        if index == 0 || before.len() == after.len() {
            invalid(errors, &at_list.index(index), &all, "may not change once set");
        }
    }
    if !before.is_empty() && after.is_empty() && object(is, "selector").is_some() {
        invalid(errors, &at_list.index(0), &all, "primary clusterIP can not be unset");
    }
    if is_headless(was) != is_headless(is) {
        return;
    }
    let (before, after) = (list(was, "ipFamilies"), list(is, "ipFamilies"));
    for (index, _) in before.iter().zip(after).enumerate().filter(|(_, (old, new))| old != new) {
        if index == 0 || before.len() == after.len() {
            let at = at.child("ipFamilies");
            invalid(errors, &at.index(0), &Value::from(after.to_vec()), "may not change once set");
        }
    }
}
