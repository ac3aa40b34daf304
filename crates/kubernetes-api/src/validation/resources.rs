//! Resource quantities: requests, limits, capacities.

use std::collections::{BTreeSet, HashSet};

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("container_resources", container_resources),
    ("hard_limits", hard_limits),
    ("limit_item", limit_item),
    ("limit_types", limit_types),
    ("runtime_overhead", runtime_overhead),
];

/// Resources that may be overcommitted.
fn is_overcommitted(resource: &str) -> bool {
    let native = !resource.contains('/') || resource.contains("kubernetes.io/");
    native && !resource.starts_with("hugepages-")
}

/// Resource names without a slash that containers can request.
fn is_for_containers(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Extended resources, such as devices, under the vendor's domain.
pub(super) fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{resource}")).is_empty()
}

fn is_counted(resource: &str) -> bool {
    COUNTED.contains(&resource) || is_extended(resource)
}

const NO_TYPE: &str = "must be a standard resource type or fully qualified";

/// Resources with integer quantities.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Resource names without a slash that a quota can limit.
fn is_quota_name(name: &str) -> bool {
    let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    COUNTED.contains(&name) || name == "requests.storage" || is_for_containers(bare)
}

pub(super) fn amount(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// A quantity must not be negative, and must be whole for integer resources; decoding refuses text that is not a
/// quantity.
pub(super) fn check_amount(name: &str, value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let Some(amount) = amount(value) else { return };
    if amount.is_negative() {
        invalid(errors, at, value, "must be greater than or equal to 0");
    }
    if is_counted(name) && amount.milli_value() % 1000 != 0 {
        invalid(errors, at, value, "must be an integer");
    }
}

/// Validates a resource name; returns whether it is valid.
fn resource_name(name: &str, at: &At<'_>, errors: &mut ErrorList) -> bool {
    let complaints = names::is_qualified_name(name);
    for complaint in &complaints {
        errors.push(Error::invalid(&at.path(), name, complaint.as_str()));
    }
    if complaints.is_empty() && !name.contains('/') && !is_quota_name(name) && name != "storage" {
        errors.push(Error::invalid(&at.path(), name, NO_TYPE));
        return false;
    }
    complaints.is_empty()
}

fn container_resource_name(name: &str, at: &At<'_>, errors: &mut ErrorList) {
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !is_for_containers(name) {
            errors.push(Error::invalid(&at.path(), name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(Error::invalid(&at.path(), name, "doesn't follow extended resource name standard"));
    }
}

/// A pod's overhead, validated and reported like limits.
pub(super) fn overhead(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(overhead) = spec.get("overhead").filter(|overhead| overhead.is_object()) else { return };
    let limits = Object::from_iter([("limits".to_owned(), overhead.clone())]);
    container_resources(&limits, &at.child("overhead"), errors);
}

/// The [`overhead`] of a runtime class.
fn runtime_overhead(class: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let fixed = object(class, "overhead").and_then(|overhead| overhead.get("podFixed"));
    let Some(fixed) = fixed.filter(|fixed| fixed.is_object()) else { return };
    let limits = Object::from_iter([("limits".to_owned(), fixed.clone())]);
    container_resources(&limits, &at.child("overhead"), errors);
}

fn container_resources(resources: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let nothing = Object::new();
    let limits = object(resources, "limits").unwrap_or(&nothing);
    let requests = object(resources, "requests").unwrap_or(&nothing);
    let (at_limits, at_requests) = (at.child("limits"), at.child("requests"));
    // Pod-level resources are checked together with the sums of the containers.
    let of_pod = at.ends_with(["spec", "resources"]);
    let check_name = |name: &str, at: &At<'_>, errors: &mut ErrorList| match of_pod {
        true => drop(resource_name(name, at, errors)),
        false => container_resource_name(name, at, errors),
    };
    for (name, value) in limits {
        let at = at_limits.key(name);
        check_name(name, &at, errors);
        check_amount(name, value, &at, errors);
        huge_pages(name, value, &at, errors);
    }
    for (name, value) in requests {
        let at = at_requests.key(name);
        check_name(name, &at, errors);
        check_amount(name, value, &at, errors);
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
        huge_pages(name, value, &at, errors);
    }
    let both = || limits.keys().chain(requests.keys());
    if both().any(|name| name.starts_with("hugepages-")) && !both().any(|name| name == "cpu" || name == "memory") {
        forbidden(errors, at, "HugePages require cpu or memory");
    }
}

/// Huge pages must be multiples of the page size.
fn huge_pages(name: &str, value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let Some(page) = name.strip_prefix("hugepages-").and_then(|size| size.parse::<Quantity>().ok()) else { return };
    let Some(specified) = amount(value) else { return };
    let page = page.milli_value();
    if page > 0 && specified.milli_value() % page != 0 {
        invalid(errors, at, value, &format!("{specified} is not positive integer multiple of {name}"));
    }
}

fn hard_limits(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(hard) = object(spec, "hard") else { return };
    let at = at.child("hard");
    for (name, value) in hard {
        quota_entry(name, value, &at.key(name), errors);
    }
}

/// A limit or a usage of a quota.
pub(super) fn quota_entry(name: &str, value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    resource_name(name, at, errors);
    if !name.contains('/') && !is_quota_name(name) {
        errors.push(Error::invalid(&at.path(), name, "must be a standard resource for quotas"));
    }
    check_amount(name, value, at, errors);
}

/// A quantity of any unit that is not negative.
pub(super) fn not_negative(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    if amount(value).is_some_and(Quantity::is_negative) {
        invalid(errors, at, value, "must be greater than or equal to 0");
    }
}

fn limit_types(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("limits");
    let mut seen = HashSet::new();
    for (index, item) in list(spec, "limits").iter().enumerate() {
        let type_ = item["type"].as_str().unwrap_or_default();
        if !seen.insert(type_) {
            errors.push(Error::duplicate(&at.index(index).child("type").path(), type_));
        }
    }
}

const LIMITS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn limit_item(item: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(item, "type");
    let at_type = at.child("type");
    let complaints = names::is_qualified_name(type_);
    for complaint in &complaints {
        invalid(errors, &at_type, &type_.into(), complaint);
    }
    if complaints.is_empty() && !type_.contains('/') && !matches!(type_, "Container" | "PersistentVolumeClaim" | "Pod")
    {
        invalid(errors, &at_type, &type_.into(), "must be a standard limit type or fully qualified");
    }
    let mut names = BTreeSet::new();
    for field in LIMITS {
        let Some(amounts) = object(item, field) else { continue };
        let at = at.child(field);
        if type_ == "Pod" && field.starts_with("default") {
            forbidden(errors, &at, "may not be specified when `type` is 'Pod'");
            continue;
        }
        for name in amounts.keys() {
            match type_ {
                "Pod" | "Container" => container_resource_name(name, &at.key(name), errors),
                _ => drop(resource_name(name, &at.key(name), errors)),
            }
            names.insert(name.as_str());
        }
    }
    let has_storage = |field: &str| object(item, field).is_some_and(|amounts| amounts.contains_key("storage"));
    if type_ == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        required(errors, &at.child("limits"), detail);
    }
    for name in names {
        limits_in_order(item, name, at, errors);
    }
}

/// Pairs of fields in ascending order, their names in the message, and the field of the error with the printed value.
const ORDER: [(&str, &str, &str, &str, &str, &str); 6] = [
    ("min", "max", "min value", "max value", "min", "min"),
    ("min", "defaultRequest", "min value", "default request value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "default request value", "max value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "default request value", "default limit value", "defaultRequest", "defaultRequest"),
    ("min", "default", "min value", "default value", "default", "min"),
    ("default", "max", "default value", "max value", "default", "max"),
];

/// Minimum, default request, default and maximum must be in ascending order.
fn limits_in_order(item: &Object, name: &str, at: &At<'_>, errors: &mut ErrorList) {
    let specified = |field: &str| {
        let counts = !(text(item, "type") == "Pod" && field.starts_with("default"));
        object(item, field).filter(|_| counts).and_then(|amounts| amounts.get(name))
    };
    let of = |field: &str| specified(field).and_then(amount);
    for (low, high, low_words, high_words, place, shown) in ORDER {
        let (Some(lower), Some(higher)) = (of(low), of(high)) else { continue };
        if lower > higher {
            let detail = format!("{low_words} {lower} is greater than {high_words} {higher}");
            let at = at.child(place);
            invalid(errors, &at.key(name), specified(shown).unwrap_or(&Value::Null), &detail);
        }
    }
    let at_ratio = at.child("maxLimitRequestRatio");
    if let Some(ratio) = of("maxLimitRequestRatio") {
        let value = specified("maxLimitRequestRatio").unwrap_or(&Value::Null);
        if ratio.milli_value() < 1000 {
            invalid(errors, &at_ratio.key(name), value, &format!("ratio {ratio} is less than 1"));
        }
        if let (Some(least), Some(most)) = (of("min"), of("max"))
            && least.milli_value() > 0
        {
            #[expect(clippy::cast_precision_loss, reason = "upstream compares floats")]
            let possible = most.milli_value() as f64 / least.milli_value() as f64;
            #[expect(clippy::cast_precision_loss, reason = "upstream compares floats")]
            if ratio.milli_value() as f64 / 1000.0 > possible {
                let detail = format!("ratio {ratio} is greater than max/min = {possible:.6}");
                invalid(errors, &at_ratio.key(name), value, &detail);
            }
        }
    }
    if let (Some(limit), Some(request)) = (of("default"), of("defaultRequest"))
        && !is_overcommitted(name)
        && limit != request
    {
        let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        let at = at.child("defaultRequest");
        invalid(errors, &at.key(name), specified("defaultRequest").unwrap_or(&Value::Null), &detail);
    }
}
