//! HorizontalPodAutoscalers, in version v2.

use serde_json::Value;

use super::super::lines::Lines;
use super::{items, number, rfc1123, text, values};

pub fn autoscaler(lines: &mut Lines, object: &Value) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("CreationTimestamp:\t{}", rfc1123(&text(&metadata["creationTimestamp"]))));
    let target = &spec["scaleTargetRef"];
    lines.text(0, &format!("Reference:\t{}/{}", text(&target["kind"]), text(&target["name"])));
    lines.text(0, "Metrics:\t( current / target )");
    for (position, metric) in items(&spec["metrics"]).enumerate() {
        let current = &status["currentMetrics"][position];
        let (label, shown) = self::metric(metric, current);
        lines.text(1, &format!("{label}:\t{shown}"));
    }
    let least = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |it| it.to_string());
    lines.text(0, &format!("Min replicas:\t{least}"));
    lines.text(0, &format!("Max replicas:\t{}", number(&spec["maxReplicas"])));
    if spec["behavior"].is_object() {
        lines.text(0, "Behavior:");
        for (label, field) in [("Scale Up:", "scaleUp"), ("Scale Down:", "scaleDown")] {
            behavior(lines, label, &spec["behavior"][field]);
        }
    }
    let [now, desired] = ["currentReplicas", "desiredReplicas"].map(|field| number(&status[field]));
    lines.text(0, &format!("{} pods:\t{now} current / {desired} desired", text(&target["kind"])));
    if items(&status["conditions"]).next().is_some() {
        lines.text(0, "Conditions:");
        lines.text(1, "Type\tStatus\tReason\tMessage");
        lines.text(1, "----\t------\t------\t-------");
        for condition in items(&status["conditions"]) {
            let [type_, state, reason, message] =
                ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
            lines.text(1, &format!("{type_}\t{state}\t{reason}\t{message}"));
        }
    }
}

fn behavior(lines: &mut Lines, label: &str, rules: &Value) {
    if !rules.is_object() {
        return;
    }
    lines.text(1, label);
    if let Some(window) = rules["stabilizationWindowSeconds"].as_i64() {
        lines.text(2, &format!("Stabilization Window: {window} seconds"));
    }
    if items(&rules["policies"]).next().is_none() {
        return;
    }
    lines.text(2, &format!("Select Policy: {}", rules["selectPolicy"].as_str().unwrap_or("Max")));
    lines.text(2, "Policies:");
    for policy in items(&rules["policies"]) {
        let (value, period) = (number(&policy["value"]), number(&policy["periodSeconds"]));
        lines.text(3, &format!("- Type: {}\tValue: {value}\tPeriod: {period} seconds", text(&policy["type"])));
    }
}

/// The name of a metric, and its current and its target value.
fn metric(spec: &Value, current: &Value) -> (String, String) {
    let field = match text(&spec["type"]).as_str() {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        other => return (format!("<unknown metric type {other:?}>"), String::new()),
    };
    let (source, now) = (&spec[field], &current[field]["current"]);
    let name = || format!("\"{}\"", text(&source["metric"]["name"]));
    // A value that a known metric lacks is a nil pointer to Go.
    let known = |value: &str| match &now[value] {
        Value::Null if current[field].is_object() => "<nil>".to_owned(),
        Value::Null => "<unknown>".to_owned(),
        value => values(value),
    };
    let target = &source["target"];
    let kind = text(&target["type"]);
    let of_average = || format!("{} / {}", known("averageValue"), values(&target["averageValue"]));
    let of_value = || format!("{} / {}", known("value"), values(&target["value"]));
    match field {
        "resource" | "containerResource" => {
            let name = match field {
                "resource" => format!("resource {} on pods", text(&source["name"])),
                _ => format!(
                    "resource {} of container \"{}\" on pods",
                    text(&source["name"]),
                    text(&source["container"])
                ),
            };
            if kind == "AverageValue" {
                return (name, of_average());
            }
            let used = match (now["averageUtilization"].as_i64(), known("averageValue")) {
                (None, _) => "<unknown>".to_owned(),
                (Some(share), value) => format!("{share}% ({value})"),
            };
            let wanted =
                target["averageUtilization"].as_i64().map_or_else(|| "<auto>".to_owned(), |it| format!("{it}%"));
            (format!("{name}  (as a percentage of request)"), format!("{used} / {wanted}"))
        }
        "pods" => (format!("{} on pods", name()), of_average()),
        _ => {
            let place = match field {
                "object" => {
                    let object = &source["describedObject"];
                    format!("{} on {}/{}", name(), text(&object["kind"]), text(&object["name"]))
                }
                _ => name(),
            };
            match kind.as_str() {
                "AverageValue" => (format!("{place} (target average value)"), of_average()),
                _ => (format!("{place} (target value)"), of_value()),
            }
        }
    }
}
