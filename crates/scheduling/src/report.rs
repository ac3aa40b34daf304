//! A decision and its reasons as a document and as a table.

use karmada_api::scope::Binding;
use serde_json::{Value, json};

use crate::decide::{Decision, demand};
use crate::estimate::{Demand, UNLIMITED};
use crate::explain::{Numbers, Verdict, explain};
use crate::needed::{ScheduleType, needed};
use crate::outcome::outcome;
use crate::problem::{Gates, Problem};
use crate::snapshot::Snapshot;

/// The current decision about a binding, and its reasons.
#[derive(Clone, Debug)]
pub struct Report {
    /// The binding's namespace.
    pub namespace: String,
    /// The binding's name.
    pub name: String,
    /// The template: kind, namespace and name.
    pub resource: [String; 3],
    /// Why the scheduler would schedule it; `None` when the last result is still valid.
    pub needed: Option<&'static str>,
    /// The decision.
    pub decision: Decision,
    /// The result for each cluster, sorted by name.
    pub clusters: Vec<Verdict>,
    /// Set when capacity is missing.
    pub shortage: Option<Shortage>,
}

/// The required and the available capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Replicas, or one set of components.
    pub required: i64,
    /// In all clusters that pass the filters, including the assigned replicas.
    pub available: i64,
    /// The number of clusters that pass the filters.
    pub clusters: usize,
}

impl Shortage {
    fn of(problem: &Problem<'_>, gates: &Gates, decision: &Decision, clusters: &[Verdict]) -> Option<Self> {
        decision.error().filter(|error| error.waits_for_capacity())?;
        let sets = matches!(demand(problem, gates), Demand::Sets(_));
        let available = || clusters.iter().filter_map(|verdict| verdict.numbers.map(|numbers| numbers.available));
        Some(Self {
            required: if sets { 1 } else { problem.spec.replicas.into() },
            available: available().fold(0, i64::saturating_add),
            clusters: available().count(),
        })
    }
}

impl Report {
    /// `None` for a binding without a placement.
    pub fn of(binding: &Binding, snapshot: &Snapshot, gates: &Gates) -> Option<Self> {
        Problem::of(binding).map(|problem| Self::of_problem(binding, &problem, snapshot, gates))
    }

    /// With estimates and peers, which are not part of the binding.
    pub fn of_problem(binding: &Binding, problem: &Problem<'_>, snapshot: &Snapshot, gates: &Gates) -> Self {
        let (decision, clusters) = explain(problem, snapshot, gates);
        let resource = &binding.spec.resource;
        let shortage = Shortage::of(problem, gates, &decision, &clusters);
        Self {
            namespace: binding.metadata.namespace.clone(),
            name: binding.metadata.name.clone(),
            resource: [resource.kind.clone(), resource.namespace.clone(), resource.name.clone()],
            needed: needed(binding, snapshot, gates).map(|why| match why {
                ScheduleType::Scale => "the replicas changed",
                ScheduleType::Reconcile => "the placement or the clusters may have changed",
            }),
            decision,
            clusters,
            shortage,
        }
    }

    /// The scheduler's next step after such a decision.
    fn then(&self) -> &'static str {
        match self.decision.error() {
            None => "nothing more, until something changes",
            Some(error) if error.waits_for_capacity() => {
                "again when a cluster has more room, after 5 minutes in any case"
            }
            Some(_) => "again when a cluster changes, after 5 minutes in any case",
        }
    }

    /// The result in one line: `m1:2 m2:1`, `none`, or the error.
    pub fn result(&self) -> String {
        match &self.decision.clusters {
            Ok(targets) if targets.is_empty() => "none".to_owned(),
            Ok(targets) => {
                targets.iter().map(|it| format!("{}:{}", it.name, it.replicas)).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    /// The report as JSON, as `karmadactl explain-placement -o json` prints it.
    pub fn to_value(&self) -> Value {
        let follows = outcome(self.decision.error());
        let failures = self.decision.failures.iter();
        let failures: Vec<Value> = failures
            .map(|it| json!({"index": it.index, "affinityName": it.name, "error": it.error.to_string()}))
            .collect();
        let mut value = json!({
            "binding": {"namespace": self.namespace, "name": self.name},
            "resource": {"kind": self.resource[0], "namespace": self.resource[1], "name": self.resource[2]},
            "schedule": self.needed,
            "condition": {"type": "Scheduled", "status": follows.status(), "reason": follows.reason, "message": follows.message},
            "failedTerms": failures,
            "clusters": self.clusters.iter().map(verdict).collect::<Vec<_>>(),
        });
        if let Ok(targets) = &self.decision.clusters {
            value["result"] = json!(targets);
        }
        if let Some(term) = &self.decision.affinity_term {
            value["affinityName"] = json!(term);
        }
        if let Some(Shortage { required, available, clusters }) = self.shortage {
            value["shortage"] = json!({"wanted": required, "room": available, "clusters": clusters});
        }
        value
    }

    /// Lines for a terminal, each with a line break.
    pub fn to_text(&self) -> String {
        let follows = outcome(self.decision.error());
        let mut lines = vec![
            format!("Schedule:  {}", self.needed.unwrap_or("not needed")),
            format!("Result:    {}", self.result()),
            format!("Condition: Scheduled={} {}: {}", follows.status(), follows.reason, follows.message),
        ];
        lines.extend(self.shortage.map(|Shortage { required, available, clusters }| {
            format!("Room:      {required} wanted; clusters that pass: {clusters}, with room for {available} in all")
        }));
        lines.push(format!("Then:      {}", self.then()));
        lines.extend(self.decision.affinity_term.iter().map(|term| format!("Term:      {term}")));
        let failures = self.decision.failures.iter();
        lines.extend(
            failures.map(|failure| format!("Failed:    term {} ({}): {}", failure.index, failure.name, failure.error)),
        );
        lines.push(String::new());
        let head = ["CLUSTER", "REPLICAS", "SCORE", "FREE", "AVAILABLE", "GROUP", "WHY"].map(str::to_owned);
        lines.extend(table(&std::iter::once(head).chain(self.clusters.iter().map(row)).collect::<Vec<_>>()));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

fn verdict(verdict: &Verdict) -> Value {
    let mut value = json!({
        "name": verdict.cluster,
        "chosen": verdict.chosen,
        "selected": verdict.selected,
        "replicas": verdict.replicas,
        "why": why(verdict),
    });
    if let Some(it) = &verdict.rejected_by {
        value["rejectedBy"] = json!({"plugin": it.plugin, "reason": it.reason, "field": it.field});
    }
    if let Some(it) = &verdict.numbers {
        value["score"] = json!(it.score);
        // Unlimited numbers are omitted.
        let limited = |number: i64| (number < UNLIMITED).then_some(number);
        value["capacity"] = json!({
            "allocatable": limited(it.allocatable), "available": limited(it.available), "overflowOrder": it.overflow_order,
        });
    }
    value
}

/// A short reason.
fn why(verdict: &Verdict) -> String {
    match &verdict.rejected_by {
        Some(rejected) => format!("{}: {} ({})", rejected.plugin, rejected.reason, rejected.field),
        None if verdict.chosen => "chosen".to_owned(),
        None if verdict.selected => "selected, without replicas".to_owned(),
        None if verdict.numbers.is_some() => "not selected".to_owned(),
        None => "being deleted".to_owned(),
    }
}

/// A number; empty when unlimited.
fn limited(number: i64) -> String {
    if number < UNLIMITED { number.to_string() } else { "any".to_owned() }
}

fn row(verdict: &Verdict) -> [String; 7] {
    let number = |number: fn(Numbers) -> String| verdict.numbers.map_or_else(|| "-".to_owned(), number);
    [
        verdict.cluster.clone(),
        if verdict.chosen { verdict.replicas.to_string() } else { "-".to_owned() },
        number(|it| it.score.to_string()),
        number(|it| limited(it.allocatable)),
        number(|it| limited(it.available)),
        number(|it| it.overflow_order.to_string()),
        why(verdict),
    ]
}

fn table(rows: &[[String; 7]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0) + 3;
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
