//! Server-populated fields of pods: QoS class, labels, and fields that replace deprecated annotations.

use apimachinery::resource::RequestContext;
use serde_json::{Value, json};

use super::made;
use crate::pods::qos_class;

pub(super) fn create(context: &RequestContext, pod: &mut Value) {
    let class = qos_class(&pod["spec"]);
    if let Some(Value::Object(status)) = made(pod, "status") {
        status.insert("qosClass".into(), class.into());
    }
    set_gated_condition(context, pod);
    select_like_itself(pod);
    confine(pod);
}

/// Adds the condition of a pod with scheduling gates; schedulers skip the pod until the gates are removed.
fn set_gated_condition(context: &RequestContext, pod: &mut Value) {
    if pod["spec"]["schedulingGates"].as_array().is_none_or(Vec::is_empty) {
        return;
    }
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null, "lastTransitionTime": context.now.to_string(),
    });
    if let Some(Value::Object(status)) = made(pod, "status") {
        status.insert("conditions".into(), json!([condition]));
    }
}

/// Adds the pod's own label values to the selectors of constraints with `matchLabelKeys` or `mismatchLabelKeys`.
fn select_like_itself(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = &mut spec["affinity"];
        let Some(affinity) = affinity.get_mut(kind) else { continue };
        for term in items(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys(term, &labels);
        }
        for weighted in items(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge_keys(term, &labels);
            }
        }
    }
    for constraint in items(spec, "topologySpreadConstraints") {
        merge_keys(constraint, &labels);
    }
    // Indexing has created an empty affinity.
    if let Some(spec) = spec.as_object_mut().filter(|spec| spec["affinity"].is_null()) {
        spec.remove("affinity");
    }
}

fn items<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge_keys(term: &mut Value, labels: &Value) {
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term[field].as_array().cloned().unwrap_or_default();
        let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
        for key in keys {
            let Some(value) = key.as_str().and_then(|key| labels.get(key)) else { continue };
            let expression = json!({"key": key, "operator": operator, "values": [value]});
            let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
            if let Some(expressions) = expressions.as_array_mut() {
                expressions.push(expression);
            }
        }
    }
}

/// Copies the profiles of container annotations into the containers' fields.
fn confine(pod: &mut Value) {
    let annotations = pod["metadata"]["annotations"].clone();
    if annotations.is_null() || pod["spec"]["os"]["name"] == "windows" {
        return;
    }
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, list) {
            let name = container["name"].as_str().unwrap_or_default();
            let annotation = annotations[format!("{}{name}", crate::validation::APPARMOR)].as_str();
            let Some(profile) = annotation.and_then(profile).filter(|profile| *profile != of_pod) else { continue };
            let own = container.get("securityContext").is_some_and(|context| context["appArmorProfile"].is_object());
            if !own && let Some(Value::Object(context)) = made(container, "securityContext") {
                context.insert("appArmorProfile".into(), profile);
            }
        }
    }
}

/// The field's value for an annotation; `None` for an invalid one.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let path = annotation.strip_prefix("localhost/").filter(|path| !path.is_empty() && path.trim() == *path)?;
            Some(json!({"type": "Localhost", "localhostProfile": path}))
        }
    }
}

/// Fields that a status update keeps if they are absent: the QoS class, which is immutable, and `observedGeneration`.
pub(super) fn keep(old: &Value, pod: &mut Value) {
    keep_class(old, pod);
    keep_generations(old, pod);
}

fn keep_class(old: &Value, pod: &mut Value) {
    let class = &old["status"]["qosClass"];
    let is_unset = pod["status"]["qosClass"].as_str().unwrap_or_default().is_empty();
    if let Some(Value::Object(status)) = made(pod, "status").filter(|_| is_unset && !class.is_null()) {
        status.insert("qosClass".into(), class.clone());
    }
}

fn keep_generations(old: &Value, pod: &mut Value) {
    const GENERATION: &str = "observedGeneration";
    let keep = |was: &Value, is: &mut Value| {
        let is_unset = is[GENERATION].as_i64().unwrap_or(0) == 0;
        if let (Some(before), Some(map)) = (was.get(GENERATION), is.as_object_mut())
            && is_unset
        {
            map.insert(GENERATION.into(), before.clone());
        } else if let Some(map) = is.as_object_mut().filter(|map| map.get(GENERATION).is_some_and(Value::is_null)) {
            map.remove(GENERATION);
        }
    };
    let before = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut used = vec![false; before.len()];
    let Some(status) = pod.get_mut("status") else { return };
    keep(&old["status"], status);
    // There may be several conditions of one type; they correspond in order.
    for condition in items(status, "conditions") {
        let same = |(index, was): &(usize, &Value)| !used[*index] && was["type"] == condition["type"];
        if let Some((index, was)) = before.iter().enumerate().find(same) {
            used[index] = true;
            keep(was, condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> RequestContext {
        RequestContext {
            now: apimachinery::meta::Time::new("2026-01-01T00:00:00Z".parse().expect("a time")),
            user: String::new(),
            groups: Vec::new(),
            subresource: String::new(),
            dry_run: false,
        }
    }

    #[test]
    fn pods_keep_their_class() {
        let old = json!({"status": {"qosClass": "Burstable", "phase": "Pending"}});
        let rows = [
            (json!({"status": {"phase": "Running"}}), json!({"status": {"phase": "Running", "qosClass": "Burstable"}})),
            (json!({"status": {"qosClass": ""}}), json!({"status": {"qosClass": "Burstable"}})),
            (json!({}), json!({"status": {"qosClass": "Burstable"}})),
            (json!({"status": {"qosClass": "Guaranteed"}}), json!({"status": {"qosClass": "Guaranteed"}})),
        ];
        for (mut pod, expected) in rows {
            keep_class(&old, &mut pod);
            assert_eq!(pod, expected);
        }
    }

    #[test]
    fn observed_generations_are_kept() {
        let old = json!({"status": {"observedGeneration": 2, "conditions": [
            {"type": "Ready", "observedGeneration": 1}, {"type": "Ready", "observedGeneration": 2}]}});
        let mut pod = json!({"status": {"conditions": [
            {"type": "Ready"}, {"type": "Ready"}, {"type": "Ready"}, {"type": "Other", "observedGeneration": 7}]}});
        keep(&old, &mut pod);
        let expected = json!({"status": {"observedGeneration": 2, "conditions": [
            {"type": "Ready", "observedGeneration": 1}, {"type": "Ready", "observedGeneration": 2}, {"type": "Ready"},
            {"type": "Other", "observedGeneration": 7}]}});
        assert_eq!(pod, expected);
    }

    #[test]
    fn new_pods_are_completed() {
        const KEY: &str = "container.apparmor.security.beta.kubernetes.io/c";
        for (input, pointer, expected) in [
            (
                json!({"spec": {"schedulingGates": [{"name": "a"}]}}),
                "/status/conditions/0/reason",
                json!("SchedulingGated"),
            ),
            (json!({"spec": {}}), "/spec", json!({})),
            (
                json!({"metadata": {"labels": {"v": "1"}}, "spec": {"topologySpreadConstraints": [
                    {"labelSelector": {}, "matchLabelKeys": ["v", "w"]}, {"matchLabelKeys": ["v"]}]}}),
                "/spec/topologySpreadConstraints",
                json!([
                    {"labelSelector": {"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]},
                     "matchLabelKeys": ["v", "w"]},
                    {"matchLabelKeys": ["v"]},
                ]),
            ),
            (
                json!({"metadata": {"labels": {"v": "1"}}, "spec": {"affinity": {"podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {
                        "labelSelector": {}, "mismatchLabelKeys": ["v"]}}]}}}}),
                "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector",
                json!({"matchExpressions": [{"key": "v", "operator": "NotIn", "values": ["1"]}]}),
            ),
            (
                json!({"metadata": {"annotations": {KEY: "localhost/x"}}, "spec": {"containers": [{"name": "c"}]}}),
                "/spec/containers/0/securityContext",
                json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}),
            ),
            (
                json!({"metadata": {"annotations": {KEY: "runtime/default"}}, "spec": {
                    "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}, "containers": [{"name": "c"}]}}),
                "/spec/containers/0",
                json!({"name": "c"}),
            ),
        ] {
            let mut pod = input.clone();
            create(&context(), &mut pod);
            assert_eq!(pod.pointer(pointer), Some(&expected), "{input}");
        }
    }
}
