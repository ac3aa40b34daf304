//! Defaults and validates FederatedHPAs. The rules are those of Kubernetes' HorizontalPodAutoscaler (autoscaling/v2).
//! Metrics of type External and scaling to zero need the gate HPAScaleToZero.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::{is_dns1123_label, is_path_segment, is_qualified_name, subdomain_rule, validate_object_meta};
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::quotas::resource_type;
use super::{Denied, Request};

/// autoscaling/v2's bounds, in seconds.
const MAX_STABILIZATION: i64 = 3600;
const MAX_PERIOD: i64 = 1800;

/// Resources with this domain belong to Kubernetes.
const OWN_DOMAIN: &str = "kubernetes.io/";

/// A type of metrics, with the field of its source.
type MetricType = (&'static str, &'static str);

/// In the order in which their sources are validated.
const METRIC_TYPES: &[MetricType] = &[
    ("Object", "object"),
    EXTERNAL,
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
/// Without the gate its source is ignored.
const EXTERNAL: MetricType = ("External", "external");

/// The capabilities that a FederatedHPA may use.
#[derive(Clone, Copy)]
struct Allowed {
    /// The lower bound of `minReplicas`.
    least: i64,
    external: bool,
}

impl Allowed {
    /// As in Kubernetes, capabilities that the stored object uses stay valid without the gate.
    fn by(request: &Request<'_>) -> Self {
        let gate = request.options.scale_to_zero;
        let had_zero = request.old.is_some_and(|old| old["spec"]["minReplicas"] == 0);
        let is_external = |metric: &Value| text(metric, "type") == EXTERNAL.0;
        let had_external = request.old.is_some_and(|old| list(&old["spec"]["metrics"]).iter().any(is_external));
        Self { least: if gate || had_zero { 0 } else { 1 }, external: gate || had_external }
    }

    fn metric_types(self) -> impl Iterator<Item = MetricType> {
        METRIC_TYPES.iter().copied().filter(move |it| self.external || *it != EXTERNAL)
    }
}

/// Sets the defaults of replicas, metrics and behavior.
pub(super) fn mutate(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    fill(spec, "minReplicas", json!(1));
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) && !is_of_wrong_type(spec.get("metrics"))
    {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        spec.insert("metrics".into(), json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]));
    }
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let up = direction(behavior, "scaleUp");
    if let Some(up) = up {
        fill(up, "stabilizationWindowSeconds", json!(0));
        fill(up, "selectPolicy", json!("Max"));
        fill(up, "policies", json!([{ "type": "Pods", "value": 4, "periodSeconds": 15 }, percent]));
    }
    if let Some(down) = direction(behavior, "scaleDown") {
        fill(down, "selectPolicy", json!("Max"));
        fill(down, "policies", json!([percent]));
    }
}

/// Present, and neither null nor a list: the schema rejects it.
fn is_of_wrong_type(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_null() && !value.is_array())
}

fn fill(map: &mut Map<String, Value>, key: &str, default: Value) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), default);
    }
}

fn direction<'a>(behavior: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    fill(behavior, key, json!({}));
    behavior.get_mut(key)?.as_object_mut()
}

pub(super) fn validate(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let allowed = Allowed::by(request);
    let mut errors = validate_object_meta(&object["metadata"], true, subdomain_rule, &Path::new("metadata"));
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let least = spec["minReplicas"].as_i64();
    if let Some(least) = least.filter(|least| *least < allowed.least) {
        let detail = format!("must be greater than or equal to {}", allowed.least);
        errors.push(Error::invalid(&path.child("minReplicas"), least, detail));
    }
    let most = spec["maxReplicas"].as_i64().unwrap_or_default();
    if most < 1 {
        errors.push(Error::invalid(&path.child("maxReplicas"), most, "must be greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(Error::invalid(&path.child("maxReplicas"), most, detail));
    }
    errors.extend(reference(&spec["scaleTargetRef"], &path.child("scaleTargetRef")));
    let (metrics, path_of_metrics) = (list(&spec["metrics"]), path.child("metrics"));
    for (index, metric) in metrics.iter().enumerate() {
        errors.extend(self::metric(metric, allowed, &path_of_metrics.index(index)));
    }
    let starts_from_zero = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if least == Some(0) && allowed.least == 0 && !metrics.iter().any(starts_from_zero) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(&path_of_metrics, detail));
    }
    for name in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][name];
        if rules.is_object() {
            errors.extend(scaling_rules(rules, &path.child("behavior").child(name)));
        }
    }
    for name in ["currentReplicas", "desiredReplicas"] {
        if let Some(count) = object["status"][name].as_i64().filter(|count| *count < 0) {
            errors.push(Error::invalid(&Path::new("status").child(name), count, "must be greater than or equal to 0"));
        }
    }
    Denied::unless_empty(errors)
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Kind and name of a `CrossVersionObjectReference`: they become part of a path.
pub(super) fn reference(target: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for key in ["kind", "name"] {
        errors.extend(segment(text(target, key), &path.child(key), ""));
    }
    errors
}

fn segment(value: &str, path: &Path, missing: &str) -> ErrorList {
    if value.is_empty() {
        return vec![Error::required(path, missing)];
    }
    is_path_segment(value).into_iter().map(|detail| Error::invalid(path, value, detail)).collect()
}

fn metric(metric: &Value, allowed: Allowed, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let type_ = text(metric, "type");
    if type_.is_empty() {
        errors.push(Error::required(&path.child("type"), "must specify a metric source type"));
    }
    let expected = allowed.metric_types().find(|(name, _)| *name == type_).map_or("", |(_, source)| source);
    if expected.is_empty() {
        let mut names: Vec<&str> = allowed.metric_types().map(|(name, _)| name).collect();
        names.sort_unstable();
        errors.push(Error::not_supported(&path.child("type"), type_, &names));
    }
    let sources = allowed.metric_types().map(|(_, source)| source);
    let present: Vec<&str> = sources.filter(|source| metric[*source].is_object()).collect();
    if let Some(first) = present.first() {
        errors.extend(source(first, &metric[*first], &path.child(first)));
    }
    if !expected.is_empty() && !present.contains(&expected) {
        errors.push(Error::required(&path.child(expected), "must populate information for the given metric source"));
    }
    if present.len() != 1 {
        for other in present.into_iter().filter(|source| *source != expected) {
            errors.push(Error::forbidden(&path.child(other), "must populate the given metric source only"));
        }
    }
    errors
}

fn source(name: &str, source: &Value, path: &Path) -> ErrorList {
    let target = path.child("target");
    let (amount, utilization) = (&source["target"]["averageValue"], &source["target"]["averageUtilization"]);
    let mut errors = ErrorList::new();
    match name {
        "object" => {
            errors.extend(reference(&source["describedObject"], &path.child("describedObject")));
            errors.extend(identifier(source, path));
            errors.extend(metric_target(&source["target"], &target));
            if amount.is_null() && source["target"]["value"].is_null() {
                let detail = "must set either a target value or averageValue";
                errors.push(Error::required(&target.child("averageValue"), detail));
            }
        }
        "external" => {
            errors.extend(identifier(source, path));
            errors.extend(metric_target(&source["target"], &target));
            match (amount.is_null(), source["target"]["value"].is_null()) {
                (true, true) => {
                    let detail = "must set either a target value for metric or a per-pod target";
                    errors.push(Error::required(&target.child("averageValue"), detail));
                }
                (false, false) => {
                    let detail = "may not set both a target value for metric and a per-pod target";
                    errors.push(Error::forbidden(&target.child("value"), detail));
                }
                _ => {}
            }
        }
        "pods" => {
            errors.extend(identifier(source, path));
            errors.extend(metric_target(&source["target"], &target));
            if amount.is_null() {
                let detail = "must specify a positive target averageValue";
                errors.push(Error::required(&target.child("averageValue"), detail));
            }
        }
        "resource" | "containerResource" => {
            errors.extend(resource(name == "containerResource", source, path));
            errors.extend(metric_target(&source["target"], &target));
            match (amount.is_null(), utilization.is_null()) {
                (true, true) => {
                    let detail = "must set either a target raw value or a target utilization";
                    errors.push(Error::required(&target.child("averageUtilization"), detail));
                }
                (false, false) => {
                    let detail = "may not set both a target raw value and a target utilization";
                    errors.push(Error::forbidden(&target.child("averageValue"), detail));
                }
                _ => {}
            }
        }
        _ => {}
    }
    errors
}

fn resource(of_container: bool, source: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let name = text(source, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "must specify a resource name"));
    } else if of_container {
        errors.extend(container_resource(name, &path.child("name")));
    }
    if of_container {
        let (container, path) = (text(source, "container"), path.child("container"));
        if container.is_empty() {
            errors.push(Error::required(&path, "must specify a container"));
        } else {
            errors.extend(is_dns1123_label(container).into_iter().map(|it| Error::invalid(&path, container, it)));
        }
    }
    errors
}

/// A resource that a container may request: a standard one, or one with a domain.
fn container_resource(name: &str, path: &Path) -> ErrorList {
    let mut errors = resource_type(name, path);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') {
        if !standard {
            errors.push(Error::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !name.contains(OWN_DOMAIN) && !is_extended(name) {
        errors.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
    errors
}

/// Whether a name is an extended resource: qualified, outside `kubernetes.io/`, not a quota name.
pub(super) fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains(OWN_DOMAIN)
        && !name.starts_with("requests.")
        && is_qualified_name(&format!("requests.{name}")).is_empty()
}

fn identifier(source: &Value, path: &Path) -> ErrorList {
    segment(text(&source["metric"], "name"), &path.child("metric").child("name"), "must specify a metric name")
}

fn metric_target(target: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let type_ = text(target, "type");
    if type_.is_empty() {
        errors.push(Error::required(&path.child("type"), "must specify a metric target type"));
    }
    if !matches!(type_, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&path.child("type"), type_, detail));
    }
    for key in ["value", "averageValue"] {
        let amount = quantity(&target[key]);
        if !target[key].is_null() && amount.is_none_or(|amount| amount <= Quantity::ZERO) {
            let shown = amount.map_or_else(|| target[key].clone(), |amount| amount.to_string().into());
            errors.push(Error::invalid(&path.child(key), shown, "must be positive"));
        }
    }
    if let Some(share) = target["averageUtilization"].as_i64().filter(|share| *share < 1) {
        errors.push(Error::invalid(&path.child("averageUtilization"), share, "must be greater than 0"));
    }
    errors
}

/// A quantity as a string or a number.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn scaling_rules(rules: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(window) = rules["stabilizationWindowSeconds"].as_i64() {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.push(Error::invalid(&path, window, "must be greater than or equal to zero"));
        }
        if window > MAX_STABILIZATION {
            errors.push(Error::invalid(&path, window, format!("must be less than or equal to {MAX_STABILIZATION}")));
        }
    }
    if let Some(select) = rules["selectPolicy"].as_str().filter(|it| !matches!(*it, "Disabled" | "Max" | "Min")) {
        errors.push(Error::not_supported(&path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]));
    }
    let policies = list(&rules["policies"]);
    if policies.is_empty() {
        errors.push(Error::required(&path.child("policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = path.child("policies").index(index);
        let type_ = text(policy, "type");
        if !matches!(type_, "Percent" | "Pods") {
            errors.push(Error::not_supported(&path.child("type"), type_, &["Percent", "Pods"]));
        }
        let number = |key: &str| policy[key].as_i64().unwrap_or_default();
        let (value, period) = (number("value"), number("periodSeconds"));
        if value <= 0 {
            errors.push(Error::invalid(&path.child("value"), value, "must be greater than zero"));
        }
        let path = path.child("periodSeconds");
        if period <= 0 {
            errors.push(Error::invalid(&path, period, "must be greater than zero"));
        }
        if period > MAX_PERIOD {
            errors.push(Error::invalid(&path, period, format!("must be less than or equal to {MAX_PERIOD}")));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::super::{Operation, Options};
    use super::*;

    fn check(scale_to_zero: bool, old: Option<&Value>, object: &Value) -> String {
        let request = Request {
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            group: "autoscaling.karmada.io",
            kind: "FederatedHPA",
            namespace: "default",
            old,
            uuid: "",
            customizations: &[],
            options: Options { scale_to_zero, ..Options::default() },
        };
        validate(&request, object).err().map(|denied| denied.to_string()).unwrap_or_default()
    }

    fn hpa(least: i64, metrics: &Value) -> Value {
        json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {"minReplicas": least, "maxReplicas": 9,
            "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": metrics}})
    }

    fn external(target: &Value) -> Value {
        json!([{"type": "External", "external": {"metric": {"name": "jobs"}, "target": target}}])
    }

    #[test]
    fn zero_and_external_metrics_need_the_gate() {
        let jobs = external(&json!({"type": "AverageValue", "averageValue": "30"}));
        let cpu = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
        let of_object = json!([{"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "web"},
            "metric": {"name": "hits"}, "target": {"type": "Value", "value": "30"}}}]);
        let unsupported = "spec.metrics[0].type: Unsupported value: \"External\": supported values: \"ContainerResource\", \"Object\", \"Pods\", \"Resource\"";
        assert_eq!(check(false, None, &hpa(1, &jobs)), unsupported);
        let refused = check(false, None, &hpa(0, &of_object));
        assert_eq!(refused, "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1");
        for metrics in [&jobs, &of_object] {
            for least in [0, 1] {
                assert_eq!(check(true, None, &hpa(least, metrics)), "", "{least} {metrics}");
            }
        }
        let forbidden = "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas";
        assert_eq!(check(true, None, &hpa(0, &cpu)), forbidden);
        assert_eq!(check(true, None, &hpa(1, &cpu)), "");
        let below = check(true, None, &hpa(-1, &jobs));
        assert_eq!(below, "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0");

        // The stored object stays valid after the gate is disabled.
        let stored = hpa(0, &jobs);
        assert_eq!(check(false, Some(&stored), &stored), "");
        assert_ne!(check(false, Some(&hpa(1, &cpu)), &stored), "");
    }

    #[test]
    fn external_targets() {
        let neither = check(true, None, &hpa(1, &external(&json!({"type": "Value"}))));
        assert_eq!(
            neither,
            "spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target"
        );
        let both = check(true, None, &hpa(1, &external(&json!({"type": "Value", "value": "1", "averageValue": "1"}))));
        assert_eq!(
            both,
            "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"
        );
    }
}
