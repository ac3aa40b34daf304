//! Nodes that are not ready yet, and how long pods stay on nodes that no longer are.

use serde_json::{Value, json};

use super::{list, made, text};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Default toleration, in seconds, of the not-ready and unreachable taints.
const TOLERATED_SECONDS: i64 = 300;

/// Adds the default tolerations for the taints of a failing node.
pub fn tolerate_failure(pod: &mut Value) {
    let mut tolerations: Vec<Value> = list(&pod["spec"]["tolerations"]).cloned().collect();
    let before = tolerations.len();
    for key in [NOT_READY, UNREACHABLE] {
        let tolerated = tolerations.iter().any(|toleration| {
            (text(toleration, "key") == key || text(toleration, "key").is_empty())
                && matches!(text(toleration, "effect"), "" | "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
    if let Some(spec) = made(pod, "spec").filter(|_| tolerations.len() > before) {
        spec.insert("tolerations".into(), tolerations.into());
    }
}

/// Taints a new node until its readiness is known.
pub fn taint_new(node: &mut Value) {
    let Some(spec) = made(node, "spec") else { return };
    let Some(taints) = spec.entry("taints").or_insert_with(|| json!([])).as_array_mut() else { return };
    if !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

/// Fields that a pod without a runtime class may not set.
///
/// # Errors
/// Why the pod needs a runtime class.
pub fn check_without_runtime_class(pod: &Value) -> Result<(), String> {
    let overhead = pod["spec"]["overhead"].as_object();
    if overhead.is_some_and(|amounts| !amounts.is_empty()) { Err(NO_OVERHEAD.to_owned()) } else { Ok(()) }
}

const NO_OVERHEAD: &str = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// Applies a runtime class to a pod: its overhead, and the nodes that have the runtime.
///
/// # Errors
/// Why the pod contradicts the class.
pub fn apply_runtime_class(pod: &mut Value, class: &Value) -> Result<(), String> {
    let Some(spec) = made(pod, "spec") else { return Ok(()) };
    let overhead = &class["overhead"]["podFixed"];
    if overhead.is_object() {
        if spec.get("overhead").is_some_and(|specified| specified != overhead) {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        spec.insert("overhead".into(), overhead.clone());
    } else if spec.contains_key("overhead") {
        return Err(NO_OVERHEAD.to_owned());
    }
    let scheduling = &class["scheduling"];
    for (label, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let Some(selector) = spec.entry("nodeSelector").or_insert_with(|| json!({})).as_object_mut() else { continue };
        if selector.get(label).is_some_and(|specified| specified != value) {
            return Err(format!("conflict: runtimeClass.scheduling.nodeSelector[{label}]={value} is not the pod's"));
        }
        selector.insert(label.clone(), value.clone());
    }
    let class_tolerations: Vec<Value> = list(&scheduling["tolerations"]).cloned().collect();
    if let Some(tolerations) =
        spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut().filter(|_| !class_tolerations.is_empty())
    {
        let missing: Vec<Value> =
            class_tolerations.into_iter().filter(|toleration| !tolerations.contains(toleration)).collect();
        tolerations.extend(missing);
    }
    if spec.get("tolerations").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        spec.remove("tolerations");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tolerated_by_default() {
        for (input, expected) in [
            (json!([]), 2),
            (json!([{"operator": "Exists"}]), 1),
            (json!([{"operator": "Exists", "effect": "NoSchedule"}]), 3),
            (json!([{"key": NOT_READY, "operator": "Exists", "tolerationSeconds": 5}]), 2),
        ] {
            let mut pod = json!({"spec": {"tolerations": input}});
            tolerate_failure(&mut pod);
            assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(expected), "{input}");
        }
    }

    #[test]
    fn runtime_classes_set_overhead_and_nodes() {
        let class = json!({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"gvisor": "yes"}}});
        let mut pod = json!({"spec": {}});
        assert_eq!(apply_runtime_class(&mut pod, &class), Ok(()));
        assert_eq!(pod["spec"], json!({"overhead": {"cpu": "1"}, "nodeSelector": {"gvisor": "yes"}}));
        let mut other = json!({"spec": {"overhead": {"cpu": "2"}}});
        assert!(apply_runtime_class(&mut other, &class).is_err());
    }

    #[test]
    fn new_nodes_are_tainted_once() {
        let mut node = json!({});
        taint_new(&mut node);
        taint_new(&mut node);
        assert_eq!(node["spec"]["taints"], json!([{"key": NOT_READY, "effect": "NoSchedule"}]));
    }
}
