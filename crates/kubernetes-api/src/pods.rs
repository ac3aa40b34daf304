//! Changes of pods other than plain writes: binding to a node, QoS class, graceful deletion, resizing. Evictions are in
//! [`crate::eviction`].

use apimachinery::Status;
use apimachinery::field::{Error as FieldError, Path};
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// The grace period of a deleted pod in seconds: the request's, or else the pod's; zero if the pod is not running.
pub(crate) fn grace_seconds(pod: &Value, requested: Option<i64>) -> i64 {
    let unassigned = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    if unassigned || is_finished(pod) {
        return 0;
    }
    let seconds = requested.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    // Negative periods are one second, as in kube-apiserver.
    if seconds < 0 { 1 } else { seconds }
}

/// Restores all fields that `pods/resize` must not change: everything except the containers' resources.
pub fn keep_but_resources(old: &Value, new: &mut Value) {
    let proposed = std::mem::replace(new, old.clone());
    new["metadata"]["managedFields"] = proposed["metadata"]["managedFields"].clone();
    if new["metadata"]["managedFields"].is_null()
        && let Some(metadata) = new.metadata_mut()
    {
        metadata.remove("managedFields");
    }
    for field in ["containers", "initContainers"] {
        for container in new["spec"][field].as_array_mut().into_iter().flatten() {
            let Some(requested_container) = list(&proposed["spec"][field])
                .find(|requested_container| requested_container["name"] == container["name"])
            else {
                continue;
            };
            for part in ["resources", "resizePolicy"] {
                if let Some(value) = requested_container.get(part) {
                    container[part] = value.clone();
                }
            }
        }
    }
}

/// The pod after a `Binding`: assigned to a node, with the condition PodScheduled.
///
/// # Errors
/// 422 if the binding names no node, 409 if the pod cannot be bound.
pub fn bound(pod: &Value, binding: &Value, now: Time) -> Result<Value, Status> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let target = &binding["target"];
    let node = target["name"].as_str().unwrap_or_default();
    let mut wrong = Vec::new();
    let path = Path::new("target");
    if !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
        wrong.push(FieldError::not_supported(&path.child("kind"), target["kind"].clone(), &["Node", "<empty>"]));
    }
    if node.is_empty() {
        wrong.push(FieldError::required(&path.child("name"), ""));
    }
    if !wrong.is_empty() {
        return Err(Status::invalid("", "Binding", name, &wrong));
    }
    let refuse = |why: String| Err(Status::conflict("", "pods/binding", name, &why));
    if let Some(uid) = binding["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty())
        && Some(uid) != pod["metadata"]["uid"].as_str()
    {
        let found = pod["metadata"]["uid"].as_str().unwrap_or_default();
        return refuse(format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"));
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(current) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return refuse(format!("pod {name} is already assigned to node \"{current}\""));
    }
    if list(&pod["spec"]["schedulingGates"]).next().is_some() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = node.into();
    for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    let generation = pod["metadata"].get("generation").cloned();
    set_scheduled(&mut pod["status"], generation, now);
    Ok(pod)
}

/// The pod with the condition DisruptionTarget, set by its eviction through the API.
#[must_use]
pub fn disrupted(pod: &Value, now: Time) -> Value {
    const TYPE: &str = "DisruptionTarget";
    let mut pod = pod.clone();
    let already = list(&pod["status"]["conditions"]).any(|known| known["type"] == TYPE && known["status"] == "True");
    let mut condition = serde_json::json!({
        "type": TYPE, "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        "lastProbeTime": null, "lastTransitionTime": now,
    });
    if let Some(generation) = pod["metadata"].get("generation") {
        condition["observedGeneration"] = generation.clone();
    }
    if !pod["status"].is_object() {
        pod["status"] = serde_json::json!({});
    }
    match pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        Some(_) if already => {}
        Some(conditions) => {
            conditions.retain(|known| known["type"] != TYPE);
            conditions.push(condition);
        }
        None => pod["status"]["conditions"] = Value::Array(vec![condition]),
    }
    pod
}

fn set_scheduled(status: &mut Value, generation: Option<Value>, now: Time) {
    let mut condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation;
    }
    let Some(status) = status.as_object_mut() else {
        *status = json!({"conditions": [condition]});
        return;
    };
    let Some(conditions) = status.entry("conditions").or_insert_with(|| json!([])).as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

/// Whether a pod may have its own amount of a resource, for all of its containers.
pub(crate) fn has_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The QoS class (`status.qosClass`), by the pod-level resources if the pod has some, or else by those of its containers:
/// the order of evictions when a node runs out of memory.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let whole = &spec["resources"];
    let is_set =
        |part: &str| whole[part].as_object().is_some_and(|amounts| amounts.keys().any(|name| has_pod_level(name)));
    let has_own = is_set("limits") || is_set("requests");
    let containers = || {
        let parts = list(&spec["containers"]).chain(list(&spec["initContainers"]));
        parts.filter(move |_| !has_own).chain(has_own.then_some(spec))
    };
    let amount = |container: &Value, part: &str, resource: &str| {
        let amount = container["resources"][part][resource].as_str()?.parse::<Quantity>().ok()?;
        (!amount.is_zero()).then_some(amount)
    };
    let both = ["cpu", "memory"];
    let guaranteed = containers().all(|container| {
        both.iter().all(|resource| {
            let limit = amount(container, "limits", resource);
            limit.is_some() && limit == amount(container, "requests", resource)
        })
    });
    let none = containers().all(|container| {
        both.iter().all(|resource| {
            amount(container, "limits", resource).is_none() && amount(container, "requests", resource).is_none()
        })
    });
    match (guaranteed, none) {
        (_, true) => "BestEffort",
        (true, _) => "Guaranteed",
        _ => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::new("2026-01-01T00:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn a_binding_assigns_once() {
        let pod = json!({"metadata": {"name": "p", "uid": "1"}, "spec": {}, "status": {"phase": "Pending"}});
        let binding = json!({"target": {"kind": "Node", "name": "n"}});
        let assigned = bound(&pod, &binding, now()).expect("a free pod");
        assert_eq!(assigned["spec"]["nodeName"], "n");
        assert_eq!(assigned["status"]["conditions"][0]["type"], "PodScheduled");
        let again = bound(&assigned, &binding, now()).expect_err("it has a node");
        assert_eq!(
            again.message,
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
        );
        let nowhere = bound(&pod, &json!({"target": {}}), now()).expect_err("no node is named");
        assert_eq!(nowhere.message, "Binding \"p\" is invalid: target.name: Required value");
    }

    #[test]
    fn grace_is_for_running_pods() {
        for (pod, requested, expected) in [
            (json!({"spec": {"terminationGracePeriodSeconds": 30}}), None, 0),
            (json!({"spec": {"terminationGracePeriodSeconds": 30}}), Some(20), 0),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}), None, 5),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 0}}), Some(7), 7),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}), Some(0), 0),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}), Some(-3), 1),
            (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}), None, 0),
        ] {
            assert_eq!(grace_seconds(&pod, requested), expected, "{pod}");
        }
    }

    #[test]
    fn quality_of_service() {
        let of = |resources: Value| qos_class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(of(json!({})), "BestEffort");
        assert_eq!(of(json!({"requests": {"cpu": "1"}})), "Burstable");
        let all = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(of(json!({"limits": all, "requests": all})), "Guaranteed");
        assert_eq!(of(json!({"limits": all, "requests": {"cpu": "1"}})), "Burstable");
        let pod = json!({"resources": {"limits": all, "requests": all}, "containers": [{"resources": {}}]});
        assert_eq!(qos_class(&pod), "Guaranteed");
        let pod = json!({"resources": {"requests": {"cpu": "1"}}, "containers": [{"resources": {}}]});
        assert_eq!(qos_class(&pod), "Burstable");
    }
}
