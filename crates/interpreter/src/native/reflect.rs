//! Selects the part of a member object's status to collect.

use karmada_api::constants::annotations;
use serde_json::{Map, Value, json};

use crate::tree::{at, int, text};
use crate::{Error, Kind, Operation};

/// The collected fields of a status, and those of them that are written even if they are zero.
fn fields(kind: Kind) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match kind {
        Kind::Deployment => (
            &[
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "observedGeneration",
            ],
            &[],
        ),
        Kind::ReplicaSet => (&["replicas", "readyReplicas", "availableReplicas", "observedGeneration"], &["replicas"]),
        Kind::DaemonSet => (
            &[
                "currentNumberScheduled",
                "desiredNumberScheduled",
                "numberAvailable",
                "numberMisscheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberUnavailable",
                "observedGeneration",
            ],
            &["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"],
        ),
        // Upstream omits the observed generation, so the template's never advances; collecting it is our addition.
        Kind::StatefulSet => (
            &[
                "availableReplicas",
                "currentReplicas",
                "readyReplicas",
                "replicas",
                "updatedReplicas",
                "observedGeneration",
            ],
            &["replicas", "availableReplicas"],
        ),
        Kind::Job => (&["active", "succeeded", "failed", "conditions", "startTime", "completionTime"], &[]),
        Kind::PodDisruptionBudget => (
            &["disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy", "disruptedPods"],
            &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
        ),
        Kind::HorizontalPodAutoscaler => (&["currentReplicas", "desiredReplicas"], &["desiredReplicas"]),
        _ => return None,
    })
}

pub fn reflect(object: &Value) -> Result<Option<Value>, Error> {
    let status = &object["status"];
    if status.is_null() {
        return Ok(None);
    }
    let malformed = |detail: String| Error::malformed(Operation::InterpretStatus, object, detail);
    if !status.is_object() {
        return Err(malformed("the status is not an object".to_owned()));
    }
    let Some(kind) = Kind::of(object) else { return Ok(Some(status.clone())) };
    if kind == Kind::Service {
        let balanced = text(object, &["spec", "type"]) == "LoadBalancer";
        let balancer = if status["loadBalancer"].is_object() { status["loadBalancer"].clone() } else { json!({}) };
        return Ok(balanced.then(|| json!({ "loadBalancer": balancer })));
    }
    let Some((fields, always)) = fields(kind) else { return Ok(Some(status.clone())) };
    let mut out = Map::new();
    for field in fields {
        if is_counter(field) && !status[*field].is_null() && !status[*field].is_i64() {
            return Err(malformed(format!("status.{field} is {}, not an integer", status[*field])));
        }
        if !is_zero(&status[*field]) {
            out.insert((*field).to_owned(), status[*field].clone());
        } else if always.contains(field) {
            out.insert((*field).to_owned(), json!(0));
        }
    }
    if kind == Kind::HorizontalPodAutoscaler {
        out.insert("currentMetrics".to_owned(), Value::Null);
    }
    if matches!(kind, Kind::Deployment | Kind::ReplicaSet | Kind::DaemonSet | Kind::StatefulSet) {
        generations(object, &mut out)?;
    }
    Ok(Some(Value::Object(out)))
}

fn is_counter(field: &str) -> bool {
    !matches!(field, "conditions" | "startTime" | "completionTime" | "disruptedPods")
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) => false,
    }
}

/// The generation in the member, and the template's generation that it was created from.
fn generations(object: &Value, out: &mut Map<String, Value>) -> Result<(), Error> {
    let generation = int(object, &["metadata", "generation"]);
    if generation != 0 {
        out.insert("generation".to_owned(), json!(generation));
    }
    let key = annotations::TEMPLATE_GENERATION;
    let template: i64 = match at(object, &["metadata", "annotations", key]).as_str().map(str::parse) {
        Some(Ok(template)) => template,
        Some(Err(_)) | None => {
            let detail = format!("annotation {key} is missing or not a number");
            return Err(Error::malformed(Operation::InterpretStatus, object, detail));
        }
    };
    if template != 0 {
        out.insert("resourceTemplateGeneration".to_owned(), json!(template));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(api: &str, kind: &str, status: Value) -> Value {
        json!({"apiVersion": api, "kind": kind, "status": status,
            "metadata": {"generation": 4, "annotations": {"resourcetemplate.karmada.io/generation": "3"}}})
    }

    #[test]
    fn status_is_reflected() {
        for (input, expected) in [
            (
                object("apps/v1", "Deployment", json!({"replicas": 2, "readyReplicas": 0, "conditions": [1]})),
                json!({"generation": 4, "resourceTemplateGeneration": 3, "replicas": 2}),
            ),
            (
                object("apps/v1", "ReplicaSet", json!({})),
                json!({"generation": 4, "resourceTemplateGeneration": 3, "replicas": 0}),
            ),
            (
                object(
                    "apps/v1",
                    "DaemonSet",
                    json!({"numberAvailable": 1, "observedGeneration": 4, "collisionCount": 1}),
                ),
                json!({"generation": 4, "resourceTemplateGeneration": 3, "currentNumberScheduled": 0, "numberMisscheduled": 0,
                    "desiredNumberScheduled": 0, "numberReady": 0, "numberAvailable": 1, "observedGeneration": 4}),
            ),
            (
                object("apps/v1", "StatefulSet", json!({"currentReplicas": 1, "currentRevision": "r"})),
                json!({"generation": 4, "resourceTemplateGeneration": 3, "replicas": 0, "availableReplicas": 0, "currentReplicas": 1}),
            ),
            (
                object(
                    "policy/v1",
                    "PodDisruptionBudget",
                    json!({"disruptedPods": {"p": "t"}, "observedGeneration": 4}),
                ),
                json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptedPods": {"p": "t"}}),
            ),
            (
                object(
                    "batch/v1",
                    "Job",
                    json!({"succeeded": 1, "startTime": "t", "completionTime": "u", "conditions": [1], "ready": 1}),
                ),
                json!({"succeeded": 1, "startTime": "t", "completionTime": "u", "conditions": [1]}),
            ),
            (object("networking.k8s.io/v1", "Ingress", json!({"loadBalancer": {}})), json!({"loadBalancer": {}})),
            (object("v1", "Pod", json!({"phase": "Running", "podIP": "x"})), json!({"phase": "Running", "podIP": "x"})),
            (object("batch/v1", "Job", json!({"active": 0})), json!({})),
            (object("example.com/v1", "Foo", json!({"a": [0]})), json!({"a": [0]})),
            (
                object("autoscaling/v2", "HorizontalPodAutoscaler", json!({"currentReplicas": 2})),
                json!({"currentReplicas": 2, "desiredReplicas": 0, "currentMetrics": null}),
            ),
        ] {
            assert_eq!(reflect(&input).unwrap(), Some(expected), "{input}");
        }
        // A kind without generations, and a template from before they were recorded.
        let mut uncounted = object("apps/v1", "Deployment", json!({"replicas": 2}));
        uncounted["metadata"] = json!({"annotations": {"resourcetemplate.karmada.io/generation": "0"}});
        assert_eq!(reflect(&uncounted).unwrap(), Some(json!({"replicas": 2})));
        assert_eq!(reflect(&json!({"apiVersion": "v1", "kind": "Service", "status": {}})).unwrap(), None);
        assert_eq!(reflect(&json!({"apiVersion": "v1", "kind": "ConfigMap"})).unwrap(), None);
        let balanced = |status: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}, "status": status});
        let of = json!({"loadBalancer": {"ingress": [{"ip": "x"}]}});
        assert_eq!(reflect(&balanced(of.clone())).unwrap(), Some(of));
        assert_eq!(reflect(&balanced(json!({"conditions": [1]}))).unwrap(), Some(json!({"loadBalancer": {}})));
        let mut bare = object("apps/v1", "Deployment", json!({"replicas": 2}));
        bare["metadata"] = json!({});
        assert!(reflect(&bare).is_err());
        bare["metadata"] = json!({"annotations": {"resourcetemplate.karmada.io/generation": "much"}});
        assert!(reflect(&bare).is_err());
        for status in [json!("a text"), json!(["a list"]), json!(3)] {
            for (api, kind) in [("example.com/v1", "Foo"), ("apps/v1", "Deployment"), ("v1", "Service")] {
                let mut malformed = object(api, kind, status.clone());
                malformed["spec"] = json!({"type": "LoadBalancer"});
                assert!(crate::Interpreter::default().reflect_status(&malformed).is_err(), "{kind} {status}");
            }
        }
        assert!(reflect(&object("apps/v1", "Deployment", json!({"replicas": "2"}))).is_err());
    }
}
