//! The writes of a decision: at most one patch of the binding and one of its status. Pure.
//!
//! Both patches name the version they are based on, so that neither reverts a concurrent write.

use apimachinery::meta::{Condition, Time};
use karmada_api::constants::{annotations, conditions};
use karmada_api::policy::v1alpha1::Placement;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::TargetCluster;
use scheduling::record::{ANNOTATION, Record};
use scheduling::{Decision, ScheduleError};
use serde_json::{Map, Value, json};

/// Patches the result and the placement it is based on; `None` if the binding already has both. Evictions read
/// tolerations from that placement, so it is written with every result. `record` holds the reasons.
pub fn result(
    binding: &Binding,
    placement: &Placement,
    clusters: &[TargetCluster],
    record: Option<&str>,
) -> Option<Value> {
    let change = Change::of(binding, placement, clusters);
    if !change.is_any() {
        return None;
    }
    let mut metadata = precondition(binding);
    let mut patch = Map::new();
    let mut annotated = Map::new();
    if change.placement {
        // A placement has string keys only, so that it always has a JSON text.
        let text = serde_json::to_string(placement).unwrap_or_default();
        annotated.insert(annotations::APPLIED_PLACEMENT.into(), text.into());
    }
    if change.clusters {
        let clusters = if clusters.is_empty() { Value::Null } else { json!(clusters) };
        patch.insert("spec".into(), json!({"clusters": clusters}));
    }
    annotated.extend(record.map(|record| (ANNOTATION.to_owned(), record.into())));
    if !annotated.is_empty() {
        metadata.insert("annotations".into(), annotated.into());
    }
    patch.insert("metadata".into(), metadata.into());
    Some(patch.into())
}

/// What a patch of [`result`] changes.
#[derive(Clone, Copy)]
struct Change {
    /// The placement that the result is based on.
    placement: bool,
    /// The result itself: a change of the spec.
    clusters: bool,
}

impl Change {
    fn of(binding: &Binding, placement: &Placement, clusters: &[TargetCluster]) -> Self {
        Self { placement: !was_applied(binding, placement), clusters: binding.spec.clusters != clusters }
    }

    fn of_decision(binding: &Binding, decision: &Decision) -> Option<Self> {
        let (clusters, placement) = decision.result().zip(binding.spec.placement.as_ref())?;
        Some(Self::of(binding, placement, clusters))
    }

    fn is_any(self) -> bool {
        self.placement || self.clusters
    }
}

/// The generation of the binding after a patch of [`result`] or [`reasons`]: the server increments it for a change of the
/// spec.
pub fn generation_after(binding: &Binding, patch: &Value) -> i64 {
    binding.metadata.generation + i64::from(patch.get("spec").is_some())
}

/// The generation of the binding once it has a decision: a changed result is a change of the spec.
pub fn decided_generation(binding: &Binding, decision: &Decision) -> i64 {
    let changes_spec = Change::of_decision(binding, decision).is_some_and(|change| change.clusters);
    binding.metadata.generation + i64::from(changes_spec)
}

/// Compares decoded values, because upstream writes the fields in another order.
fn was_applied(binding: &Binding, placement: &Placement) -> bool {
    let applied = binding.metadata.annotations.get(annotations::APPLIED_PLACEMENT);
    applied.is_some_and(|text| serde_json::from_str::<Placement>(text).is_ok_and(|applied| applied == *placement))
}

/// The outcome of a pass, for the status.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    pub scheduled: bool,
    pub reason: &'a str,
    pub message: &'a str,
    /// The affinity term in force after success; empty when the placement has no terms.
    pub affinity_name: &'a str,
    /// Whether the result was written.
    pub written: bool,
    /// Whether a reschedule was triggered after the last result.
    pub fresh: bool,
}

/// Patches the condition and, after success, the observed fields, among them `generation`: that of the binding with the
/// result. `None` if the status is up to date.
pub fn status(binding: &Binding, generation: i64, verdict: &Verdict<'_>, now: Time) -> Option<Value> {
    let status = &binding.status;
    let mut conditions = status.conditions.clone();
    let condition = Condition {
        type_: conditions::SCHEDULED.to_owned(),
        status: if verdict.scheduled { "True" } else { "False" }.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message.to_owned(),
        ..Condition::default()
    };
    let turned = propagation::status::set_condition(&mut conditions, condition, now);
    let mut patch = Map::new();
    if turned {
        patch.insert("conditions".into(), json!(conditions));
    }
    if verdict.scheduled {
        // The time moves with each new result; a request for a new decision is answered by it.
        if turned || verdict.written || verdict.fresh || status.last_scheduled_time.is_none() {
            patch.insert("lastScheduledTime".into(), json!(now));
        }
        if status.scheduler_observing_affinity_name != verdict.affinity_name {
            let name = (!verdict.affinity_name.is_empty()).then_some(verdict.affinity_name);
            patch.insert("schedulerObservingAffinityName".into(), json!(name));
        }
        if status.scheduler_observed_generation != generation {
            patch.insert("schedulerObservedGeneration".into(), json!(generation));
        }
    }
    (!patch.is_empty()).then(|| json!({"metadata": precondition(binding), "status": patch}))
}

/// Whether a decision differs from the binding's state. A record alone is not written: the same decision for the same
/// reasons is not recorded again.
pub fn is_news(binding: &Binding, decision: &Decision) -> bool {
    let is_written = Change::of_decision(binding, decision).is_some_and(Change::is_any);
    let is_recorded = |error: &ScheduleError| {
        let known = binding.metadata.annotations.get(ANNOTATION).and_then(|text| Record::parse(text));
        known.is_some_and(|known| known.holds_error(binding.metadata.generation, &error.to_string()))
    };
    is_written || decision.error().is_some_and(|error| !is_recorded(error))
}

/// Writes the reasons of a failed decision that keeps the last result.
pub fn reasons(binding: &Binding, record: &str) -> Value {
    let mut metadata = precondition(binding);
    metadata.insert("annotations".into(), json!({ANNOTATION: record}));
    json!({"metadata": metadata})
}

/// Keeps the last result for a binding whose other fields changed.
pub fn observed(binding: &Binding) -> Option<Value> {
    let generation = binding.metadata.generation;
    (binding.status.scheduler_observed_generation != generation)
        .then(|| json!({"metadata": precondition(binding), "status": {"schedulerObservedGeneration": generation}}))
}

/// Whether the last pass over the binding failed.
pub fn failed(binding: &Binding) -> bool {
    binding.status.conditions.iter().any(|it| it.type_ == conditions::SCHEDULED && it.status == "False")
}

fn precondition(binding: &Binding) -> Map<String, Value> {
    let metadata = &binding.metadata;
    let fields = [("resourceVersion", &metadata.resource_version), ("uid", &metadata.uid)];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.as_str().into())).collect()
}

#[cfg(test)]
mod tests {
    use karmada_api::scope::Scope;

    use super::*;

    fn now() -> Time {
        Time::new("2026-11-21T10:00:00Z".parse().expect("a time"))
    }

    /// A binding that was scheduled, with `change` merged over it.
    fn binding(change: Value) -> Binding {
        let mut value = json!({
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3,
                "annotations": {annotations::APPLIED_PLACEMENT: r#"{"clusterAffinity":{"clusterNames":["m1"]}}"#}},
            "spec": {"clusters": [{"name": "m1", "replicas": 2}], "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}},
            "status": {"schedulerObservedGeneration": 3, "lastScheduledTime": "2026-11-21T09:00:00Z", "conditions": [
                {"type": "FullyApplied", "status": "True", "reason": "r", "message": "m"},
                {"type": "Scheduled", "status": "True", "reason": "Success", "message": "done", "lastTransitionTime": "2026-11-21T09:00:00Z"}]},
        });
        apimachinery::merge_patch::apply(&mut value, &change);
        Binding::from_value(Scope::Namespaced, &value).expect("a binding")
    }

    fn verdict(scheduled: bool) -> Verdict<'static> {
        let (reason, message) = if scheduled { ("Success", "done") } else { ("NoClusterFit", "0/0") };
        Verdict { scheduled, reason, message, affinity_name: "", written: false, fresh: false }
    }

    fn targets(list: &[(&str, i32)]) -> Vec<TargetCluster> {
        let target = |(name, replicas): &(&str, i32)| TargetCluster {
            name: (*name).into(),
            replicas: *replicas,
            ..Default::default()
        };
        list.iter().map(target).collect()
    }

    #[test]
    fn results() {
        let patch = |change: Value, clusters: &[(&str, i32)]| {
            let binding = binding(change);
            let placement = binding.spec.placement.clone().expect("a placement");
            result(&binding, &placement, &targets(clusters), Some("why")).unwrap_or_default()
        };
        let guard = json!({"resourceVersion": "7", "uid": "u", "annotations": {ANNOTATION: "why"}});
        assert_eq!(patch(json!({}), &[("m1", 2)]), Value::Null);
        let other_order = json!({"metadata": {"annotations": {annotations::APPLIED_PLACEMENT:
            r#"{"spreadConstraints":null,"clusterAffinity":{"clusterNames":["m1"]}}"#}}});
        assert_eq!(patch(other_order, &[("m1", 2)]), Value::Null);
        assert_eq!(
            patch(json!({}), &[("m1", 3)]),
            json!({"metadata": guard, "spec": {"clusters": [{"name": "m1", "replicas": 3}]}})
        );
        assert_eq!(patch(json!({}), &[]), json!({"metadata": guard, "spec": {"clusters": null}}));
        let moved = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}});
        assert_eq!(
            patch(moved, &[("m1", 2)]),
            json!({"metadata": {"resourceVersion": "7", "uid": "u", "annotations":
                {ANNOTATION: "why", annotations::APPLIED_PLACEMENT: r#"{"clusterAffinity":{"clusterNames":["m2"]}}"#}}})
        );
    }

    #[test]
    fn statuses() {
        let fields = |change: Value, verdict: Verdict<'_>| {
            let binding = binding(change);
            let patch = status(&binding, binding.metadata.generation, &verdict, now());
            let Some(patch) = patch else { return String::new() };
            assert_eq!(patch["metadata"], json!({"resourceVersion": "7", "uid": "u"}));
            let fields = patch["status"].as_object().expect("fields");
            fields.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        let failed = json!({"status": {"conditions": [{"type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/0"}]}});
        assert_eq!(fields(json!({}), verdict(true)), "");
        assert_eq!(fields(failed.clone(), verdict(false)), "");
        assert_eq!(fields(json!({}), Verdict { fresh: true, ..verdict(true) }), "lastScheduledTime");
        assert_eq!(fields(json!({"metadata": {"generation": 4}}), verdict(true)), "schedulerObservedGeneration");
        assert_eq!(
            fields(json!({"metadata": {"generation": 4}}), Verdict { written: true, ..verdict(true) }),
            "lastScheduledTime schedulerObservedGeneration"
        );
        assert_eq!(fields(json!({"metadata": {"generation": 4}}), verdict(false)), "conditions");
        assert_eq!(fields(failed, verdict(true)), "conditions lastScheduledTime");
        assert_eq!(
            fields(json!({}), Verdict { affinity_name: "x", ..verdict(true) }),
            "schedulerObservingAffinityName"
        );
    }

    #[test]
    fn a_result_and_its_status_fit_into_one_write() {
        let before = binding(json!({}));
        let placement = before.spec.placement.clone().expect("a placement");
        let result = result(&before, &placement, &targets(&[("m1", 3)]), None).expect("a new result");
        let written = Verdict { written: true, ..verdict(true) };
        let patch = status(&before, generation_after(&before, &result), &written, now());
        assert_eq!(patch.expect("a patch")["status"]["schedulerObservedGeneration"], 4, "the server counts the change");
        let annotated = json!({"metadata": {"annotations": {ANNOTATION: "why"}}});
        assert_eq!(generation_after(&before, &annotated), before.metadata.generation);
    }

    #[test]
    fn other_conditions_are_kept() {
        let patch = status(&binding(json!({})), 3, &verdict(false), now()).expect("a patch");
        let list = patch["status"]["conditions"].as_array().expect("a list");
        let types: Vec<_> = list.iter().map(|it| (it["type"].as_str(), it["status"].as_str())).collect();
        assert_eq!(types, [(Some("FullyApplied"), Some("True")), (Some("Scheduled"), Some("False"))]);
        assert_eq!(list[1]["lastTransitionTime"], "2026-11-21T10:00:00Z");
    }

    #[test]
    fn an_unchanged_result_is_observed_once() {
        assert_eq!(observed(&binding(json!({}))), None);
        let patch = observed(&binding(json!({"metadata": {"generation": 9}}))).expect("a patch");
        assert_eq!(patch["status"], json!({"schedulerObservedGeneration": 9}));
    }
}
