//! Autoscalers and disruption budgets.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("autoscaler", autoscaler),
    ("budget", budget),
    ("external_metric", external_metric),
    ("metric", metric),
    ("metric_target", metric_target),
    ("object_metric", object_metric),
    ("pods_metric", pods_metric),
    ("resource_metric", resource_metric),
    ("scaling_policy", scaling_policy),
    ("scaling_rules", scaling_rules),
];

fn autoscaler(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let number = |name: &str| spec.get(name).and_then(Value::as_i64);
    let (least, most) = (number("minReplicas"), number("maxReplicas").unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        invalid(errors, &at.child("minReplicas"), &least.into(), "must be greater than or equal to 1");
    }
    let at_most = at.child("maxReplicas");
    if most < 1 {
        invalid(errors, &at_most, &most.into(), "must be greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        invalid(errors, &at_most, &most.into(), "must be greater than or equal to `minReplicas`");
    }
    let percentage = "targetCPUUtilizationPercentage";
    if let Some(value) = number(percentage).filter(|value| *value < 1) {
        invalid(errors, &at.child(percentage), &value.into(), "must be greater than 0");
    }
    if let Some(target) = object(spec, "scaleTargetRef") {
        // The only scalable kind of the core group.
        let may_lack_group = text(target, "kind") == "ReplicationController";
        target_version(target, may_lack_group, &at.child("scaleTargetRef"), errors);
    }
}

fn target_version(target: &Object, may_lack_group: bool, at: &At<'_>, errors: &mut ErrorList) {
    let (version, at) = (text(target, "apiVersion"), at.child("apiVersion"));
    let group = match version.matches('/').count() {
        _ if version == "/" => "",
        0 => "",
        1 => version.split_once('/').map_or("", |(group, _)| group),
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            return invalid(errors, &at, &version.into(), &detail);
        }
    };
    if group.is_empty() && !may_lack_group {
        invalid(errors, &at, &version.into(), "apiVersion must specify API group");
    }
}

/// An unchanged target is not validated again: older servers accepted any version.
pub(super) fn autoscaler_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"]["scaleTargetRef"], &new["spec"]["scaleTargetRef"]);
    if was["apiVersion"] == is["apiVersion"] && was["kind"] == is["kind"] {
        let path = Path::new("spec").child("scaleTargetRef").child("apiVersion");
        errors.retain(|error| error.path != path);
    }
}

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

/// The source for the metric's type is present, and no other.
fn metric(metric: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(metric, "type");
    let expected = SOURCES.iter().find(|(name, _)| *name == type_).map(|(_, field)| *field);
    if let Some(expected) = expected.filter(|field| !metric.contains_key(*field)) {
        required(errors, &at.child(expected), "must populate information for the given metric source");
    }
    let specified: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.contains_key(*field)).collect();
    if specified.len() == 1 {
        return;
    }
    for other in specified.into_iter().filter(|field| Some(*field) != expected) {
        forbidden(errors, &at.child(other), "must populate the given metric source only");
    }
}

fn has(source: &Object, field: &str) -> bool {
    object(source, "target").is_some_and(|target| target.contains_key(field))
}

fn resource_metric(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("target");
    match (has(source, "averageUtilization"), has(source, "averageValue")) {
        (false, false) => {
            let detail = "must set either a target raw value or a target utilization";
            required(errors, &at.child("averageUtilization"), detail);
        }
        (true, true) => {
            let detail = "may not set both a target raw value and a target utilization";
            forbidden(errors, &at.child("averageValue"), detail);
        }
        _ => {}
    }
}

fn object_metric(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(target) = object(source, "describedObject") {
        target_version(target, true, &at.child("describedObject"), errors);
    }
    if !has(source, "value") && !has(source, "averageValue") {
        let at = at.child("target");
        required(errors, &at.child("averageValue"), "must set either a target value or averageValue");
    }
}

fn external_metric(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("target");
    match (has(source, "value"), has(source, "averageValue")) {
        (false, false) => {
            let detail = "must set either a target value for metric or a per-pod target";
            required(errors, &at.child("averageValue"), detail);
        }
        (true, true) => {
            let detail = "may not set both a target value for metric and a per-pod target";
            forbidden(errors, &at.child("value"), detail);
        }
        _ => {}
    }
}

fn pods_metric(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if !has(source, "averageValue") {
        let at = at.child("target");
        required(errors, &at.child("averageValue"), "must specify a positive target averageValue");
    }
}

fn metric_target(target: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(target, "type");
    if !matches!(type_, "AverageValue" | "Utilization" | "Value") {
        let detail = "must be either Utilization, Value, or AverageValue";
        invalid(errors, &at.child("type"), &type_.into(), detail);
    }
    for field in ["value", "averageValue"] {
        let amount = target.get(field).and_then(Value::as_str).and_then(|text| text.parse::<Quantity>().ok());
        if amount.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
            invalid(errors, &at.child(field), &target[field], "must be positive");
        }
    }
    if target.get("averageUtilization").and_then(Value::as_i64).is_some_and(|value| value < 1) {
        invalid(errors, &at.child("averageUtilization"), &target["averageUtilization"], "must be greater than 0");
    }
}

/// The maximum stabilization window and period, in seconds.
const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;

fn scaling_rules(rules: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let tolerance = rules.get("tolerance").unwrap_or(&Value::Null);
    if tolerance.as_str().and_then(|text| text.parse::<Quantity>().ok()).is_some_and(|amount| amount.is_negative()) {
        invalid(errors, &at.child("tolerance"), tolerance, "must be greater than or equal to 0");
    }
    let at = at.child("stabilizationWindowSeconds");
    match rules.get("stabilizationWindowSeconds").and_then(Value::as_i64) {
        Some(seconds) if seconds < 0 => {
            invalid(errors, &at, &seconds.into(), "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > MAX_WINDOW => {
            invalid(errors, &at, &seconds.into(), &format!("must be less than or equal to {MAX_WINDOW}"));
        }
        _ => {}
    }
}

fn scaling_policy(policy: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("periodSeconds");
    match policy.get("periodSeconds").and_then(Value::as_i64).unwrap_or(0) {
        seconds if seconds <= 0 => invalid(errors, &at, &seconds.into(), "must be greater than zero"),
        seconds if seconds > MAX_PERIOD => {
            invalid(errors, &at, &seconds.into(), &format!("must be less than or equal to {MAX_PERIOD}"));
        }
        _ => {}
    }
}

fn budget(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if spec.contains_key("minAvailable") && spec.contains_key("maxUnavailable") {
        let [least, selector, most, policy] =
            ["minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"]
                .map(|field| spec.get(field).unwrap_or(&Value::Null));
        // Upstream prints the fields of its own struct.
        let shown = format!(
            r#"{{"MinAvailable":{least},"Selector":{selector},"MaxUnavailable":{most},"UnhealthyPodEvictionPolicy":{policy}}}"#
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid(&at.path(), Value::Object(spec.clone()), detail).shown_as(shown));
    }
}
