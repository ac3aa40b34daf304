//! From the events about a template and its Works: attempts of the control plane that failed last. Its policy, its
//! replicas, its manifests, its dependencies, its status or its health are then not those of the newest template. Pure.

use serde_json::Value;

use crate::answers::text;

/// Prefixes of the reasons, in the order of the pipeline. Failures to schedule and to apply are conditions of the
/// binding and the Works.
const ATTEMPTS: [&str; 8] = [
    "GetReplicas",
    "GetComponents",
    "ApplyPolicy",
    "SyncWork",
    "GetDependencies",
    "ReflectStatus",
    "InterpretHealth",
    "AggregateStatus",
];

/// An attempt whose last outcome is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub reason: String,
    pub message: String,
    /// The time of the first failure after the last success, as in the event.
    pub since: String,
}

impl Failing {
    /// What the failure leaves behind.
    pub fn consequence(&self) -> &'static str {
        match self.reason.strip_suffix("Failed") {
            Some("GetDependencies") => "its dependencies are those of before",
            Some("ReflectStatus" | "AggregateStatus") => "its status is that of before",
            Some("InterpretHealth") => "its health is unknown",
            _ => "its last change has no effect",
        }
    }
}

/// The attempt of an event's reason, and whether it succeeded; `None` for other reasons.
pub fn outcome(reason: &str) -> Option<(&'static str, bool)> {
    ATTEMPTS.iter().find_map(|attempt| match reason.strip_prefix(attempt)? {
        "Succeed" => Some((*attempt, true)),
        "Failed" => Some((*attempt, false)),
        _ => None,
    })
}

/// The first attempt of the pipeline that fails, of all events about one template. Times count seconds, so a success
/// in the second of a failure is the later one.
pub fn failing(events: &[Value]) -> Option<Failing> {
    let of = |attempt: &'static str, is_success: bool| {
        events
            .iter()
            .filter(move |event| outcome(event["reason"].as_str().unwrap_or_default()) == Some((attempt, is_success)))
    };
    ATTEMPTS.into_iter().find_map(|attempt| {
        let succeeded = of(attempt, true).map(last).max();
        let later = || of(attempt, false).filter(|event| succeeded.is_none_or(|at| last(event) > at));
        let newest = later().max_by_key(|event| last(event))?;
        let first = |event: &Value| text(&event["firstTimestamp"]);
        let since = later().map(first).filter(|at| succeeded.is_none_or(|succeeded| at.as_str() > succeeded)).min();
        Some(Failing {
            reason: text(&newest["reason"]),
            message: text(&newest["message"]),
            since: since.unwrap_or_else(|| last(newest).to_owned()),
        })
    })
}

/// Whether the attempt of a failure has succeeded since, as in another of the `events`. Failures in one of several
/// clusters are not overcome by a success in another.
pub fn is_overcome(failure: &Value, events: &[Value]) -> bool {
    let reason = |event: &Value| text(&event["reason"]);
    let of_failure = reason(failure);
    if of_failure != "ScheduleBindingFailed" && outcome(&of_failure).is_none() {
        return false;
    }
    let Some(stem) = of_failure.strip_suffix("Failed") else { return false };
    events
        .iter()
        .any(|event| reason(event).strip_suffix("Succeed").is_some_and(|it| it == stem) && last(event) >= last(failure))
}

fn last(event: &Value) -> &str {
    event["lastTimestamp"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_outcome_of_an_attempt_counts() {
        let event = |reason: &str, first: u32, last: u32| {
            let at = |minute: u32| format!("2026-01-01T00:{minute:02}:00Z");
            json!({"reason": reason, "message": format!("{reason} {last}"), "firstTimestamp": at(first), "lastTimestamp": at(last)})
        };
        let check = |events: &[Value], expected: Option<(&str, &str)>| {
            let found = failing(events);
            let shown = found.as_ref().map(|it| (it.message.as_str(), it.since.get(14..16).unwrap_or_default()));
            assert_eq!(shown, expected);
        };
        check(&[], None);
        check(&[event("SyncFailed", 1, 9), event("ScheduleBindingFailed", 1, 9)], None);
        check(&[event("GetReplicasFailed", 1, 3)], Some(("GetReplicasFailed 3", "01")));
        check(&[event("GetReplicasFailed", 1, 3), event("GetReplicasSucceed", 0, 3)], None);
        let again =
            [event("GetReplicasFailed", 1, 9), event("GetReplicasFailed", 6, 8), event("GetReplicasSucceed", 0, 3)];
        check(&again, Some(("GetReplicasFailed 9", "06")));
        for (later, expected) in [
            (event("SyncWorkSucceed", 0, 9), true),
            (event("SyncWorkSucceed", 0, 8), false),
            (event("GetReplicasSucceed", 0, 9), false),
        ] {
            assert_eq!(is_overcome(&event("SyncWorkFailed", 1, 9), &[later]), expected);
        }
        let scheduled = [event("ScheduleBindingSucceed", 2, 2)];
        assert!(is_overcome(&event("ScheduleBindingFailed", 1, 2), &scheduled));
        assert!(!is_overcome(&event("SyncFailed", 1, 2), &[event("SyncSucceed", 3, 3)]), "in another cluster");
        for (reason, expected) in [
            ("SyncWorkFailed", "its last change has no effect"),
            ("ReflectStatusFailed", "its status is that of before"),
            ("InterpretHealthFailed", "its health is unknown"),
        ] {
            assert_eq!(failing(&[event(reason, 1, 1)]).map(|it| it.consequence()), Some(expected));
        }
        let several = [event("AggregateStatusFailed", 1, 9), event("SyncWorkFailed", 2, 4)];
        check(&several, Some(("SyncWorkFailed 4", "02")));
    }
}
