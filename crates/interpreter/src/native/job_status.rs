//! The status of a Job that runs in several members.

use apimachinery::meta::Time;
use serde_json::{Map, Value, json};

use super::aggregate::{Item, sum};
use crate::tree::list;

fn has(status: &Value, type_: &str) -> bool {
    list(status, &["conditions"]).iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// A finished Job is unchanged.
pub(super) fn aggregate(template: &mut Value, items: &[Item<'_>], now: Time) {
    if has(&template["status"], "Complete") || has(&template["status"], "Failed") {
        return;
    }
    let mut status = Map::new();
    for field in ["active", "succeeded", "failed"] {
        let total = sum(items, field);
        if total != 0 {
            status.insert(field.to_owned(), json!(total));
        }
    }
    let conditions = conditions(items, now);
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    // RFC 3339 in UTC with second precision: strings sort like the times.
    let times = |field: &str| -> Option<Vec<String>> {
        items.iter().map(|item| item.status[field].as_str().map(str::to_owned)).collect()
    };
    let started = match template["status"]["startTime"].as_str() {
        Some(known) => Some(known.to_owned()),
        None => times("startTime").and_then(|times| times.into_iter().min()),
    };
    if let Some(started) = started {
        status.insert("startTime".to_owned(), json!(started));
    }
    if let Some(completed) = times("completionTime").and_then(|times| times.into_iter().max()) {
        status.insert("completionTime".to_owned(), json!(completed));
    }
    template["status"] = Value::Object(status);
}

fn conditions(items: &[Item<'_>], now: Time) -> Vec<Value> {
    let condition = |type_: &str, reason: &str, message: String| {
        json!({
            "type": type_, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    let mut out = Vec::new();
    let failed: Vec<&str> = items.iter().filter(|item| has(&item.status, "Failed")).map(|item| item.cluster).collect();
    if !failed.is_empty() {
        let message = format!("Job executed failed in member clusters {}", failed.join(","));
        out.push(condition("Failed", "JobFailed", message));
    }
    let all = |type_: &str| !items.is_empty() && items.iter().all(|item| has(&item.status, type_));
    if all("Complete") {
        if all("SuccessCriteriaMet") {
            let message = "All member clusters have met success criteria".to_owned();
            out.push(condition("SuccessCriteriaMet", "CompletionsReached", message));
        }
        out.push(condition("Complete", "Completed", "Job completed".to_owned()));
    }
    out
}
