//! Amounts of resources: what is requested, limited, granted.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, invalid, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] =
    &[("container_resources", container_resources), ("hard_limits", hard_limits), ("limit_item", limit_item)];

/// A node can promise more of these than it has.
fn is_overcommitted(resource: &str) -> bool {
    let native = !resource.contains('/') || resource.contains("kubernetes.io/");
    native && !resource.starts_with("hugepages-")
}

fn is_standard(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage" | "storage") || resource.starts_with("hugepages-")
}

const NO_TYPE: &str = "must be a standard resource type or fully qualified";

/// What a quota can limit by a name without a slash.
fn is_quota_name(name: &str) -> bool {
    let counted = [
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    ];
    let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    counted.contains(&name) || matches!(bare, "cpu" | "memory" | "ephemeral-storage") || bare.starts_with("hugepages-")
}

fn amount(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// Amounts that can be read and are not negative; text that is none at all is refused when a body is decoded.
fn amounts(map: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for (name, value) in map {
        let at = at.key(name);
        if amount(value).is_some_and(Quantity::is_negative) {
            invalid(errors, &at, value, "must be greater than or equal to 0");
        }
    }
}

fn resource_names(map: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for name in map.keys() {
        let at = at.key(name);
        let complaints = names::is_qualified_name(name);
        let badly_shaped = !complaints.is_empty();
        for complaint in complaints {
            errors.push(Error::invalid(&at.path(), name.as_str(), complaint));
        }
        if !badly_shaped && !name.contains('/') && !is_standard(name) {
            if !is_quota_name(name) {
                errors.push(Error::invalid(&at.path(), name.as_str(), NO_TYPE));
            }
            errors.push(Error::invalid(&at.path(), name.as_str(), "must be a standard resource for containers"));
        }
    }
}

fn container_resources(resources: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let nothing = Object::new();
    let limits = object(resources, "limits").unwrap_or(&nothing);
    let requests = object(resources, "requests").unwrap_or(&nothing);
    let at_limits = at.child("limits");
    resource_names(limits, &at_limits, errors);
    amounts(limits, &at_limits, errors);
    let at_requests = at.child("requests");
    resource_names(requests, &at_requests, errors);
    amounts(requests, &at_requests, errors);
    for (name, value) in requests {
        let Some(requested) = amount(value) else { continue };
        match limits.get(name).and_then(amount) {
            Some(limit) if !is_overcommitted(name) && requested != limit => {
                invalid(errors, &at_requests, value, &format!("must be equal to {name} limit of {limit}"));
            }
            Some(limit) if requested > limit => {
                invalid(errors, &at_requests, value, &format!("must be less than or equal to {name} limit of {limit}"));
            }
            None if !is_overcommitted(name) => {
                required(errors, &at_limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
}

fn hard_limits(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(hard) = object(spec, "hard") else { return };
    let at = at.child("hard");
    for name in hard.keys() {
        let at = at.key(name);
        let complaints = names::is_qualified_name(name);
        if complaints.is_empty() && !name.contains('/') && !is_quota_name(name) {
            if !is_standard(name) {
                errors.push(Error::invalid(&at.path(), name.as_str(), NO_TYPE));
            }
            errors.push(Error::invalid(&at.path(), name.as_str(), "must be a standard resource for quotas"));
        }
        for complaint in complaints {
            errors.push(Error::invalid(&at.path(), name.as_str(), complaint));
        }
    }
    amounts(hard, &at, errors);
}

/// Minimum, defaults and maximum of one kind of thing follow each other.
fn limit_item(item: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let of = |field: &str, name: &str| object(item, field).and_then(|map| map.get(name)).and_then(amount);
    let type_ = text(item, "type");
    if !type_.is_empty() && !type_.contains('/') && !matches!(type_, "Container" | "PersistentVolumeClaim" | "Pod") {
        let detail = "must be a standard limit type or fully qualified";
        invalid(errors, &at.child("type"), &type_.into(), detail);
    }
    if type_ == "Pod" {
        for field in ["default", "defaultRequest"] {
            if item.contains_key(field) {
                errors.push(Error::forbidden(&at.child(field).path(), "may not be specified when `type` is 'Pod'"));
            }
        }
    }
    let order = [("min", "max"), ("min", "defaultRequest"), ("defaultRequest", "default"), ("default", "max")];
    for (low, high) in order {
        for (name, value) in object(item, low).into_iter().flatten() {
            let (Some(lower), Some(higher)) = (amount(value), of(high, name)) else { continue };
            if lower > higher {
                let words = |field: &str| match field {
                    "defaultRequest" => "default request".to_owned(),
                    other => other.to_owned(),
                };
                let detail = format!("{} value {lower} is greater than {} value {higher}", words(low), words(high));
                let at = at.child(low);
                invalid(errors, &at.key(name), value, &detail);
            }
        }
    }
}
