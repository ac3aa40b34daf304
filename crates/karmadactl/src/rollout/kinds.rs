//! How far the rollout of one workload is, by kubectl's rules and in its words.

use serde_json::Value;

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Waiting(String),
    Done(String),
    /// It does not finish without a change.
    Failed(String),
}

impl Step {
    pub fn text(&self) -> &str {
        match self {
            Self::Waiting(text) | Self::Done(text) | Self::Failed(text) => text,
        }
    }
}

/// The kinds that have rollouts.
pub fn rolls_out(group: &str, kind: &str) -> bool {
    group == "apps" && matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet")
}

/// The state of a workload's rollout; `None` for kinds without rollouts.
pub fn step(object: &Value) -> Option<Step> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["kind"].as_str()? {
        "Deployment" => Some(deployment(name, object)),
        "DaemonSet" => Some(daemon_set(name, object)),
        "StatefulSet" => Some(stateful_set(name, object)),
        _ => None,
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Whether the controller has observed the newest spec.
fn is_observed(object: &Value) -> bool {
    number(&object["metadata"]["generation"]) <= number(&object["status"]["observedGeneration"])
}

fn deployment(name: &str, object: &Value) -> Step {
    let status = &object["status"];
    if !is_observed(object) {
        return Step::Waiting("Waiting for deployment spec update to be observed...".to_owned());
    }
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let stuck = conditions.iter().any(|it| it["type"] == "Progressing" && it["reason"] == "ProgressDeadlineExceeded");
    if stuck {
        return Step::Failed(format!("deployment {name:?} exceeded its progress deadline"));
    }
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let [all, updated, available] =
        ["replicas", "updatedReplicas", "availableReplicas"].map(|field| number(&status[field]));
    let waiting = format!("Waiting for deployment {name:?} rollout to finish:");
    if updated < replicas {
        Step::Waiting(format!("{waiting} {updated} out of {replicas} new replicas have been updated..."))
    } else if all > updated {
        Step::Waiting(format!("{waiting} {} old replicas are pending termination...", all - updated))
    } else if available < updated {
        Step::Waiting(format!("{waiting} {available} of {updated} updated replicas are available..."))
    } else {
        Step::Done(format!("deployment {name:?} successfully rolled out"))
    }
}

fn daemon_set(name: &str, object: &Value) -> Step {
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Step::Failed(format!("daemon set {name:?} has no rollouts: its update strategy is not RollingUpdate"));
    }
    if !is_observed(object) {
        return Step::Waiting("Waiting for daemon set spec update to be observed...".to_owned());
    }
    let status = &object["status"];
    let [desired, updated, available] =
        ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"].map(|field| number(&status[field]));
    let waiting = format!("Waiting for daemon set {name:?} rollout to finish:");
    if updated < desired {
        Step::Waiting(format!("{waiting} {updated} out of {desired} new pods have been updated..."))
    } else if available < desired {
        Step::Waiting(format!("{waiting} {available} of {desired} updated pods are available..."))
    } else {
        Step::Done(format!("daemon set {name:?} successfully rolled out"))
    }
}

fn stateful_set(name: &str, object: &Value) -> Step {
    let (spec, status) = (&object["spec"], &object["status"]);
    let strategy = &spec["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return Step::Failed(format!(
            "stateful set {name:?} has no rollouts: its update strategy is not RollingUpdate"
        ));
    }
    if number(&status["observedGeneration"]) == 0 || !is_observed(object) {
        return Step::Waiting("Waiting for statefulset spec update to be observed...".to_owned());
    }
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let [ready, updated, current] =
        ["readyReplicas", "updatedReplicas", "currentReplicas"].map(|field| number(&status[field]));
    let revision = status["updateRevision"].as_str().unwrap_or_default();
    if ready < replicas {
        return Step::Waiting(format!("Waiting for {} pods to be ready...", replicas - ready));
    }
    let partition = number(&strategy["rollingUpdate"]["partition"]);
    if partition > 0 {
        let rolled = (replicas - partition).max(0);
        return if updated < rolled {
            let text = "Waiting for partitioned roll out to finish:";
            Step::Waiting(format!("{text} {updated} out of {rolled} new pods have been updated..."))
        } else {
            Step::Done(format!("partitioned roll out complete: {updated} new pods have been updated..."))
        };
    }
    if status["updateRevision"] != status["currentRevision"] {
        let text = "waiting for statefulset rolling update to complete";
        return Step::Waiting(format!("{text} {updated} pods at revision {revision}..."));
    }
    Step::Done(format!("statefulset rolling update complete {current} pods at revision {revision}..."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: &str, spec: Value, status: Value, expected: &str) {
        let object =
            json!({"kind": kind, "metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status});
        let shown = match step(&object) {
            None => "-".to_owned(),
            Some(Step::Waiting(text)) => format!("W {text}"),
            Some(Step::Done(text)) => format!("D {text}"),
            Some(Step::Failed(text)) => format!("F {text}"),
        };
        assert_eq!(shown, expected, "{object}");
    }

    #[test]
    fn deployments() {
        let check = |status, expected: &str| check("Deployment", json!({"replicas": 3}), status, expected);
        check(json!({}), "W Waiting for deployment spec update to be observed...");
        let begun = "W Waiting for deployment \"web\" rollout to finish:";
        check(
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1}),
            &format!("{begun} 1 out of 3 new replicas have been updated..."),
        );
        check(
            json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": 3, "availableReplicas": 3}),
            &format!("{begun} 1 old replicas are pending termination..."),
        );
        check(
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}),
            &format!("{begun} 2 of 3 updated replicas are available..."),
        );
        check(
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}),
            "D deployment \"web\" successfully rolled out",
        );
        let stuck = json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]);
        check(
            json!({"observedGeneration": 2, "conditions": stuck}),
            "F deployment \"web\" exceeded its progress deadline",
        );
    }

    #[test]
    fn daemon_sets() {
        let check = |status, expected: &str| check("DaemonSet", json!({}), status, expected);
        check(json!({"observedGeneration": 1}), "W Waiting for daemon set spec update to be observed...");
        let begun = "W Waiting for daemon set \"web\" rollout to finish:";
        check(
            json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1}),
            &format!("{begun} 1 out of 2 new pods have been updated..."),
        );
        check(
            json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}),
            &format!("{begun} 1 of 2 updated pods are available..."),
        );
        check(json!({"observedGeneration": 2}), "D daemon set \"web\" successfully rolled out");
    }

    #[test]
    fn stateful_sets() {
        let plain = json!({"replicas": 2});
        let check = |spec: &Value, status, expected: &str| check("StatefulSet", spec.clone(), status, expected);
        check(&plain, json!({}), "W Waiting for statefulset spec update to be observed...");
        check(&plain, json!({"observedGeneration": 2, "readyReplicas": 1}), "W Waiting for 1 pods to be ready...");
        let between = json!({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 1,
            "updateRevision": "web-2", "currentRevision": "web-1"});
        check(&plain, between, "W waiting for statefulset rolling update to complete 1 pods at revision web-2...");
        let done = json!({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentReplicas": 2,
            "updateRevision": "web-2", "currentRevision": "web-2"});
        check(&plain, done.clone(), "D statefulset rolling update complete 2 pods at revision web-2...");
        let parts = json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
        check(&parts, done, "D partitioned roll out complete: 2 new pods have been updated...");
        let never = json!({"updateStrategy": {"type": "OnDelete"}});
        check(&never, json!({}), "F stateful set \"web\" has no rollouts: its update strategy is not RollingUpdate");
        super::tests::check("ConfigMap", json!({}), json!({}), "-");
    }
}
