//! Statuses of volumes, claims, quotas, nodes, load balancers and certificate requests.

use std::collections::HashSet;
use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::{Map, Value};

use super::super::at::At;
use super::super::{network, resources};

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// A name that native resources have: without a domain, or of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/')
        || name.split('/').next().is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

/// Only storage is claimed, natively.
fn claimed(name: &str, at: &At<'_>, errors: &mut ErrorList) -> bool {
    let complaints = names::is_qualified_name(name);
    for complaint in &complaints {
        errors.push(Error::invalid(&at.path(), name, complaint.as_str()));
    }
    if !complaints.is_empty() {
        return false;
    }
    let known = !is_native(name) || name == "storage";
    if !known {
        errors.push(Error::not_supported(&at.path(), name, &["storage"]));
    }
    known
}

const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub(super) fn claim(new: &Value, errors: &mut ErrorList) {
    let root = At::root();
    let at = root.child("status");
    let status = &new["status"];
    let at_capacity = at.child("capacity");
    for (name, value) in entries(&status["capacity"]) {
        resources::not_negative(value, &at_capacity.key(name), errors);
    }
    // Upstream's name for it is not the field's.
    let at_resize = at.child("allocatedResourceStatus");
    for (name, value) in entries(&status["allocatedResourceStatuses"]) {
        claimed(name, &at_resize, errors);
        if !value.as_str().is_some_and(|value| RESIZES.contains(&value)) {
            errors.push(Error::not_supported(&at_resize.path(), name.as_str(), &RESIZES));
        }
    }
    let at_allocated = at.child("allocatedResources");
    for (name, value) in entries(&status["allocatedResources"]) {
        if claimed(name, &at_allocated, errors) {
            resources::not_negative(value, &at_allocated.key(name), errors);
        }
    }
}

pub(super) fn quota(new: &Value, errors: &mut ErrorList) {
    let root = At::root();
    let at = root.child("status");
    for part in ["hard", "used"] {
        let at = at.child(part);
        for (name, value) in entries(&new["status"][part]) {
            resources::quota_entry(name, value, &at.key(name), errors);
        }
    }
}

/// Capacity and allocatable resources of a node.
pub(in super::super) fn node_amounts(status: &Value, at: &At<'_>, errors: &mut ErrorList) {
    for part in ["capacity", "allocatable"] {
        let at = at.child(part);
        for (name, value) in entries(&status[part]) {
            resources::check_amount(name, value, &at.child(name), errors);
        }
    }
}

pub(super) fn node(new: &Value, errors: &mut ErrorList) {
    let root = At::root();
    node_amounts(&new["status"], &root.child("status"), errors);
    let mut seen = HashSet::new();
    let path = Path::new("status").child("addresses");
    for (index, address) in new["status"]["addresses"].as_array().into_iter().flatten().enumerate() {
        if !seen.insert((&address["type"], &address["address"])) {
            let shown = format!(r#"{{"Type":{},"Address":{}}}"#, address["type"], address["address"]);
            errors.push(Error::duplicate(&path.index(index), Value::Null).shown_as(shown));
        }
    }
}

/// Where a balancer is reached: of services also how its addresses are to be taken.
pub(super) fn balancer(is_service: bool, new: &Value, errors: &mut ErrorList) {
    let (root, balancer) = (At::root(), &new["status"]["loadBalancer"]["ingress"]);
    let (at, points) = (root.child("status"), balancer.as_array().map_or(&[][..], Vec::as_slice));
    let at = at.child("loadBalancer");
    let at = at.child("ingress");
    if is_service && new["spec"]["type"] != "LoadBalancer" && !points.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        return errors.push(Error::forbidden(&at.path(), detail));
    }
    for (index, point) in points.iter().enumerate() {
        let at = at.index(index);
        let text = |field: &str| point[field].as_str().unwrap_or_default();
        let (address, name) = (text("ip"), text("hostname"));
        if !address.is_empty() {
            network::address(&point["ip"], &at.child("ip"), errors);
        }
        if is_service {
            mode(point, address, &at.child("ipMode").path(), errors);
        }
        if name.is_empty() {
            continue;
        }
        let path = at.child("hostname").path();
        for complaint in names::is_dns1123_subdomain(name) {
            errors.push(Error::invalid(&path, name, complaint));
        }
        if name.parse::<IpAddr>().is_ok() {
            errors.push(Error::invalid(&path, name, "must be a DNS name, not an IP address"));
        }
    }
}

fn mode(point: &Value, address: &str, path: &Path, errors: &mut ErrorList) {
    match point["ipMode"].as_str() {
        None if !address.is_empty() => errors.push(Error::required(path, "must be specified when `ip` is set")),
        Some(_) if address.is_empty() => {
            errors.push(Error::forbidden(path, "may not be specified when `ip` is not set"));
        }
        None | Some("Proxy" | "VIP") => {}
        Some(other) => errors.push(Error::not_supported(path, other, &["Proxy", "VIP"])),
    }
}

/// The approval of a certificate request is final.
pub(super) fn certificate_request(old: &Value, new: &Value, errors: &mut ErrorList) {
    let conditions = |request: &Value| request["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let types = |conditions: &[Value]| -> Vec<String> {
        conditions.iter().map(|condition| condition["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (before, after) = (conditions(old), conditions(new));
    let before = types(&before);
    let had = |type_: &str| before.iter().any(|known| known == type_);
    let repeated = before.iter().enumerate().any(|(index, type_)| before[..index].contains(type_));
    let path = Path::new("status").child("conditions");
    let seen = types(&after);
    for (index, condition) in after.iter().enumerate() {
        let (type_, at) = (seen[index].as_str(), path.index(index));
        if type_.is_empty() && !had("") {
            errors.push(Error::required(&at.child("type"), ""));
        }
        let decides = matches!(type_, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if decides { &["True"] } else { &["False", "True", "Unknown"] };
        match condition["status"].as_str().unwrap_or_default() {
            "" => errors.push(Error::required(&at.child("status"), "")),
            status if !allowed.contains(&status) => {
                errors.push(Error::not_supported(&at.child("status"), status, allowed));
            }
            _ => {}
        }
        let opposite = match type_ {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "-",
        };
        if seen[..index].iter().any(|known| known == opposite) && !(had("Approved") && had("Denied")) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid(&at.child("type"), type_, detail));
        }
        if seen[..index].contains(&seen[index]) && !repeated {
            errors.push(Error::duplicate(&at.child("type"), type_));
        }
    }
    let certificate = &new["status"]["certificate"];
    if certificate != &old["status"]["certificate"]
        && let Some(why) = certificate.as_str().filter(|text| !text.is_empty()).and_then(wrong_certificates)
    {
        let at = Path::new("status").child("certificate");
        errors.push(Error::invalid(&at, "<certificate data>", why));
    }
}

/// Why encoded PEM is not a chain of certificates. Text around the blocks is allowed.
fn wrong_certificates(encoded: &str) -> Option<String> {
    const BEGIN: &str = "-----BEGIN ";
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let (mut rest, mut count) = (&*pem, 0);
    while let Some((_, block)) = rest.split_once(BEGIN) {
        let Some((type_, content)) = block.split_once("-----") else { break };
        let Some((content, after)) = content.split_once(&format!("-----END {type_}-----")) else { break };
        if type_ != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {type_:?}"));
        }
        if content.contains(':') {
            return Some("no PEM block headers are permitted".to_owned());
        }
        let der = STANDARD.decode(content.split_whitespace().collect::<String>()).unwrap_or_default();
        // Certificates are sequences.
        if der.first() != Some(&0x30) {
            return Some("x509: malformed certificate".to_owned());
        }
        (rest, count) = (after, count + 1);
    }
    (count == 0).then(|| "must contain one or more CERTIFICATE PEM blocks".to_owned())
}
