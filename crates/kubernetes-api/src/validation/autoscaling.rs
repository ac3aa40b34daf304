//! Autoscalers and disruption budgets.

use apimachinery::field::{Error, ErrorList};
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("autoscaler", autoscaler),
    ("budget", budget),
    ("metric", metric),
    ("metric_target", metric_target),
    ("resource_metric", resource_metric),
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
}

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

/// The source a metric's type calls for is there, and no other.
fn metric(metric: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let type_ = text(metric, "type");
    let Some((_, expected)) = SOURCES.iter().find(|(name, _)| *name == type_) else { return };
    if !metric.contains_key(*expected) {
        let detail = format!("must populate information for the given metric source: {expected}");
        required(errors, &at.child(expected), &detail);
    }
    for (_, other) in SOURCES.iter().filter(|(_, field)| field != expected && metric.contains_key(*field)) {
        let detail = "must populate the given metric source only";
        forbidden(errors, &at.child(other), detail);
    }
}

fn resource_metric(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(target) = source.get("target") else { return };
    let at = at.child("target");
    match (target["averageUtilization"].is_null(), target["averageValue"].is_null()) {
        (true, true) => {
            let detail = "must set either a raw value or a target utilization";
            required(errors, &at.child("averageUtilization"), detail);
        }
        (false, false) => {
            let detail = "may not set both a target raw value and a target utilization";
            forbidden(errors, &at.child("averageValue"), detail);
        }
        _ => {}
    }
}

fn metric_target(target: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if target.get("averageUtilization").and_then(Value::as_i64).is_some_and(|value| value < 1) {
        invalid(errors, &at.child("averageUtilization"), &target["averageUtilization"], "must be greater than 0");
    }
}

fn budget(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if spec.contains_key("minAvailable") && spec.contains_key("maxUnavailable") {
        let [least, selector, most, policy] =
            ["minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"]
                .map(|field| spec.get(field).unwrap_or(&Value::Null));
        // Upstream shows the fields of its own struct.
        let shown = format!(
            r#"{{"MinAvailable":{least},"Selector":{selector},"MaxUnavailable":{most},"UnhealthyPodEvictionPolicy":{policy}}}"#
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid(&at.path(), Value::Object(spec.clone()), detail).shown_as(shown));
    }
}
