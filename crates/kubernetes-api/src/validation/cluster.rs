//! Storage, priorities, leases and certificates.

use apimachinery::field::ErrorList;
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("claim_spec", claim_spec), ("priority_class", priority_class)];

/// Higher values are the system's own.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn claim_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let modes = list(spec, "accessModes");
    access_modes(modes, at, errors);
    let others = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"];
    let mixed = modes.iter().any(|mode| others.iter().any(|other| mode == *other));
    if modes.iter().any(|mode| mode == "ReadWriteOncePod") && mixed {
        forbidden(errors, &at.child("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    let requests = object(spec, "resources").and_then(|resources| object(resources, "requests"));
    let storage = requests.and_then(|requests| requests.get("storage"));
    let at_requests = at.child("resources");
    let at_storage = at_requests.key("storage");
    match storage.and_then(Value::as_str).map(str::parse::<Quantity>) {
        None if storage.is_none() => required(errors, &at_storage, ""),
        Some(Ok(amount)) if amount.is_zero() || amount.is_negative() => {
            invalid(errors, &at_storage, &Value::from(amount.to_string()), "must be greater than zero");
        }
        _ => {}
    }
    data_sources(spec, at, errors);
}

/// The data sources of a claim.
fn data_sources(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = object(spec, field) else { continue };
        let at = at.child(field);
        for part in ["name", "kind"] {
            if text(source, part).is_empty() {
                required(errors, &at.child(part), "");
            }
        }
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            invalid(errors, &at, &kind.into(), detail);
        }
        for complaint in Some(group).filter(|g| !g.is_empty()).map(names::is_dns1123_subdomain).unwrap_or_default() {
            invalid(errors, &at.child("apiGroup"), &group.into(), &complaint);
        }
    }
}

pub(super) fn access_modes(modes: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes {
        super::checks::supported(mode, &known, &at.child("accessModes"), errors);
    }
}

fn priority_class(class: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = class.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default());
    let own = ["system-cluster-critical", "system-node-critical"].contains(&name);
    if own {
        return;
    }
    if name.starts_with("system-") {
        let at = at.child("metadata");
        let detail = "priority class names with 'system-' prefix are reserved for system use only";
        forbidden(errors, &at.child("name"), detail);
    }
    if class.get("value").and_then(Value::as_i64).is_some_and(|value| value > MAX_USER_PRIORITY) {
        let detail = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        forbidden(errors, &at.child("value"), &detail);
    }
}
