//! Evictions: whether a pod's disruption budgets permit it. The disruption controller counts the healthy pods.

use apimachinery::meta::Time;
use apimachinery::selector::Selector;
use apimachinery::status::{StatusCause, StatusDetails};
use apimachinery::{Status, StatusReason};
use serde_json::{Value, json};

/// The maximum number of pods with a granted eviction that still exist; kube-apiserver's bound on one budget.
const MAX_DISRUPTED: usize = 2000;

/// The decision about an eviction.
#[derive(Clone, Debug, PartialEq)]
pub enum Eviction {
    /// No budget applies.
    Delete,
    /// Write this budget, with one allowed disruption less, then delete the pod.
    Spend(Box<Value>),
}

/// Decides about the eviction of a pod; `budgets` are those of its namespace.
///
/// # Errors
/// 429 if the pod's budget allows no disruption, 403 if its status is broken, 500 if two budgets select it.
pub fn decide<'a>(pod: &Value, budgets: impl Iterator<Item = &'a Value>, now: Time) -> Result<Eviction, Status> {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let gone = matches!(phase, "Pending" | "Succeeded" | "Failed") || pod["metadata"]["deletionTimestamp"].is_string();
    if gone {
        return Ok(Eviction::Delete);
    }
    let mut selecting = budgets.filter(|budget| selects(budget, pod));
    let Some(budget) = selecting.next() else { return Ok(Eviction::Delete) };
    if selecting.next().is_some() {
        let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::unclassified(text));
    }
    let (spec, status) = (&budget["spec"], &budget["status"]);
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    if !is_ready(pod) {
        let spare = count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
        if spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || spare {
            return Ok(Eviction::Delete);
        }
    }
    spend(budget, pod, now).map(|budget| Eviction::Spend(Box::new(budget)))
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let Ok(selector) = serde_json::from_value(budget["spec"]["selector"].clone()) else { return false };
    let Ok(selector) = Selector::from_label_selector(&selector) else { return false };
    let labels = &pod["metadata"]["labels"];
    selector.matches_with(|key| labels[key].as_str())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn spend(budget: &Value, pod: &Value, now: Time) -> Result<Value, Status> {
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    // The controller has not processed a changed budget yet.
    if status["observedGeneration"].as_i64().unwrap_or(0) < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(why, Some(10)));
    }
    let forbidden = |why| Err(Status::forbidden("policy", "poddisruptionbudget", name, why));
    if count("disruptionsAllowed") < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if count("disruptionsAllowed") == 0 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        );
        return Err(refused(why, None));
    }
    let mut spent = budget.clone();
    spent["status"]["disruptionsAllowed"] = (count("disruptionsAllowed") - 1).into();
    spent["status"]["disruptedPods"][pod["metadata"]["name"].as_str().unwrap_or_default()] = json!(now);
    if spent["status"]["disruptionsAllowed"] == 0 {
        exhaust(&mut spent["status"], now);
    }
    Ok(spent)
}

/// Sets the condition of a budget that allows no more disruptions; the disruption controller sets it to True again.
fn exhaust(status: &mut Value, now: Time) {
    const TYPE: &str = "DisruptionAllowed";
    let mut condition = json!({"type": TYPE, "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": now, "observedGeneration": status["observedGeneration"]});
    let Some(status) = status.as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == TYPE) {
        Some(known) => {
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

fn refused(why: String, retry_after_seconds: Option<i32>) -> Status {
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = StatusCause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
    let details = StatusDetails { causes: vec![cause], retry_after_seconds, ..StatusDetails::default() };
    Status::failure(StatusReason::TooManyRequests, text).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_disruption_sets_the_condition() {
        let now = Time::new("2026-01-01T00:00:00Z".parse().expect("a time"));
        for (allowed, condition, expected) in [
            (2, json!([]), json!([])),
            (1, json!([]), json!(["False", "InsufficientPods", "2026-01-01T00:00:00Z"])),
            (
                1,
                json!([{"type": "DisruptionAllowed", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]),
                json!(["False", "InsufficientPods", "2026-01-01T00:00:00Z"]),
            ),
            (
                1,
                json!([{"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"}]),
                json!(["False", "InsufficientPods", "2025-01-01T00:00:00Z"]),
            ),
        ] {
            let budget = json!({"metadata": {"name": "x", "generation": 1}, "status": {"disruptionsAllowed": allowed,
                "observedGeneration": 1, "conditions": condition}});
            let spent = spend(&budget, &json!({"metadata": {"name": "p"}}), now).expect("it allows one");
            let fields = |it: &Value| ["status", "reason", "lastTransitionTime"].map(|field| it[field].clone());
            let conditions = spent["status"]["conditions"].as_array().expect("a list");
            assert_eq!(
                json!(conditions.iter().flat_map(fields).collect::<Vec<_>>()),
                expected,
                "{allowed} {condition}"
            );
        }
    }

    fn check(budgets: &[Value], expected: &str) {
        let pod = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let now = Time::new("2026-01-01T00:00:00Z".parse().expect("a time"));
        let found = match decide(&pod, budgets.iter(), now) {
            Ok(Eviction::Delete) => "delete".to_owned(),
            Ok(Eviction::Spend(budget)) => {
                format!("{} left, {}", budget["status"]["disruptionsAllowed"], budget["status"]["disruptedPods"])
            }
            Err(status) => match status.details {
                Some(details) if !details.causes.is_empty() => details.causes[0].message.clone(),
                _ => status.message,
            },
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_budget_is_spent_or_refuses() {
        let budget = |label: &str, allowed: i64, generation: i64| {
            json!({"metadata": {"name": "x", "generation": generation},
                "spec": {"selector": {"matchLabels": {"a": label}}},
                "status": {"disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2, "observedGeneration": 1}})
        };
        check(&[], "delete");
        check(&[budget("c", 0, 1)], "delete");
        check(&[budget("b", 2, 1)], r#"1 left, {"p":"2026-01-01T00:00:00Z"}"#);
        check(&[budget("b", 0, 1)], "The disruption budget x needs 2 healthy pods and has 2 currently");
        check(
            &[budget("b", -1, 1)],
            "poddisruptionbudget.policy \"x\" is forbidden: pdb disruptions allowed is negative",
        );
        check(&[budget("b", 2, 2)], "The disruption budget x is still being processed by the server.");
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        check(&[budget("b", 2, 1), budget("b", 2, 1)], two);
    }
}
