//! The progress of a template's newest change: scheduled, applied, rolled out, for each cluster. Pure.

use std::collections::BTreeMap;

use karmada_api::constants::{annotations, conditions};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, ResourceHealth, TargetCluster};
use serde_json::{Value, json};

use super::kinds::{self, Step};
use crate::answers::text;
use crate::servers::KARMADA;

/// The state to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The rollouts in the clusters are finished.
    Rollout,
    /// Every cluster holds the newest generation and reports it healthy.
    Propagated,
}

/// The object in one member.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Copy {
    /// Not read yet.
    #[default]
    Unread,
    Read(Option<Value>),
    /// The member does not answer through the proxy, for this reason.
    Unreadable(String),
    /// Members are not read: the statuses that the control plane collected count.
    Collected,
}

/// All that is known.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub template: Option<Value>,
    pub binding: Option<Binding>,
    pub copies: BTreeMap<String, Copy>,
}

/// The steps, the control plane's first.
pub type Report = Vec<(String, Step)>;

/// `deployment "web"`
fn shown(template: &Value) -> String {
    format!("{} {:?}", text(&template["kind"]).to_lowercase(), text(&template["metadata"]["name"]))
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// The clusters of the binding, restricted to the wanted ones; an empty list means all.
pub fn clusters<'a>(binding: &'a Binding, selected: &'a [String]) -> impl Iterator<Item = &'a TargetCluster> {
    binding.spec.clusters.iter().filter(|cluster| selected.is_empty() || selected.contains(&cluster.name))
}

/// The progress of the change.
pub fn report(seen: &Seen, selected: &[String], goal: Goal) -> Report {
    let Some(template) = &seen.template else {
        return vec![(KARMADA.to_owned(), Step::Failed("the template does not exist any more".to_owned()))];
    };
    let mut report = vec![(KARMADA.to_owned(), scheduled(template, seen.binding.as_ref(), selected))];
    let Some(binding) = &seen.binding else { return report };
    for cluster in clusters(binding, selected) {
        let unread = Copy::Unread;
        let copy = seen.copies.get(&cluster.name).unwrap_or(&unread);
        report.push((cluster.name.clone(), in_cluster(template, binding, cluster, copy, goal)));
    }
    report
}

/// The control plane's part.
fn scheduled(template: &Value, binding: Option<&Binding>, selected: &[String]) -> Step {
    let what = shown(template);
    let Some(binding) = binding else {
        return Step::Waiting(format!("Waiting for {what} to be claimed by a propagation policy..."));
    };
    let waiting = format!("Waiting for {what} to be scheduled");
    let condition = binding.status.conditions.iter().find(|it| it.type_ == conditions::SCHEDULED);
    match condition {
        Some(condition) if condition.status != "True" => {
            return Step::Waiting(format!("{waiting}: {}", condition.message));
        }
        Some(_) if binding.status.scheduler_observed_generation == binding.metadata.generation => {}
        _ if binding.spec.suspension.as_ref().is_some_and(|it| it.scheduling == Some(true)) => {
            return Step::Waiting(format!("{waiting}: scheduling is suspended"));
        }
        _ => return Step::Waiting(format!("{waiting}...")),
    }
    let names: Vec<&str> = clusters(binding, selected).map(|it| it.name.as_str()).collect();
    let missing: Vec<&str> = selected.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
    if !missing.is_empty() {
        return Step::Waiting(format!("Waiting for {what} to be scheduled to {}...", missing.join(", ")));
    }
    let place = if names.is_empty() { "no cluster".to_owned() } else { names.join(", ") };
    Step::Done(format!("{what} is scheduled to {place}"))
}

/// One member's part.
fn in_cluster(template: &Value, binding: &Binding, target: &TargetCluster, copy: &Copy, goal: Goal) -> Step {
    let what = shown(template);
    let item = binding.status.aggregated_status.iter().find(|it| it.cluster_name == target.name);
    let refusal = item.filter(|it| !it.applied).map(|it| it.applied_message.as_str()).filter(|it| !it.is_empty());
    let collected;
    let object = match copy {
        Copy::Unread => return Step::Waiting(format!("Waiting for {what} to be read...")),
        Copy::Read(None) => return Step::Waiting(because(&format!("Waiting for {what} to be created"), refusal)),
        Copy::Read(Some(object)) => object,
        Copy::Unreadable(_) | Copy::Collected => match item.and_then(|item| of_item(template, target, item)) {
            Some(object) => {
                collected = object;
                &collected
            }
            None => {
                let unreadable = if let Copy::Unreadable(why) = copy { Some(why.as_str()) } else { None };
                let text = format!("Waiting for the status of {what} to be collected");
                return Step::Waiting(because(&text, refusal.or(unreadable)));
            }
        },
    };
    let newest = generation(template);
    if newest > template_generation(object) {
        return Step::Waiting(because(&format!("Waiting for generation {newest} of {what} to be applied"), refusal));
    }
    let rollout = kinds::step(object);
    match (goal, rollout, item) {
        (Goal::Rollout, Some(step), _) => step,
        (Goal::Propagated, Some(step @ Step::Failed(_)), _) => step,
        (_, _, item) => healthy(&what, template, item, refusal),
    }
}

/// `TEXT: REASON`, or `TEXT...`
fn because(text: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| format!("{text}..."), |reason| format!("{text}: {reason}"))
}

/// The template's generation of a copy. Templates without generations are current when they are applied.
fn template_generation(object: &Value) -> i64 {
    let annotation = object["metadata"]["annotations"][annotations::TEMPLATE_GENERATION].as_str();
    annotation.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Decides by the collected status: the interpreter computes the health of every kind.
fn healthy(what: &str, template: &Value, item: Option<&AggregatedStatusItem>, refusal: Option<&str>) -> Step {
    let Some(item) = item.filter(|item| item.applied) else {
        return Step::Waiting(because(&format!("Waiting for {what} to be applied"), refusal));
    };
    // Kinds whose status names the generation: an older status does not reflect the newest change.
    let status = item.status.as_ref().and_then(|it| it.to_value().ok()).unwrap_or_default();
    let reported = status["resourceTemplateGeneration"].as_i64();
    if reported.is_some_and(|reported| reported < generation(template)) {
        return Step::Waiting(format!("Waiting for the newest status of {what} to be collected..."));
    }
    match item.health {
        Some(ResourceHealth::Healthy) => Step::Done(format!("{what} is applied and healthy")),
        Some(ResourceHealth::Unhealthy) => Step::Waiting(format!("Waiting for {what} to be healthy...")),
        _ => Step::Waiting(format!("Waiting for the health of {what} to be known...")),
    }
}

/// The copy as far as its collected status describes it; `None` unless the status names the generation it is of.
fn of_item(template: &Value, target: &TargetCluster, item: &AggregatedStatusItem) -> Option<Value> {
    let status = item.status.as_ref().and_then(|it| it.to_value().ok())?;
    let of_template = status["resourceTemplateGeneration"].as_i64()?;
    let mut spec = template["spec"].clone();
    if target.replicas > 0 {
        spec["replicas"] = target.replicas.into();
    }
    Some(json!({"kind": template["kind"], "spec": spec, "metadata": {"name": template["metadata"]["name"],
        "generation": status["generation"],
        "annotations": {annotations::TEMPLATE_GENERATION: of_template.to_string()}}, "status": status}))
}

/// The overall state.
#[derive(Debug, PartialEq, Eq)]
pub enum OverallState {
    Waiting,
    Done,
    /// One line for each that failed.
    Failed(Vec<String>),
}

pub fn whole(report: &Report) -> OverallState {
    let failed = |(cluster_name, step): &(String, Step)| match step {
        Step::Failed(why) => Some(format!("cluster({cluster_name}): {why}")),
        _ => None,
    };
    let failures: Vec<String> = report.iter().filter_map(failed).collect();
    if !failures.is_empty() {
        return OverallState::Failed(failures);
    }
    let is_done = |(_, step): &(String, Step)| matches!(step, Step::Done(_));
    if report.iter().all(is_done) { OverallState::Done } else { OverallState::Waiting }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use karmada_api::scope::Scope;

    use super::*;

    fn template(kind: &str, generation: i64) -> Value {
        json!({"kind": kind, "metadata": {"name": "web", "generation": generation}, "spec": {"replicas": 3}})
    }

    fn binding(condition: Value, items: Value) -> Binding {
        let value = json!({"metadata": {"name": "web-deployment", "namespace": "shop", "generation": 4},
            "spec": {"clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}]},
            "status": {"conditions": [condition], "schedulerObservedGeneration": 4, "aggregatedStatus": items}});
        Binding::from_value(Scope::Namespaced, &value).expect("a binding")
    }

    fn placed() -> Value {
        json!({"type": "Scheduled", "status": "True", "reason": "Success", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn copy(of: i64, available: i64) -> Copy {
        Copy::Read(Some(json!({"kind": "Deployment", "metadata": {"name": "web", "generation": 1,
            "annotations": {"resourcetemplate.karmada.io/generation": of.to_string()}}, "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available}})))
    }

    fn check(seen: &Seen, selected: &[&str], goal: Goal, expected: &Expect) {
        let selected: Vec<String> = selected.iter().map(|it| (*it).to_owned()).collect();
        let report = report(seen, &selected, goal);
        let mut text = String::new();
        for (cluster_name, step) in &report {
            let mark = match step {
                Step::Waiting(_) => "waits",
                Step::Done(_) => "done",
                Step::Failed(_) => "failed",
            };
            text.push_str(&format!("{cluster_name} {mark}: {}\n", step.text()));
        }
        text.push_str(&format!("{:?}\n", whole(&report)));
        expected.assert_eq(&text);
    }

    #[test]
    fn the_control_plane_precedes_its_members() {
        let mut seen = Seen::default();
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada failed: the template does not exist any more
            Failed(["cluster(Karmada): the template does not exist any more"])
        "#]],
        );
        seen.template = Some(template("Deployment", 2));
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada waits: Waiting for deployment "web" to be claimed by a propagation policy...
            Waiting
        "#]],
        );
        let mut unfit = placed();
        (unfit["status"], unfit["message"]) = (json!("False"), json!("0/3 clusters are available"));
        seen.binding = Some(binding(unfit, json!([])));
        check(
            &seen,
            &["m1"],
            Goal::Rollout,
            &expect![[r#"
            Karmada waits: Waiting for deployment "web" to be scheduled: 0/3 clusters are available
            m1 waits: Waiting for deployment "web" to be read...
            Waiting
        "#]],
        );
        let mut late = binding(placed(), json!([]));
        late.status.scheduler_observed_generation = 3;
        seen.binding = Some(late);
        check(
            &seen,
            &["m1"],
            Goal::Rollout,
            &expect![[r#"
            Karmada waits: Waiting for deployment "web" to be scheduled...
            m1 waits: Waiting for deployment "web" to be read...
            Waiting
        "#]],
        );
        seen.binding = Some(binding(placed(), json!([])));
        check(
            &seen,
            &["m9"],
            Goal::Rollout,
            &expect![[r#"
            Karmada waits: Waiting for deployment "web" to be scheduled to m9...
            Waiting
        "#]],
        );
    }

    #[test]
    fn each_cluster_applies_and_rolls_out() {
        let refused = json!([{"clusterName": "m2", "applied": false, "appliedMessage": "quota exceeded"}]);
        let mut seen = Seen {
            template: Some(template("Deployment", 2)),
            binding: Some(binding(placed(), refused)),
            copies: BTreeMap::from([("m1".into(), Copy::Read(None)), ("m2".into(), copy(1, 1))]),
        };
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada done: deployment "web" is scheduled to m1, m2
            m1 waits: Waiting for deployment "web" to be created...
            m2 waits: Waiting for generation 2 of deployment "web" to be applied: quota exceeded
            Waiting
        "#]],
        );
        seen.copies = BTreeMap::from([("m1".into(), copy(2, 1)), ("m2".into(), copy(2, 0))]);
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada done: deployment "web" is scheduled to m1, m2
            m1 done: deployment "web" successfully rolled out
            m2 waits: Waiting for deployment "web" rollout to finish: 0 of 1 updated replicas are available...
            Waiting
        "#]],
        );
        check(
            &seen,
            &["m1"],
            Goal::Rollout,
            &expect![[r#"
            Karmada done: deployment "web" is scheduled to m1
            m1 done: deployment "web" successfully rolled out
            Done
        "#]],
        );
        let Some(Copy::Read(Some(stuck))) = seen.copies.get_mut("m2") else { panic!("m2 was read") };
        stuck["status"]["conditions"] = json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]);
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada done: deployment "web" is scheduled to m1, m2
            m1 done: deployment "web" successfully rolled out
            m2 failed: deployment "web" exceeded its progress deadline
            Failed(["cluster(m2): deployment \"web\" exceeded its progress deadline"])
        "#]],
        );
    }

    #[test]
    fn aggregated_statuses_replace_unread_members() {
        let status = json!({"generation": 7, "observedGeneration": 7, "resourceTemplateGeneration": 2, "replicas": 2,
            "updatedReplicas": 2, "availableReplicas": 1});
        let items = json!([{"clusterName": "m2", "applied": true, "health": "Unhealthy", "status": status}]);
        let seen = Seen {
            template: Some(template("Deployment", 2)),
            binding: Some(binding(placed(), items)),
            copies: BTreeMap::from([
                ("m1".into(), Copy::Unreadable("no route".into())),
                ("m2".into(), Copy::Collected),
            ]),
        };
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada done: deployment "web" is scheduled to m1, m2
            m1 waits: Waiting for the status of deployment "web" to be collected: no route
            m2 waits: Waiting for deployment "web" rollout to finish: 1 of 2 updated replicas are available...
            Waiting
        "#]],
        );
    }

    #[test]
    fn propagated_means_current_applied_and_healthy() {
        let items = json!([{"clusterName": "m1", "applied": true, "health": "Healthy", "status": {"resourceTemplateGeneration": 1}},
            {"clusterName": "m2", "applied": true, "health": "Healthy", "status": {"resourceTemplateGeneration": 2}}]);
        let mut seen = Seen {
            template: Some(template("Deployment", 2)),
            binding: Some(binding(placed(), items)),
            copies: BTreeMap::from([("m1".into(), copy(2, 1)), ("m2".into(), copy(2, 1))]),
        };
        check(
            &seen,
            &[],
            Goal::Propagated,
            &expect![[r#"
            Karmada done: deployment "web" is scheduled to m1, m2
            m1 waits: Waiting for the newest status of deployment "web" to be collected...
            m2 done: deployment "web" is applied and healthy
            Waiting
        "#]],
        );
        // A kind without generations and rollouts.
        seen.template = Some(json!({"kind": "ConfigMap", "metadata": {"name": "web"}}));
        let plain = json!({"kind": "ConfigMap", "metadata": {"name": "web"}});
        seen.copies = ["m1", "m2"].map(|name| (name.to_owned(), Copy::Read(Some(plain.clone())))).into();
        check(
            &seen,
            &[],
            Goal::Rollout,
            &expect![[r#"
            Karmada done: configmap "web" is scheduled to m1, m2
            m1 done: configmap "web" is applied and healthy
            m2 done: configmap "web" is applied and healthy
            Done
        "#]],
        );
    }
}
