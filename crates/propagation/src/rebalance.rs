//! WorkloadRebalancers: the bindings that are scheduled afresh, and the status.

use std::time::Duration;

use apimachinery::meta::Time;
use karmada_api::apps::v1alpha1::{ObservedWorkload, WorkloadRebalancer, WorkloadRebalancerStatus, WorkloadReference};
use karmada_api::constants::reasons;
use karmada_api::work::v1alpha2::{ResourceBindingSpec, ResourceBindingStatus};

use crate::Since;

/// The result of a workload that was rescheduled.
pub const SUCCESSFUL: &str = "Successful";
/// The result of a workload that could not be rescheduled.
pub const FAILED: &str = "Failed";

/// The workloads of the status: those of the spec, each once and with the result it has already, and those that were
/// rebalanced and then taken out of the spec. Sorted by API version, kind, namespace and name.
pub fn observed(rebalancer: &WorkloadRebalancer) -> Vec<ObservedWorkload> {
    let desired = &rebalancer.spec.workloads;
    let known = &rebalancer.status.observed_workloads;
    let stays = |it: &&ObservedWorkload| it.result == SUCCESSFUL || desired.contains(&it.workload);
    let mut observed: Vec<ObservedWorkload> = known.iter().filter(stays).cloned().collect();
    for workload in desired {
        if !observed.iter().any(|it| it.workload == *workload) {
            observed.push(ObservedWorkload { workload: workload.clone(), ..ObservedWorkload::default() });
        }
    }
    observed.sort_by_key(|it| order(&it.workload));
    observed
}

fn order(workload: &WorkloadReference) -> String {
    let WorkloadReference { api_version, kind, namespace, name } = workload;
    format!("{api_version} {kind} {namespace} {name}")
}

/// The next step for a workload without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// `spec.rescheduleTriggeredAt` of the binding becomes this time.
    At(Time),
    /// The binding is about to be scheduled afresh, or was since the request.
    Unneeded,
    /// The scheduler compares whole seconds, and the last result is of this one.
    After(Duration),
}

/// The moment of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Creation of the rebalancer.
    pub created: Time,
    /// Whether the workload was added to the rebalancer later.
    pub is_later: bool,
    /// The current time.
    pub now: Time,
}

/// How a binding is scheduled afresh. The trigger is the creation time of the rebalancer, as upstream, unless the
/// binding has been scheduled since then: a trigger that is not later than the last result has no effect.
pub fn trigger(request: Request, spec: &ResourceBindingSpec, status: &ResourceBindingStatus) -> Trigger {
    let Request { created, is_later, now } = request;
    let (triggered, scheduled) = (spec.reschedule_triggered_at, status.last_scheduled_time);
    let is_pending = triggered.is_some_and(|at| scheduled.is_none_or(|last| at.timestamp() > last.timestamp()));
    let covers = triggered.is_some_and(|at| at.timestamp() >= created.timestamp());
    if covers && (is_pending || !is_later) {
        return Trigger::Unneeded;
    }
    let newest = [triggered, scheduled].into_iter().flatten().map(Time::timestamp).max();
    let is_new = |at: Time| newest.is_none_or(|newest| at.timestamp() > newest);
    if is_new(created) {
        Trigger::At(created)
    } else if is_new(now) {
        Trigger::At(now)
    } else {
        Trigger::After(Duration::from_secs(1))
    }
}

/// The result of a workload whose binding was triggered, or does not exist.
pub fn outcome(workload: &WorkloadReference, found: bool) -> ObservedWorkload {
    let (result, reason) = match found {
        true => (SUCCESSFUL, ""),
        false => (FAILED, reasons::REFERENCED_BINDING_NOT_FOUND),
    };
    ObservedWorkload { workload: workload.clone(), result: result.to_owned(), reason: reason.to_owned() }
}

/// The status to write; `None` if it is unchanged.
pub fn status(
    rebalancer: &WorkloadRebalancer,
    observed: Vec<ObservedWorkload>,
    now: Time,
) -> Option<WorkloadRebalancerStatus> {
    let known = &rebalancer.status;
    let is_finished = observed.iter().all(|it| !it.result.is_empty());
    let observed_generation = rebalancer.metadata.generation;
    if known.observed_workloads == observed
        && known.observed_generation == observed_generation
        && known.finish_time.is_some() == is_finished
    {
        return None;
    }
    let finish_time = is_finished.then_some(now);
    Some(WorkloadRebalancerStatus { finish_time, observed_generation, observed_workloads: observed })
}

/// When a finished rebalancer is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It has no TTL.
    Never,
    /// The TTL has passed.
    Now,
    /// The TTL passes after this time.
    After(Duration),
}

/// By `ttlSecondsAfterFinished`. One whose newest generation has not been finished stays.
pub fn expiry(rebalancer: &WorkloadRebalancer, since: Since<'_>) -> Expiry {
    let status = &rebalancer.status;
    let (Some(ttl), Some(finished)) = (rebalancer.spec.ttl_seconds_after_finished, status.finish_time) else {
        return Expiry::Never;
    };
    if status.observed_generation != rebalancer.metadata.generation {
        return Expiry::Never;
    }
    let left = jiff::SignedDuration::from_secs(ttl.into()).saturating_sub(since(finished.timestamp()));
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Expiry::After(left),
        _ => Expiry::Now,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn time(text: &str) -> Time {
        Time::new(format!("2026-11-21T{text}Z").parse().expect("a time"))
    }

    fn rebalancer(value: &Value) -> WorkloadRebalancer {
        serde_json::from_value(value.clone()).expect("a rebalancer")
    }

    fn workload(name: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": name})
    }

    #[test]
    fn lists() {
        let seen = |name: &str, result: &str| json!({"workload": workload(name), "result": result});
        for (what, desired, known, expected) in [
            ("all new, sorted, each once", vec!["b", "a", "b"], vec![], "a= b="),
            (
                "results stay",
                vec!["a", "b"],
                vec![seen("a", "Successful"), seen("b", "Failed")],
                "a=Successful b=Failed",
            ),
            ("a rebalanced workload stays", vec!["b"], vec![seen("a", "Successful")], "a=Successful b="),
            ("a workload that failed or has no result goes", vec!["c"], vec![seen("a", "Failed"), seen("b", "")], "c="),
            ("a workload that is retried stays", vec!["a"], vec![seen("a", "")], "a="),
        ] {
            let desired: Vec<Value> = desired.into_iter().map(workload).collect();
            let found =
                observed(&rebalancer(&json!({"spec": {"workloads": desired}, "status": {"observedWorkloads": known}})));
            let found: Vec<String> = found.iter().map(|it| format!("{}={}", it.workload.name, it.result)).collect();
            assert_eq!(found.join(" "), expected, "{what}");
        }
        let mixed = json!({"spec": {"workloads": [
            {"apiVersion": "v1", "kind": "Namespace", "name": "x"},
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "e", "name": "a"},
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "z"}]}});
        let found: Vec<String> = observed(&rebalancer(&mixed)).iter().map(|it| order(&it.workload)).collect();
        assert_eq!(found, ["apps/v1 Deployment d z", "apps/v1 Deployment e a", "v1 Namespace  x"]);
    }

    #[test]
    fn triggers() {
        let at = |text: &str| Trigger::At(time(text));
        let wait = Trigger::After(Duration::from_secs(1));
        for (what, created, is_later, triggered, scheduled, expected) in [
            ("never triggered", "10:00:00", false, "", "09:00:00", at("10:00:00")),
            ("never scheduled", "10:00:00", false, "", "", at("10:00:00")),
            ("triggered before", "10:00:00", false, "08:00:00", "09:00:00", at("10:00:00")),
            ("triggered by a later rebalancer", "10:00:00", false, "11:00:00", "11:00:00", Trigger::Unneeded),
            ("triggered by this one", "10:00:00", false, "10:00:00", "10:00:01", Trigger::Unneeded),
            ("scheduled since it was created", "10:00:00", false, "", "11:00:00", at("12:00:00")),
            ("scheduled in the second it was created", "10:00:00", false, "", "10:00:00", at("12:00:00")),
            ("scheduled in this second", "12:00:00", false, "", "12:00:00", wait),
            ("added later", "10:00:00", true, "10:00:00", "11:00:00", at("12:00:00")),
            ("added later, last scheduled before", "10:00:00", true, "", "09:00:00", at("10:00:00")),
            ("added later, while a trigger is pending", "10:00:00", true, "11:30:00", "11:00:00", Trigger::Unneeded),
            ("added later, in the second of the last result", "10:00:00", true, "", "12:00:00", wait),
        ] {
            let optional = |text: &str| (!text.is_empty()).then(|| time(text));
            let spec =
                ResourceBindingSpec { reschedule_triggered_at: optional(triggered), ..ResourceBindingSpec::default() };
            let status =
                ResourceBindingStatus { last_scheduled_time: optional(scheduled), ..ResourceBindingStatus::default() };
            let request = Request { created: time(created), is_later, now: time("12:00:00") };
            assert_eq!(trigger(request, &spec, &status), expected, "{what}");
        }
    }

    #[test]
    fn statuses() {
        let base = json!({"metadata": {"generation": 2}, "spec": {"workloads": [workload("a")]}, "status": {
            "observedGeneration": 2, "finishTime": "2026-11-21T10:00:00Z",
            "observedWorkloads": [{"workload": workload("a"), "result": "Successful"}]}});
        let now = time("12:00:00");
        let finish = |change: Value, results: &[&str]| {
            let mut value = base.clone();
            apimachinery::merge_patch::apply(&mut value, &change);
            let rebalancer = rebalancer(&value);
            let mut observed = observed(&rebalancer);
            for (it, result) in observed.iter_mut().zip(results) {
                (*result).clone_into(&mut it.result);
            }
            status(&rebalancer, observed, now).map(|status| (status.observed_generation, status.finish_time))
        };
        assert_eq!(finish(json!({}), &["Successful"]), None);
        assert_eq!(finish(json!({"metadata": {"generation": 3}}), &["Successful"]), Some((3, Some(now))));
        assert_eq!(finish(json!({"status": null}), &["Successful"]), Some((2, Some(now))));
        assert_eq!(finish(json!({"status": null}), &[""]), Some((2, None)));
        let retried = json!({"status": {"finishTime": null, "observedWorkloads": [{"workload": workload("a")}]}});
        assert_eq!(finish(retried.clone(), &[""]), None);
        assert_eq!(finish(retried, &["Failed"]), Some((2, Some(now))));
        let missing = outcome(&WorkloadReference::default(), false);
        assert_eq!((missing.result.as_str(), missing.reason.as_str()), ("Failed", "ReferencedBindingNotFound"));
        assert_eq!(outcome(&WorkloadReference::default(), true).result, "Successful");
    }

    #[test]
    fn expiries() {
        let since_noon = |at| time("12:00:00").timestamp().duration_since(at);
        for (ttl, finished, observed, expected) in [
            (json!(null), json!("2026-11-21T10:00:00Z"), 1, Expiry::Never),
            (json!(60), json!(null), 1, Expiry::Never),
            (json!(60), json!("2026-11-21T11:59:30Z"), 1, Expiry::After(Duration::from_secs(30))),
            (json!(60), json!("2026-11-21T11:59:30Z"), 0, Expiry::Never),
            (json!(30), json!("2026-11-21T11:59:30Z"), 1, Expiry::Now),
            (json!(0), json!("2026-11-21T12:00:00Z"), 1, Expiry::Now),
            (json!(-5), json!("2026-11-21T12:00:00Z"), 1, Expiry::Now),
        ] {
            let value = json!({"metadata": {"generation": 1}, "spec": {"workloads": [], "ttlSecondsAfterFinished": ttl},
                "status": {"finishTime": finished, "observedGeneration": observed}});
            assert_eq!(expiry(&rebalancer(&value), &since_noon), expected, "{value}");
        }
    }
}
