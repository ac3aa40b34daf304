//! Status of pods, written by kubelets and simulated members.

use std::collections::HashSet;
use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::{Map, Value};

use super::super::at::At;
use super::super::{items, network, update::pod_annotations};

pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    pod_annotations(old, new, errors);
    let (was, is) = (&old["status"], &new["status"]);
    conditions(is, errors);
    let path = Path::new("status");
    let name = is["nominatedNodeName"].as_str().unwrap_or_default();
    if was["nominatedNodeName"] != is["nominatedNodeName"] && !name.is_empty() {
        for complaint in names::is_dns1123_subdomain(name) {
            errors.push(Error::invalid(&path.child("nominatedNodeName"), name, complaint));
        }
    }
    if was["qosClass"] != is["qosClass"] {
        let class = is["qosClass"].as_str().unwrap_or_default();
        errors.push(Error::invalid(&path.child("qosClass"), class, "field is immutable"));
    }
    let spec = &old["spec"];
    let policy = spec["restartPolicy"].as_str().unwrap_or("Always");
    for (field, policy) in [
        ("containerStatuses", policy),
        ("initContainerStatuses", policy),
        // Ephemeral containers are never restarted.
        ("ephemeralContainerStatuses", "Never"),
    ] {
        restarts(was, is, field, policy, spec, errors);
    }
    claims(new, errors);
    addresses(is, "podIPs", errors);
    let first = is["hostIPs"][0]["ip"].as_str();
    if let Some(first) = first.filter(|first| is["hostIP"] != *first) {
        let at = path.child("hostIPs").index(0).child("ip");
        errors.push(Error::invalid(&at, first, "must be equal to `hostIP`"));
    }
    addresses(is, "hostIPs", errors);
    resources(new, errors);
}

/// Upstream's path is in `metadata`.
fn conditions(status: &Value, errors: &mut ErrorList) {
    let path = Path::new("metadata").child("conditions");
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let type_ = condition["type"].as_str().unwrap_or_default();
        for complaint in names::is_qualified_name(type_) {
            errors.push(Error::invalid(&path.index(index).child("Type"), type_, complaint));
        }
    }
}

/// A terminated container that is not restarted stays terminated.
fn restarts(was: &Value, is: &Value, field: &str, policy: &str, spec: &Value, errors: &mut ErrorList) {
    if policy == "Always" {
        return;
    }
    let path = Path::new("status").child(field);
    for (index, before) in items(was, field).iter().enumerate() {
        let Some(ended) = before["state"]["terminated"].as_object() else { continue };
        let failed = ended.get("exitCode").and_then(Value::as_i64).unwrap_or(0) != 0;
        let list = if field == "initContainerStatuses" { "initContainers" } else { "containers" };
        let container = items(spec, list).iter().find(|container| container["name"] == before["name"]);
        let own = container.is_some_and(|container| match field {
            "ephemeralContainerStatuses" => false,
            _ => container["restartPolicy"] == "Always" || !items(container, "restartPolicyRules").is_empty(),
        });
        if failed && policy == "OnFailure" || own {
            continue;
        }
        let goes_on = |after: &&Value| after["name"] == before["name"] && !after["state"]["terminated"].is_object();
        for _ in items(is, field).iter().filter(goes_on) {
            let at = path.index(index).child("state");
            errors.push(Error::forbidden(&at, "may not be transitioned to non-terminated state"));
        }
    }
}

fn claims(pod: &Value, errors: &mut ErrorList) {
    let path = Path::new("status").child("resourceClaimStatuses");
    let mut seen = HashSet::new();
    for (index, status) in items(&pod["status"], "resourceClaimStatuses").iter().enumerate() {
        let at = path.index(index).child("name");
        let name = status["name"].as_str().unwrap_or_default();
        if !items(&pod["spec"], "resourceClaims").iter().any(|claim| claim["name"] == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid(&at, name, detail));
        }
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at, name));
        }
        if let Some(claim) = status["resourceClaimName"].as_str() {
            for complaint in names::is_dns1123_subdomain(claim) {
                errors.push(Error::invalid(&at, claim, complaint));
            }
        }
    }
}

/// At most one address of each family.
fn addresses(status: &Value, field: &str, errors: &mut ErrorList) {
    let root = At::root();
    let at = root.child("status");
    let at = at.child(field);
    let list = items(status, field);
    for (index, item) in list.iter().enumerate() {
        network::address(&item["ip"], &at.index(index), errors);
    }
    if list.len() < 2 {
        return;
    }
    let families: Vec<bool> = list
        .iter()
        .filter_map(|item| item["ip"].as_str()?.parse::<IpAddr>().ok())
        .map(|address| address.is_ipv4())
        .collect();
    let shown = |item: &Value| format!(r#"{{"IP":{}}}"#, item["ip"]);
    if families.len() == list.len() && (list.len() > 2 || families[0] == families[1]) {
        let all = format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(","));
        let detail = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(&at.path(), Value::Null, detail).shown_as(all));
    }
    let mut seen = HashSet::new();
    for (index, item) in list.iter().enumerate() {
        if !seen.insert(&item["ip"]) {
            errors.push(Error::duplicate(&at.index(index).path(), Value::Null).shown_as(shown(item)));
        }
    }
}

/// Health of the resources allocated to containers, by claim and resource name.
fn resources(pod: &Value, errors: &mut ErrorList) {
    const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
    for (field, list) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        let path = Path::new("status").child(field);
        for (index, status) in items(&pod["status"], field).iter().enumerate() {
            let container = items(&pod["spec"], list).iter().find(|container| container["name"] == status["name"]);
            let path = path.index(index).child("allocatedResourcesStatus");
            for (index, specified) in items(status, "allocatedResourcesStatus").iter().enumerate() {
                let at = path.index(index);
                let name = specified["name"].as_str().unwrap_or_default();
                if let Some(detail) = container.and_then(|container| not_requested(container, name)) {
                    errors.push(Error::invalid(&at.child("name"), name, detail));
                }
                let mut seen = HashSet::new();
                for (index, device) in items(specified, "resources").iter().enumerate() {
                    let at = at.child("resources").index(index);
                    let health = device["health"].as_str().unwrap_or_default();
                    if !HEALTH.contains(&health) {
                        errors.push(Error::not_supported(&at.child("health"), health, &HEALTH));
                    }
                    if !seen.insert(&device["resourceID"]) {
                        errors.push(Error::duplicate(&at.child("resourceID"), device["resourceID"].clone()));
                    }
                }
            }
        }
    }
    let path = Path::new("status").child("ephemeralContainerStatuses");
    for (index, status) in items(&pod["status"], "ephemeralContainerStatuses").iter().enumerate() {
        if !items(status, "allocatedResourcesStatus").is_empty() {
            let at = path.index(index).child("allocatedResourcesStatus");
            errors.push(Error::forbidden(&at, "must not be specified in container status"));
        }
    }
}

/// Why a container cannot have an allocated resource of this name.
fn not_requested(container: &Value, name: &str) -> Option<&'static str> {
    let Some(claim_name) = name.strip_prefix("claim:") else {
        let mut requests = container["resources"]["requests"].as_object().into_iter().flat_map(Map::keys);
        return (!requests.any(|requests| requests == name))
            .then_some("must match one of the container's resource requests");
    };
    let named = |claim: &Value| {
        let part = |field: &str| claim[field].as_str().unwrap_or_default();
        let request = part("request");
        let name = if request.is_empty() { part("name").to_owned() } else { format!("{}/{request}", part("name")) };
        name == claim_name
    };
    let found = items(&container["resources"], "claims").iter().any(named);
    (!found).then_some(
        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' \
         if request is empty",
    )
}
