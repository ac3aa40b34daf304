//! The status of a Job that runs in several members.

use apimachinery::meta::Time;
use serde_json::{Map, Value, json};

use super::aggregate::{Item, sum};
use crate::tree::{int, list};

/// The condition of this type, if it is true.
fn held<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    list(status, &["conditions"]).iter().find(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// A finished Job is unchanged. The API server validates the transition to a finished status, so a template completes
/// and fails as a Job does in a cluster.
pub(super) fn aggregate(template: &mut Value, items: &[Item<'_>], now: Time) {
    let before = template["status"].clone();
    if held(&before, "Complete").is_some() || held(&before, "Failed").is_some() {
        return;
    }
    let active = sum(items, "active");
    // These count up only, also when a member leaves.
    let [succeeded, failed] = ["succeeded", "failed"].map(|field| sum(items, field).max(int(&before, &[field])));
    let mut status = Map::new();
    for (field, total) in [("active", active), ("succeeded", succeeded), ("failed", failed)] {
        if total != 0 {
            status.insert(field.to_owned(), json!(total));
        }
    }
    let conditions = conditions(&before, items, active > 0, &now);
    let ended = |type_: &str| conditions.iter().any(|condition| condition["type"] == type_);
    // RFC 3339 in UTC with second precision: strings sort like the times.
    let times = |field: &str| items.iter().filter_map(|item| item.status[field].as_str()).collect::<Vec<_>>();
    let starts = times("startTime");
    let started = before["startTime"].as_str().or_else(|| {
        let known = starts.len() == items.len() || ended("Complete") || ended("Failed");
        starts.iter().min().filter(|_| known).copied()
    });
    if let Some(started) = started {
        status.insert("startTime".to_owned(), json!(started));
    }
    if ended("Complete") {
        let completed = times("completionTime").into_iter().max().map_or_else(|| json!(now), |time| json!(time));
        status.insert("completionTime".to_owned(), completed);
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    template["status"] = Value::Object(status);
}

/// The end of a Job in one member, by its first condition that ends it.
fn end(status: &Value) -> Option<&Value> {
    let ends = |condition: &&Value| {
        (condition["type"] == "Complete" || condition["type"] == "Failed") && condition["status"] == "True"
    };
    list(status, &["conditions"]).iter().find(ends).map(|condition| &condition["type"])
}

fn conditions(before: &Value, items: &[Item<'_>], active: bool, now: &Time) -> Vec<Value> {
    let condition = |type_: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    let target = held(before, "FailureTarget");
    let ended = |type_: &'static str| items.iter().filter(move |item| end(&item.status).is_some_and(|it| *it == type_));
    let failed: Vec<&str> = ended("Failed").map(|item| item.cluster).collect();
    if !failed.is_empty() || target.is_some() {
        let message = format!("Job executed failed in member clusters {}", failed.join(","));
        // A Job that is to fail cannot be saved, and fails when its last pod has ended. Without members it is
        // not known whether it has.
        let mut target = target.cloned().unwrap_or_else(|| condition("FailureTarget", "JobFailed", &message));
        if !failed.is_empty() {
            target["message"] = json!(message);
        }
        let over = !active && !items.is_empty();
        let last = over.then(|| condition("Failed", "JobFailed", target["message"].as_str().unwrap_or_default()));
        return [target].into_iter().chain(last).collect();
    }
    if items.is_empty() || ended("Complete").count() < items.len() {
        return Vec::new();
    }
    // Members before Kubernetes 1.31 do not report the first.
    vec![
        condition("SuccessCriteriaMet", "CompletionsReached", "All member clusters have met success criteria"),
        condition("Complete", "Completed", "Job completed"),
    ]
}

#[cfg(test)]
mod tests {
    use karmada_api::raw::RawJson;
    use karmada_api::work::v1alpha2::AggregatedStatusItem;

    use super::*;

    const START: &str = "2026-01-01T00:00:00Z";

    fn now() -> Time {
        Time::new("2026-01-02T03:04:05Z".parse().unwrap())
    }

    fn folded(before: Value, statuses: &[Value]) -> Value {
        let mut template =
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "status": before});
        let item = |(at, status): (usize, &Value)| AggregatedStatusItem {
            cluster_name: format!("m{}", at + 1),
            status: (!status.is_null()).then(|| RawJson::from_value(status)),
            ..Default::default()
        };
        let items: Vec<AggregatedStatusItem> = statuses.iter().enumerate().map(item).collect();
        super::super::aggregate::aggregate(&mut template, &items, now()).unwrap();
        template["status"].take()
    }

    fn ended(types: &[&str]) -> Value {
        let conditions: Vec<Value> = types.iter().map(|it| json!({"type": it, "status": "True"})).collect();
        json!({"conditions": conditions, "startTime": START})
    }

    fn conditions(status: &Value) -> Vec<String> {
        let all = list(status, &["conditions"]).iter();
        all.map(|it| format!("{} {}: {}", it["type"], it["reason"], it["message"]).replace('"', "")).collect()
    }

    #[test]
    fn jobs_that_fail_or_complete() {
        let of = |statuses: &[Value]| conditions(&folded(json!({}), statuses));
        let failed = |clusters: &str| {
            ["FailureTarget", "Failed"]
                .map(|it| format!("{it} JobFailed: Job executed failed in member clusters {clusters}"))
        };
        let completed = [
            "SuccessCriteriaMet CompletionsReached: All member clusters have met success criteria",
            "Complete Completed: Job completed",
        ];
        assert_eq!(of(&[ended(&["Failed"]), ended(&["Complete"]), ended(&["Failed"])]), failed("m1,m3"));
        assert_eq!(of(&[ended(&["Complete", "Failed"]), ended(&["FailureTarget", "Failed"])]), failed("m2"));
        assert_eq!(of(&[ended(&["Failed"]), Value::Null]), failed("m1"));
        let both = ended(&["SuccessCriteriaMet", "Complete"]);
        assert_eq!(of(&[both.clone(), both.clone()]), completed);
        assert_eq!(of(&[both, ended(&["Complete"])]), completed);
        assert_eq!(of(&[ended(&["Complete"]), json!({})]), [""; 0]);
        assert_eq!(of(&[ended(&["Complete"]), Value::Null]), [""; 0]);
        assert_eq!(of(&[]), [""; 0], "no member runs it");
        let failed_not = json!({"conditions": [{"type": "Failed", "status": "False"}]});
        assert_eq!(of(&[failed_not]), [""; 0]);
    }

    /// The API server refuses a finished Job with active pods, without a start, and one whose failure is taken back.
    #[test]
    fn failed_jobs_end_with_their_last_pod() {
        let (failed, running) = (ended(&["Failed"]), json!({"active": 2, "failed": 1}));
        let first = folded(json!({}), &[failed.clone(), running.clone()]);
        let target = ["FailureTarget JobFailed: Job executed failed in member clusters m1"];
        assert_eq!((conditions(&first), first.get("startTime")), (Vec::from(target.map(str::to_owned)), None));
        // The time of the condition stays, and so does the condition when the cluster is left.
        let mut since = first;
        since["conditions"][0]["lastTransitionTime"] = json!(START);
        for statuses in [&[failed.clone(), running.clone()][..], &[running], &[]] {
            assert_eq!(folded(since.clone(), statuses)["conditions"], since["conditions"]);
        }
        let last = folded(since, &[failed, json!({"failed": 3})]);
        assert_eq!(conditions(&last).len(), 2);
        assert_eq!((&last["startTime"], &last["active"], &last["failed"]), (&json!(START), &Value::Null, &json!(3)));
        assert_eq!(last["conditions"][0]["lastTransitionTime"], START);
    }

    #[test]
    fn counters_of_ended_pods_count_up() {
        let before = json!({"succeeded": 3, "failed": 2, "active": 4});
        assert_eq!(folded(before, &[json!({"succeeded": 1, "failed": 5})]), json!({"succeeded": 3, "failed": 5}),);
    }

    #[test]
    fn jobs_end_when_all_members_have_ended() {
        let done = |at: &str| json!({"succeeded": 1, "startTime": START, "completionTime": at, "conditions": [{"type": "Complete", "status": "True"}]});
        let own = |type_: &str, reason: &str, message: &str| {
            json!({"type": type_, "status": "True", "reason": reason, "message": message,
                "lastProbeTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        let criteria = "All member clusters have met success criteria";
        assert_eq!(
            folded(json!({}), &[done("2026-01-01T00:00:05Z"), done("2026-01-01T00:00:09Z")]),
            json!({
                "succeeded": 2, "startTime": START, "completionTime": "2026-01-01T00:00:09Z",
                "conditions": [own("SuccessCriteriaMet", "CompletionsReached", criteria), own("Complete", "Completed", "Job completed")],
            }),
        );
        assert_eq!(
            folded(json!({}), &[done("2026-01-01T00:00:05Z"), json!({"active": 1})]),
            json!({"succeeded": 1, "active": 1}),
        );
        for how in ["Failed", "Complete"] {
            let ended = json!({"conditions": [{"type": how, "status": "True"}]});
            assert_eq!(folded(ended.clone(), &[json!({"active": 1})]), ended);
        }
        let started = json!({"startTime": START});
        assert_eq!(folded(started.clone(), &[json!({"startTime": "2026-01-01T00:00:01Z"})]), started);
        assert_eq!(folded(json!({}), &[ended(&["Complete"])])["completionTime"], "2026-01-02T03:04:05Z");
    }
}
