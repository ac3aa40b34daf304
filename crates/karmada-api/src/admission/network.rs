//! Validates MultiClusterIngresses and MultiClusterServices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::{
    is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_path_segment, label_1035_rule, subdomain_rule,
    validate_object_meta, validate_object_meta_update,
};
use serde_json::Value;

use super::autoscaling::{list, text};
use super::{Denied, Operation, Request};
use crate::cluster::name_complaints;

/// Kubernetes' message for a name that is not `*.` and a DNS name.
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
    must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
    '*.example.com', regex used for validation is \
    '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

pub(super) fn ingress(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let old = request.old.filter(|_| request.operation == Operation::Update);
    let mut errors = old.map(|old| metadata_update(object, old)).unwrap_or_default();
    errors.extend(validate_object_meta(&object["metadata"], true, subdomain_rule, &Path::new("metadata")));
    errors.extend(ingress_spec(&object["spec"], &Path::new("spec")));
    errors.extend(old.map(|_| load_balancer(object)).unwrap_or_default());
    Denied::unless_empty(errors)
}

fn metadata_update(object: &Value, old: &Value) -> ErrorList {
    validate_object_meta_update(&object["metadata"], &old["metadata"], &Path::new("metadata"))
}

/// Both kinds validate the status on updates.
fn load_balancer(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status").child("loadBalancer").child("ingress");
    for (index, point) in list(&object["status"]["loadBalancer"]["ingress"]).iter().enumerate() {
        let path = path.index(index);
        let (ip, name) = (text(point, "ip"), text(point, "hostname"));
        if !ip.is_empty() && !is_address(ip) {
            errors.push(Error::invalid(&path.child("ip"), ip, "must be a valid IP address"));
        }
        if !name.is_empty() {
            let path = path.child("hostname");
            errors.extend(is_dns1123_subdomain(name).into_iter().map(|it| Error::invalid(&path, name, it)));
            if is_address(name) {
                errors.push(Error::invalid(&path, name, "must be a DNS name, not an IP address"));
            }
        }
    }
    errors
}

/// As Go parses addresses: octets may have leading zeros.
fn is_address(text: &str) -> bool {
    let octet = |it: &str| (1..=3).contains(&it.len()) && it.bytes().all(|c| c.is_ascii_digit());
    let octets: Vec<&str> = text.split('.').collect();
    let four = octets.len() == 4 && octets.iter().all(|it| octet(it) && it.parse::<u16>().is_ok_and(|it| it < 256));
    four || text.parse::<IpAddr>().is_ok()
}

fn ingress_spec(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let rules = list(&spec["rules"]);
    if rules.is_empty() && !spec["defaultBackend"].is_object() {
        errors.push(Error::invalid(
            path,
            spec["rules"].clone(),
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if spec["defaultBackend"].is_object() {
        errors.extend(backend(&spec["defaultBackend"], &path.child("defaultBackend")));
    }
    for (index, rule) in rules.iter().enumerate() {
        errors.extend(ingress_rule(rule, &path.child("rules").index(index)));
    }
    for (index, tls) in list(&spec["tls"]).iter().enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in list(&tls["hosts"]).iter().enumerate() {
            errors.extend(host_name(host.as_str().unwrap_or_default(), &path.child("hosts").index(index)));
        }
        errors.extend(subdomain(text(tls, "secretName"), &path.child("secretName")));
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        let path = path.child("ingressClassName");
        errors.extend(is_dns1123_subdomain(class).into_iter().map(|detail| Error::invalid(&path, class, detail)));
    }
    errors
}

/// Optional names of other objects.
fn subdomain(name: &str, path: &Path) -> ErrorList {
    if name.is_empty() {
        return ErrorList::new();
    }
    is_dns1123_subdomain(name).into_iter().map(|detail| Error::invalid(path, name, detail)).collect()
}

fn host_name(host: &str, path: &Path) -> ErrorList {
    if !host.contains('*') {
        return is_dns1123_subdomain(host).into_iter().map(|detail| Error::invalid(path, host, detail)).collect();
    }
    let rest = host.strip_prefix("*.").filter(|rest| is_dns1123_subdomain(rest).is_empty());
    if rest.is_some() { ErrorList::new() } else { vec![Error::invalid(path, host, WILDCARD)] }
}

fn ingress_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (host, host_path) = (text(rule, "host"), path.child("host"));
    if is_address(host) {
        errors.push(Error::invalid(&host_path, host, "must be a DNS name, not an IP address"));
    }
    if !host.is_empty() {
        errors.extend(host_name(host, &host_path));
    }
    if rule["http"].is_object() {
        let path = path.child("http").child("paths");
        let paths = list(&rule["http"]["paths"]);
        if paths.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        for (index, item) in paths.iter().enumerate() {
            errors.extend(http_path(item, &path.index(index)));
        }
    }
    errors
}

fn http_path(item: &Value, path: &Path) -> ErrorList {
    let Some(type_) = item["pathType"].as_str() else {
        return vec![Error::required(&path.child("pathType"), "pathType must be specified")];
    };
    let mut errors = ErrorList::new();
    let (url_path, path_field) = (text(item, "path"), path.child("path"));
    let mut refuse = |detail: String| errors.push(Error::invalid(&path_field, url_path, detail));
    match type_ {
        "Exact" | "Prefix" => {
            if !url_path.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| url_path.contains(part)) {
                refuse(format!("must not contain '{part}'"));
            }
            for part in ["/..", "/."].into_iter().filter(|part| url_path.ends_with(part)) {
                refuse(format!("cannot end with '{part}'"));
            }
        }
        "ImplementationSpecific" => {
            if !url_path.is_empty() && !url_path.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
        }
        _ => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(Error::not_supported(&path.child("pathType"), type_, &known));
        }
    }
    errors.extend(backend(&item["backend"], &path.child("backend")));
    errors
}

fn backend(backend: &Value, path: &Path) -> ErrorList {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => vec![Error::invalid(path, "", "cannot set both resource and service backends")],
        (false, false) => vec![Error::invalid(path, "", "resource or service backend is required")],
        (true, false) => service_backend(service, path),
        (false, true) => resource_backend(resource, &path.child("resource")),
    }
}

fn service_backend(service: &Value, backend: &Path) -> ErrorList {
    let path = backend.child("service");
    let mut errors = ErrorList::new();
    let name = text(service, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let complaints = if name.is_empty() { Vec::new() } else { is_dns1035_label(name) };
    errors.extend(complaints.into_iter().map(|detail| Error::invalid(&path.child("name"), name, detail)));
    let (port, number) = (text(&service["port"], "name"), service["port"]["number"].as_i64().unwrap_or_default());
    let path = path.child("port");
    match (port.is_empty(), number) {
        (true, 0) => errors.push(Error::required(backend, "port name or number is required")),
        (false, 0) => {
            let path = path.child("name");
            errors.extend(port_name(port).map(|detail| Error::invalid(&path, port, detail)));
        }
        (false, _) => errors.push(Error::invalid(backend, "", "cannot set both port name & port number")),
        (true, number) if !(1..=65535).contains(&number) => {
            errors.push(Error::invalid(&path.child("number"), number, PORT_RANGE));
        }
        (true, _) => {}
    }
    errors
}

/// The errors in an IANA service name.
fn port_name(name: &str) -> impl Iterator<Item = &'static str> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let rules = [
        (name.len() > 15, "must be no more than 15 characters"),
        (!name.chars().all(word), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (!name.contains(|c: char| c.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.into_iter().filter_map(|(broken, text)| broken.then_some(text))
}

fn resource_backend(resource: &Value, path: &Path) -> ErrorList {
    // An empty group counts as set.
    let group = resource["apiGroup"].as_str();
    let complaints = group.map(is_dns1123_subdomain).unwrap_or_default().into_iter();
    let path_of_group = path.child("apiGroup");
    let mut errors: ErrorList =
        complaints.map(|detail| Error::invalid(&path_of_group, group.unwrap_or_default(), detail)).collect();
    for key in ["kind", "name"] {
        let (value, path) = (text(resource, key), path.child(key));
        if value.is_empty() {
            errors.push(Error::required(&path, format!("{key} is required")));
            continue;
        }
        errors.extend(is_path_segment(value).into_iter().map(|detail| Error::invalid(&path, value, detail)));
    }
    errors
}

pub(super) fn service(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let old = request.old.filter(|_| request.operation == Operation::Update);
    let mut errors = old.map(|old| metadata_update(object, old)).unwrap_or_default();
    if let Some(old) = old {
        let (types, before) = (list(&object["spec"]["types"]), list(&old["spec"]["types"]));
        if types != before {
            let detail = "MultiClusterService types are immutable";
            errors.push(Error::invalid(&Path::new("spec").child("types"), before.to_vec(), detail));
        }
    }
    errors.extend(validate_object_meta(&object["metadata"], true, label_1035_rule, &Path::new("metadata")));
    errors.extend(service_spec(&object["spec"], &Path::new("spec")));
    errors.extend(old.map(|_| load_balancer(object)).unwrap_or_default());
    Denied::unless_empty(errors)
}

fn service_spec(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut names = BTreeSet::new();
    for (index, port) in list(&spec["ports"]).iter().enumerate() {
        let path = path.child("ports").index(index);
        let (name, name_path) = (text(port, "name"), path.child("name"));
        if !name.is_empty() {
            errors.extend(is_dns1123_label(name).into_iter().map(|it| Error::invalid(&name_path, name, it)));
            if !names.insert(name) {
                errors.push(Error::duplicate(&name_path, name));
            }
        }
        let number = port["port"].as_i64().unwrap_or_default();
        if !(1..=65535).contains(&number) {
            errors.push(Error::invalid(&path.child("port"), number, PORT_RANGE));
        }
    }
    let types = list(&spec["types"]);
    for (index, type_) in types.iter().enumerate() {
        if !matches!(type_.as_str(), Some("CrossCluster" | "LoadBalancer")) {
            let path = path.child("types").index(index);
            errors.push(Error::invalid(&path, type_.clone(), "ExposureType Error"));
        }
    }
    if types.iter().any(|type_| *type_ != types[0]) {
        let detail = "MultiClusterService types should not contain more than one type";
        errors.push(Error::invalid(&path.child("types"), types.to_vec(), detail));
    }
    for list_name in ["providerClusters", "consumerClusters"] {
        for (index, cluster) in list(&spec[list_name]).iter().enumerate() {
            // The path contains a field that the list is not in; upstream's errors have it too.
            let path = path.child("range").child(list_name).index(index);
            let name = text(cluster, "name");
            let complaints = name_complaints(name);
            if !complaints.is_empty() {
                errors.push(Error::invalid(&path, name, complaints.join(",")));
            }
        }
    }
    errors
}
