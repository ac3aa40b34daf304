//! Services, endpoints, and rules of networks.

use apimachinery::field::{Path, go_quoted};
use serde_json::Value;

use super::{Texts, Written, addresses, list, text};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

fn each_address(values: &Value, at: &Path, texts: &mut Texts) {
    for (index, value) in list(values).enumerate() {
        addresses::address(value.as_str().unwrap_or_default(), &at.index(index), texts);
    }
}

/// Addresses in a field of the items of a list.
fn each_address_in(items: &Value, field: &str, at: &Path, texts: &mut Texts) {
    for (index, item) in list(items).enumerate() {
        addresses::address(text(item, field), &at.index(index).child(field), texts);
    }
}

pub(super) fn service(service: &Value, texts: &mut Texts) {
    let (spec, at) = (&service["spec"], Path::new("spec"));
    if Written::has_annotation(service, HINTS) {
        let new = "service.kubernetes.io/topology-mode";
        texts.push(format!("annotation {HINTS} is deprecated, please use {new} instead"));
    }
    let cluster_ip = text(spec, "clusterIP");
    if !matches!(cluster_ip, "" | "None") {
        each_address(&spec["clusterIPs"], &at.child("clusterIPs"), texts);
    }
    let has_external_ips = list(&spec["externalIPs"]).next().is_some();
    if cluster_ip == "None" && spec["type"] == "ClusterIP" {
        let is_used = [
            (!text(spec, "loadBalancerIP").is_empty(), "loadBalancerIP"),
            (has_external_ips, "externalIPs"),
            (spec["sessionAffinity"] != "None", "SessionAffinity"),
        ];
        for (_, field) in is_used.into_iter().filter(|(is_used, _)| *is_used) {
            texts.push(format!("spec.{field} is ignored for headless services"));
        }
    }
    if has_external_ips {
        texts.push("spec.externalIPs is deprecated");
    }
    each_address(&spec["externalIPs"], &at.child("externalIPs"), texts);
    addresses::address(text(spec, "loadBalancerIP"), &at.child("loadBalancerIP"), texts);
    for (index, range) in list(&spec["loadBalancerSourceRanges"]).enumerate() {
        let at = at.child("loadBalancerSourceRanges").index(index);
        addresses::range(range.as_str().unwrap_or_default(), &at, texts);
    }
    let is_external = spec["type"] == "ExternalName";
    if is_external && has_external_ips {
        texts.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if !is_external && !text(spec, "externalName").is_empty() {
        texts.push("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if spec["trafficDistribution"] == "PreferClose" {
        texts.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}

pub(super) fn service_status(service: &Value, texts: &mut Texts) {
    let at = Path::new("status").child("loadBalancer").child("ingress");
    for (index, ingress) in list(&service["status"]["loadBalancer"]["ingress"]).enumerate() {
        addresses::address(text(ingress, "ip"), &at.index(index), texts);
    }
}

pub(super) fn pod_status(pod: &Value, texts: &mut Texts) {
    let at = Path::new("status");
    for field in ["podIPs", "hostIPs"] {
        each_address_in(&pod["status"][field], "ip", &at.child(field), texts);
    }
}

/// Whether a controller writes the object, in canonical form.
fn is_managed(object: &Value, label: &str, controllers: &[&str]) -> bool {
    controllers.contains(&text(&object["metadata"]["labels"], label))
}

pub(super) fn endpoints(endpoints: &Value, texts: &mut Texts) {
    if is_managed(endpoints, "endpoints.kubernetes.io/managed-by", &["endpoint-controller"]) {
        return;
    }
    for (index, subset) in list(&endpoints["subsets"]).enumerate() {
        let at = Path::new("subsets").index(index);
        for field in ["addresses", "notReadyAddresses"] {
            each_address_in(&subset[field], "ip", &at.child(field), texts);
        }
    }
}

pub(super) fn endpoint_slice(written: &Written<'_>, texts: &mut Texts) {
    const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    let slice = written.object;
    if written.old.is_none() && slice["addressType"] == "FQDN" {
        texts.push("spec.addressType: FQDN endpoints are deprecated");
    }
    if is_managed(slice, "endpointslice.kubernetes.io/managed-by", &CONTROLLERS) {
        return;
    }
    for (index, endpoint) in list(&slice["endpoints"]).enumerate() {
        each_address(&endpoint["addresses"], &Path::new("endpoints").index(index).child("addresses"), texts);
    }
}

pub(super) fn policy(policy: &Value, texts: &mut Texts) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(&policy["spec"][direction]).enumerate() {
            let at = Path::new("spec").child(direction).index(index).child(peers);
            for (index, peer) in list(&rule[peers]).enumerate() {
                let (block, at) = (&peer["ipBlock"], at.index(index).child("ipBlock"));
                addresses::range(text(block, "cidr"), &at.child("cidr"), texts);
                for (index, except) in list(&block["except"]).enumerate() {
                    addresses::range(except.as_str().unwrap_or_default(), &at.child("except").index(index), texts);
                }
            }
        }
    }
}

pub(super) fn ingress(ingress: &Value, texts: &mut Texts) {
    if Written::has_annotation(ingress, INGRESS_CLASS) && ingress["spec"]["ingressClassName"].is_null() {
        let annotation = go_quoted(INGRESS_CLASS);
        texts.push(format!("annotation {annotation} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}
