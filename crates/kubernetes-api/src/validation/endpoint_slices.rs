//! Slices of the endpoints of services.

use std::collections::HashSet;
use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("endpoint_slice", endpoint_slice)];

/// The maximum number of addresses of an endpoint, endpoints and ports of a slice, and hints of each kind.
const MAX_ADDRESSES: usize = 100;
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

fn endpoint_slice(slice: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(slice, "addressType");
    let (endpoints, ports) = (list(slice, "endpoints"), list(slice, "ports"));
    let at_list = at.child("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        return errors.push(Error::too_many(&at_list.path(), endpoints.len(), MAX_ENDPOINTS));
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let Some(endpoint) = endpoint.as_object() else { continue };
        let at = at_list.index(index);
        addresses(list(endpoint, "addresses"), type_, &at.child("addresses"), errors);
        let named = |field: &str, rule: fn(&str) -> Vec<String>, errors: &mut ErrorList| {
            let Some(name) = endpoint.get(field).and_then(Value::as_str) else { return };
            for complaint in rule(name) {
                invalid(errors, &at.child(field), &name.into(), &complaint);
            }
        };
        named("nodeName", names::is_dns1123_subdomain, errors);
        named("hostname", names::is_dns1123_label, errors);
        if let Some(hints) = object(endpoint, "hints") {
            let at = at.child("hints");
            self::hints(list(hints, "forZones"), names::is_label_value, &at.child("forZones"), errors);
            self::hints(list(hints, "forNodes"), names::is_dns1123_subdomain, &at.child("forNodes"), errors);
        }
    }
    let mut seen = HashSet::new();
    let at_list = at.child("ports");
    if ports.len() > MAX_PORTS {
        return errors.push(Error::too_many(&at_list.path(), ports.len(), MAX_PORTS));
    }
    for (index, port) in ports.iter().enumerate() {
        if !seen.insert(port["name"].as_str().unwrap_or_default()) {
            errors.push(Error::duplicate(&at_list.index(index).child("name").path(), port["name"].clone()));
        }
    }
}

fn addresses(addresses: &[Value], type_: &str, at: &At<'_>, errors: &mut ErrorList) {
    if addresses.is_empty() {
        required(errors, at, "must contain at least 1 address");
    } else if addresses.len() > MAX_ADDRESSES {
        errors.push(Error::too_many(&at.path(), addresses.len(), MAX_ADDRESSES));
    }
    for (index, address) in addresses.iter().enumerate() {
        let at = at.index(index);
        let text = address.as_str().unwrap_or_default();
        match (type_, text.parse::<IpAddr>().ok()) {
            ("IPv4", Some(IpAddr::V4(_))) | ("IPv6", Some(IpAddr::V6(_))) => {
                super::machinery::callable_address(address, &at, errors);
            }
            ("IPv4" | "IPv6", other) => {
                invalid(errors, &at, address, &format!("must be a valid {type_} address"));
                match other {
                    Some(_) => super::machinery::callable_address(address, &at, errors),
                    None => invalid(errors, &at, address, "must be a valid IP address"),
                }
            }
            ("FQDN", _) => domain_name(text, &at, errors),
            _ => {}
        }
    }
}

/// A fully qualified name, with or without a trailing dot.
fn domain_name(name: &str, at: &At<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return required(errors, at, "");
    }
    let bare = name.strip_suffix('.').unwrap_or(name);
    let complaints = names::is_dns1123_subdomain(bare);
    for complaint in &complaints {
        invalid(errors, at, &bare.into(), complaint);
    }
    if complaints.is_empty() && bare.split('.').count() < 2 {
        invalid(errors, at, &bare.into(), "should be a domain with at least two segments separated by dots");
    }
}

fn hints(hints: &[Value], rule: fn(&str) -> Vec<String>, at: &At<'_>, errors: &mut ErrorList) {
    if hints.len() > MAX_HINTS {
        return errors.push(Error::too_many(&at.path(), hints.len(), MAX_HINTS));
    }
    let mut seen = HashSet::new();
    for (index, hint) in hints.iter().enumerate() {
        let at = at.index(index);
        let at = at.child("name");
        let name = hint["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            required(errors, &at, "");
            continue;
        }
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.path(), name));
        }
        for complaint in rule(name) {
            invalid(errors, &at, &name.into(), &complaint);
        }
    }
}
