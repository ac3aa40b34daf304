//! The Works of a workload: the applied manifests, and the members' reports.

use karmada_api::constants::conditions;
use karmada_api::names;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

/// One Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub work: String,
    pub cluster: String,
    /// The status of the condition; `-` before the first attempt.
    pub applied: String,
    pub dispatching: String,
    pub health: String,
    pub status: String,
    pub message: String,
}

impl Row {
    pub fn of(work: &Work) -> Self {
        let condition = |type_: &str| work.status.conditions.iter().find(|it| it.type_ == type_);
        let status = |type_: &str| condition(type_).map_or_else(|| "-".to_owned(), |it| it.status.clone());
        let applied = condition(conditions::APPLIED);
        let mut message = applied.filter(|it| it.status != "True").map_or_else(String::new, |it| it.message.clone());
        if work.metadata.deletion_timestamp.is_some() {
            message = match message.is_empty() {
                true => "being deleted".to_owned(),
                false => format!("being deleted; {message}"),
            };
        } else if applied.is_none() && work.spec.suspend_dispatching == Some(true) {
            "dispatching is suspended".clone_into(&mut message);
        } else if applied.is_none() {
            "no attempt has ended yet".clone_into(&mut message);
        }
        let reported = work.status.manifest_statuses.first();
        let health = reported.and_then(|it| it.health).and_then(|it| serde_json::to_value(it).ok());
        let raw = reported.and_then(|it| it.status.as_ref()).and_then(|it| it.to_value().ok());
        Self {
            work: format!("{}/{}", work.metadata.namespace, work.metadata.name),
            cluster: names::cluster_of_namespace(&work.metadata.namespace).unwrap_or_default().to_owned(),
            applied: status(conditions::APPLIED),
            dispatching: match work.spec.suspend_dispatching {
                Some(true) => "Suspended".to_owned(),
                _ => status(conditions::DISPATCHING),
            },
            health: health.as_ref().and_then(Value::as_str).unwrap_or("-").to_owned(),
            status: raw.map_or_else(|| "-".to_owned(), |raw| summary(&raw)),
            message: if message.is_empty() { "-".to_owned() } else { message },
        }
    }

    pub fn cells(&self) -> [String; 6] {
        let it = self.clone();
        [it.work, it.applied, it.dispatching, it.health, it.status, it.message]
    }

    pub fn to_value(&self) -> Value {
        json!({"name": self.work, "cluster": self.cluster, "applied": self.applied, "dispatching": self.dispatching,
            "health": self.health, "status": self.status, "message": self.message})
    }
}

/// The status of an object in a few words.
pub fn summary(status: &Value) -> String {
    let number = |field: &str| status[field].as_i64();
    if let Some(desired) = number("replicas").or(number("desiredNumberScheduled")) {
        let ready = number("readyReplicas").or(number("numberReady")).unwrap_or(0);
        return format!("{ready}/{desired} ready");
    }
    if let Some(phase) = status["phase"].as_str().filter(|phase| !phase.is_empty()) {
        return phase.to_owned();
    }
    let counts = ["active", "succeeded", "failed"];
    let counts: Vec<String> =
        counts.iter().filter_map(|field| Some(format!("{} {field}", number(field).filter(|n| *n > 0)?))).collect();
    if !counts.is_empty() {
        return counts.join(", ");
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let holds = conditions.filter(|it| it["status"] == "True").filter_map(|it| it["type"].as_str());
    let holds: Vec<&str> = holds.take(3).collect();
    if holds.is_empty() { "-".to_owned() } else { holds.join(", ") }
}
