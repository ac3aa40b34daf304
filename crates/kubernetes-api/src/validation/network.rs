//! Ingresses and network policies.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::supported;
use super::table::Function;
use super::{Object, addresses, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("ingress_backend", ingress_backend),
    ("ingress_class", ingress_class),
    ("ingress_controller", ingress_controller),
    ("ingress_path", ingress_path),
    ("ingress_rule", ingress_rule),
    ("ingress_spec", ingress_spec),
    ("ingress_tls", ingress_tls),
    ("ip_block", ip_block),
    ("policy_peer", policy_peer),
    ("policy_port", policy_port),
    ("policy_types", policy_types),
];

/// Whether an address is valid.
pub(super) fn address(value: &Value, at: &At<'_>, errors: &mut ErrorList) -> bool {
    let complaint = addresses::address_complaint(value.as_str().unwrap_or_default());
    if let Some(detail) = complaint {
        let value = if value.is_null() { &Value::from("") } else { value };
        invalid(errors, at, value, detail);
    }
    complaint.is_none()
}

/// Whether an address range can be read; it may be invalid nevertheless.
pub(super) fn block(value: &Value, at: &At<'_>, errors: &mut ErrorList) -> bool {
    let text = value.as_str().unwrap_or_default();
    if let Some(detail) = addresses::block_complaint(text) {
        invalid(errors, at, value, detail);
    }
    addresses::parse(text).is_some()
}

const CLASS: &str = "kubernetes.io/ingress.class";

/// The deprecated annotation for the class must not contradict the field. Upstream omits `metadata` from the path.
fn ingress_class(ingress: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let specified = ingress.get("metadata").map_or(&Value::Null, |metadata| &metadata["annotations"][CLASS]);
    let named = ingress.get("spec").map_or(&Value::Null, |spec| &spec["ingressClassName"]);
    if specified.is_string() && !named.is_null() && specified != named {
        let at = at.child("annotations");
        invalid(errors, &at.child(CLASS), specified, "must match `ingressClassName` when both are specified");
    }
}

/// Contradictions in existing objects are tolerated.
pub(super) fn ingress_update(_: &Value, _: &Value, errors: &mut ErrorList) {
    let path = Path::new("annotations").child(CLASS);
    errors.retain(|error| error.path != path);
}

fn ingress_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if list(spec, "rules").is_empty() && !spec.contains_key("defaultBackend") {
        let rules = spec.get("rules").unwrap_or(&Value::Null);
        invalid(errors, at, rules, "either `defaultBackend` or `rules` must be specified");
    }
}

fn ingress_rule(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let host = text(rule, "host");
    if host.is_empty() {
        return;
    }
    let at_host = at.child("host");
    if host.parse::<std::net::IpAddr>().is_ok() {
        invalid(errors, &at_host, &host.into(), "must be a DNS name, not an IP address");
    }
    host_name(host, &at_host, errors);
}

fn ingress_tls(tls: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_hosts = at.child("hosts");
    for (index, host) in list(tls, "hosts").iter().enumerate() {
        host_name(host.as_str().unwrap_or_default(), &at_hosts.index(index), errors);
    }
    let secret = text(tls, "secretName");
    for complaint in Some(secret).filter(|name| !name.is_empty()).map(names::is_dns1123_subdomain).into_iter().flatten()
    {
        invalid(errors, &at.child("secretName"), &secret.into(), &complaint);
    }
}

fn policy_types(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let types = list(spec, "policyTypes");
    let at = at.child("policyTypes");
    if types.len() > 2 {
        return invalid(errors, &at, &Value::from(types.to_vec()), "may not specify more than two policyTypes");
    }
    for (index, type_) in types.iter().enumerate() {
        supported(type_, &["Ingress", "Egress"], &at.index(index), errors);
    }
}

fn host_name(host: &str, at_host: &At<'_>, errors: &mut ErrorList) {
    if host.contains('*') {
        let rest = host.strip_prefix("*.").filter(|rest| !rest.is_empty());
        if rest.is_none_or(|rest| !apimachinery::names::is_dns1123_subdomain(rest).is_empty()) {
            let detail = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                          must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                          character (e.g. '*.example.com', regex used for validation is \
                          '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
            invalid(errors, at_host, &host.into(), detail);
        }
        return;
    }
    for complaint in apimachinery::names::is_dns1123_subdomain(host) {
        invalid(errors, at_host, &host.into(), &complaint);
    }
}

fn ingress_path(path: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let specified = text(path, "path");
    let at_path = at.child("path");
    let value = Value::from(specified);
    if matches!(text(path, "pathType"), "Exact" | "Prefix") {
        if !specified.starts_with('/') {
            invalid(errors, &at_path, &value, "must be an absolute path");
        }
        for part in ["//", "/./", "/../", "%2f", "%2F"] {
            if specified.contains(part) {
                invalid(errors, &at_path, &value, &format!("must not contain '{part}'"));
            }
        }
        for part in ["/..", "/."] {
            if specified.ends_with(part) {
                invalid(errors, &at_path, &value, &format!("cannot end with '{part}'"));
            }
        }
    } else if text(path, "pathType") == "ImplementationSpecific" && !specified.is_empty() && !specified.starts_with('/')
    {
        invalid(errors, &at_path, &value, "must be an absolute path");
    }
}

fn ingress_backend(backend: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match (object(backend, "service"), object(backend, "resource")) {
        (Some(_), Some(_)) => invalid(errors, at, &"".into(), "cannot set both resource and service backends"),
        (None, None) => invalid(errors, at, &"".into(), "resource or service backend is required"),
        (None, Some(resource)) => {
            let at = at.child("resource");
            if let Some(group) = resource.get("apiGroup").and_then(Value::as_str) {
                for complaint in names::is_dns1123_subdomain(group) {
                    invalid(errors, &at.child("apiGroup"), &group.into(), &complaint);
                }
            }
            for field in ["kind", "name"] {
                let specified = text(resource, field);
                if specified.is_empty() {
                    required(errors, &at.child(field), "");
                }
                for complaint in
                    Some(specified).filter(|text| !text.is_empty()).map(names::is_path_segment).unwrap_or_default()
                {
                    invalid(errors, &at.child(field), &specified.into(), &complaint);
                }
            }
        }
        (Some(service), None) => service_backend(service, at, errors),
    }
}

fn service_backend(service: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_service = at.child("service");
    match text(service, "name") {
        "" => required(errors, &at_service.child("name"), ""),
        name => {
            for complaint in names::is_dns1123_label(name) {
                invalid(errors, &at_service.child("name"), &name.into(), &complaint);
            }
        }
    }
    let port = service.get("port").unwrap_or(&Value::Null);
    let (name, number) = (port["name"].as_str().unwrap_or_default(), port["number"].as_i64().unwrap_or(0));
    let at_port = at_service.child("port");
    match (name.is_empty(), number) {
        (true, 0) => required(errors, at, "port name or number is required"),
        (false, 0) => {
            for complaint in super::checks::is_port_name(name) {
                invalid(errors, &at_port.child("name"), &name.into(), &complaint);
            }
        }
        (true, _) => super::checks::port(&port["number"], &at_port.child("number"), errors),
        (false, _) => invalid(errors, at, &"".into(), "cannot set both port name & port number"),
    }
}

fn ingress_controller(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const LONGEST: usize = 250;
    let (controller, at) = (text(spec, "controller"), at.child("controller"));
    if controller.len() > LONGEST {
        errors.push(Error::too_long(&at.path(), LONGEST));
    }
    domain_prefixed_path(controller, &at, errors);
}

/// Upstream's `IsDomainPrefixedPath`.
pub(super) fn domain_prefixed_path(text: &str, at: &At<'_>, errors: &mut ErrorList) {
    match text.split_once('/') {
        _ if text.is_empty() => required(errors, at, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for complaint in names::is_dns1123_subdomain(host) {
                invalid(errors, at, &host.into(), &complaint);
            }
            if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                invalid(errors, at, &path.into(), detail);
            }
        }
        _ => invalid(errors, at, &text.into(), "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn policy_peer(peer: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if peer.is_empty() {
        required(errors, at, "must specify a peer");
    }
    if peer.contains_key("ipBlock") && peer.len() > 1 {
        forbidden(errors, at, "may not specify both ipBlock and another peer");
    }
}

fn policy_port(port: &Object, at: &At<'_>, errors: &mut ErrorList) {
    // An empty name is a name.
    if let Some(name) = port.get("port").filter(|name| *name == "") {
        super::checks::port(name, &at.child("port"), errors);
    }
    let Some(end) = port.get("endPort") else { return };
    let at_end = at.child("endPort");
    match port.get("port").map(Value::as_i64) {
        None => invalid(errors, &at_end, end, "may not be specified when `port` is not specified"),
        Some(None) => invalid(errors, &at_end, end, "may not be specified when `port` is non-numeric"),
        Some(Some(first)) => {
            if end.as_i64().is_some_and(|end| end < first) {
                invalid(errors, &at_end, end, "must be greater than or equal to `port`");
            }
            super::checks::port(end, &at_end, errors);
        }
    }
}

fn ip_block(range: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let cidr = text(range, "cidr");
    if cidr.is_empty() {
        return required(errors, &at.child("cidr"), "");
    }
    if !block(&cidr.into(), &at.child("cidr"), errors) {
        return;
    }
    let at_list = at.child("except");
    for (index, value) in list(range, "except").iter().enumerate() {
        let at = at_list.index(index);
        if block(value, &at, errors) && !value.as_str().is_some_and(|inner| is_within(inner, cidr)) {
            invalid(errors, &at, value, "must be a strict subset of `cidr`");
        }
    }
}

/// Whether the first range is a proper part of the second.
fn is_within(inner: &str, outer: &str) -> bool {
    let bits = |text: &str| {
        let (address, length) = addresses::parse(text)?;
        Some(match address {
            std::net::IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, length, 4),
            std::net::IpAddr::V6(v6) => (u128::from(v6), length, 6),
        })
    };
    let (Some((part, longer, one)), Some((whole, shorter, other))) = (bits(inner), bits(outer)) else { return false };
    let shift = 128u32.saturating_sub(shorter);
    one == other && longer > shorter && part.checked_shr(shift).unwrap_or(0) == whole.checked_shr(shift).unwrap_or(0)
}
