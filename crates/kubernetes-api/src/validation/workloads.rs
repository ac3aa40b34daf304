//! Everything that makes pods from a template.

use apimachinery::field::{Error, ErrorList};
use serde_json::Value;

use super::at::At;
use super::checks::{percent, selector_of, supported};
use super::table::Function;
use super::{Object, forbidden, invalid, object, pods, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("controller_spec", controller_spec),
    ("daemon_set_spec", daemon_set_spec),
    ("deployment_spec", deployment_spec),
    ("replica_set_spec", replica_set_spec),
    ("rolling_stateful_set", rolling_stateful_set),
    ("stateful_set_spec", stateful_set_spec),
];

/// The selector of a workload and the labels it has to find; `kind` is how the refusal calls the workload.
fn selector(spec: &Object, kind: &str, at: &At<'_>, errors: &mut ErrorList) {
    let at_selector = at.child("selector");
    let Some(value) = spec.get("selector") else {
        required(errors, &at_selector, "");
        // An absent selector matches no pod.
        return finds_template(spec, |_| false, at, errors);
    };
    if value["matchLabels"].is_null() && value["matchExpressions"].is_null() {
        invalid(errors, &at_selector, value, &format!("empty selector is invalid for {kind}"));
    }
    match selector_of(value) {
        None => invalid(errors, &at_selector, value, "invalid label selector"),
        Some(selector) => finds_template(spec, |labels| selector.matches_with(|key| labels[key].as_str()), at, errors),
    }
}

pub(super) fn finds_template(spec: &Object, finds: impl Fn(&Value) -> bool, at: &At<'_>, errors: &mut ErrorList) {
    let labels = spec.get("template").map_or(&Value::Null, |template| &template["metadata"]["labels"]);
    if !finds(labels) {
        let (template, metadata) = (at.child("template"), "metadata");
        let at = template.child(metadata);
        invalid(errors, &at.child("labels"), labels, "`selector` does not match template `labels`");
    }
}

/// Pods of these workloads are always restarted, and not ended by a deadline.
fn lasting_pods(spec: &Object, kind: &str, at: &At<'_>, errors: &mut ErrorList) {
    let Some(pod) = object(spec, "template").and_then(|template| object(template, "spec")) else { return };
    let at = at.child("template");
    let at = at.child("spec");
    if let Some(policy) = pod.get("restartPolicy") {
        supported(policy, &["Always"], &at.child("restartPolicy"), errors);
    }
    if pod.contains_key("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        forbidden(errors, &at.child("activeDeadlineSeconds"), &detail);
    }
}

fn is_zero_share(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value == 0 || percent(value) == Some(0))
}

fn at_most_all(value: Option<&Value>, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(value) = value
        && percent(value).is_some_and(|share| share > 100)
    {
        invalid(errors, at, value, "must not be greater than 100%");
    }
}

fn deployment_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "deployment", at, errors);
    lasting_pods(spec, "ReplicaSet", at, errors);
    if let Some(deadline) = spec.get("progressDeadlineSeconds").and_then(Value::as_i64) {
        let ready = spec.get("minReadySeconds").and_then(Value::as_i64).unwrap_or(0);
        if deadline >= 0 && deadline <= ready {
            let value = Value::from(deadline);
            invalid(errors, &at.child("progressDeadlineSeconds"), &value, "must be greater than minReadySeconds");
        }
    }
    let Some(strategy) = object(spec, "strategy") else { return };
    let at = at.child("strategy");
    if !update_type(strategy, &["Recreate", "RollingUpdate"], &["MaxUnavailable", "MaxSurge"], &at, errors) {
        return;
    }
    let at_rolling = at.child("rollingUpdate");
    match (text(strategy, "type"), object(strategy, "rollingUpdate")) {
        ("Recreate", Some(_)) => {
            forbidden(errors, &at_rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("RollingUpdate", None) => required(errors, &at_rolling, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(rolling)) => {
            let at_unavailable = at_rolling.child("maxUnavailable");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            if is_zero_share(unavailable) && is_zero_share(surge) {
                let value = unavailable.unwrap_or(&Value::Null);
                invalid(errors, &at_unavailable, value, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(unavailable, &at_unavailable, errors);
        }
        _ => {}
    }
}

/// Validates the type of a strategy. Upstream prints the fields of its own structs, the rolling update's in the given
/// order.
fn update_type(strategy: &Object, known: &[&str], rolling: &[&str], at: &At<'_>, errors: &mut ErrorList) -> bool {
    let type_ = text(strategy, "type");
    if known.contains(&type_) {
        return true;
    }
    let parts = object(strategy, "rollingUpdate").map(|update| {
        let part = |name: &&str| {
            let field = format!("{}{}", name[..1].to_lowercase(), &name[1..]);
            format!("{}:{}", Value::from(*name), update.get(&field).unwrap_or(&Value::Null))
        };
        format!("{{{}}}", rolling.iter().map(part).collect::<Vec<_>>().join(","))
    });
    let parts = parts.unwrap_or_else(|| "null".to_owned());
    let shown = format!(r#"{{"Type":{},"RollingUpdate":{parts}}}"#, Value::from(type_));
    let error = Error::not_supported(&at.path(), Value::Object(strategy.clone()), known);
    errors.push(error.shown_as(shown));
    false
}

/// A partition may hold back all pods, but `maxUnavailable` must not be zero.
fn rolling_stateful_set(rolling: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let value = rolling.get("maxUnavailable");
    let at = at.child("maxUnavailable");
    if let Some(value) = value.filter(|value| is_zero_share(Some(value))) {
        invalid(errors, &at, value, "cannot be 0");
    }
    at_most_all(value, &at, errors);
}

fn replica_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "deployment", at, errors);
    lasting_pods(spec, "ReplicaSet", at, errors);
}

fn stateful_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "statefulset", at, errors);
    // Upstream validates only the metadata of the template here; pods are validated when they are created.
    if let Some(template) = object(spec, "template") {
        let at = at.child("template");
        pods::template_metadata(template, &at, errors);
        super::annotations::of_template(template, &at, errors);
    }
    lasting_pods(spec, "StatefulSet", at, errors);
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        invalid(errors, &at.child("podManagementPolicy"), &policy.into(), "must be 'OrderedReady' or 'Parallel'");
    }
    let Some(strategy) = object(spec, "updateStrategy") else { return };
    let type_ = text(strategy, "type");
    if !matches!(type_, "RollingUpdate" | "OnDelete") {
        let rolling = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
        // Upstream prints the fields of its own struct.
        let shown = format!(r#"{{"Type":{},"RollingUpdate":{rolling}}}"#, Value::from(type_));
        let value = Value::Object(strategy.clone());
        let error = Error::invalid(&at.child("updateStrategy").path(), value, "must be 'RollingUpdate' or 'OnDelete'");
        return errors.push(error.shown_as(shown));
    }
    if text(strategy, "type") == "OnDelete" && strategy.contains_key("rollingUpdate") {
        let at = at.child("updateStrategy");
        let value = strategy["rollingUpdate"].clone();
        invalid(errors, &at.child("rollingUpdate"), &value, "only allowed for updateStrategy 'RollingUpdate'");
    }
}

fn daemon_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "daemonset", at, errors);
    lasting_pods(spec, "DaemonSet", at, errors);
    let Some(strategy) = object(spec, "updateStrategy") else { return };
    let at = at.child("updateStrategy");
    if !update_type(strategy, &["RollingUpdate", "OnDelete"], &["MaxUnavailable", "MaxSurge"], &at, errors)
        || strategy["type"] == "OnDelete"
    {
        return;
    }
    let at = at.child("rollingUpdate");
    let Some(rolling) = object(strategy, "rollingUpdate") else { return required(errors, &at, "") };
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    match (is_zero_share(unavailable), is_zero_share(surge)) {
        (true, true) => required(errors, &at.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        (false, false) => {
            let value = surge.unwrap_or(&Value::Null);
            invalid(errors, &at.child("maxSurge"), value, "may not be set when maxUnavailable is non-zero");
        }
        _ => {}
    }
    at_most_all(unavailable, &at.child("maxUnavailable"), errors);
    at_most_all(surge, &at.child("maxSurge"), errors);
}

fn controller_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_selector = at.child("selector");
    match object(spec, "selector").filter(|selector| !selector.is_empty()) {
        None => required(errors, &at_selector, ""),
        Some(desired) => {
            finds_template(spec, |labels| desired.iter().all(|(key, value)| labels[key] == *value), at, errors)
        }
    }
    if !spec.contains_key("template") {
        required(errors, &at.child("template"), "");
    }
    lasting_pods(spec, "ReplicationController", at, errors);
}
