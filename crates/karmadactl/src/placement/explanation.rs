//! The explanation of one workload, computed from its state alone: the stored state first, then differences of a
//! current calculation, then the next step.

use std::collections::BTreeSet;

use apimachinery::meta::Condition;
use karmada_api::constants::{conditions, reasons};
use karmada_api::policy::v1alpha1::Placement;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::TargetCluster;
use propagation::claim::{Claim, claimed_by, claimed_by_metadata};
use propagation::template::Template as Tree;
use scheduling::record::{self, Record};
use scheduling::report::Report;
use serde_json::{Value, json};

use super::advice::{advise, stalled};
use super::live::{List, Live, Template};
use super::places::{Row, rows};
use super::selecting::{Selection, near_misses, selecting};

/// The scheduler that a binding has without a name of another.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// With their labels.
    pub lines: Vec<(&'static str, String)>,
    pub rows: Vec<Row>,
    /// At least one.
    pub next: Vec<String>,
}

/// The scheduler of a binding, and the state of its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduling {
    Deleting,
    OtherScheduler(String),
    Suspended,
    /// It follows the bindings that depend on it.
    Follows(Vec<String>),
    /// No policy selects it and no binding depends on it any more.
    Released,
    /// The newest generation has not been decided about.
    Waiting {
        decided: i64,
        newest: i64,
    },
    Failed {
        reason: String,
        message: String,
    },
    Scheduled,
}

impl Scheduling {
    pub fn of(binding: &Binding) -> Self {
        let (spec, status) = (&binding.spec, &binding.status);
        let suspended = spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true));
        let scheduled = status.conditions.iter().find(|it| it.type_ == conditions::SCHEDULED);
        let newest = binding.metadata.generation;
        let record = record_of(binding);
        let is_tried = |condition: &Condition| {
            let Some(record) = &record else { return true };
            // A result that was refused is not recorded: the record is then that of an earlier decision.
            record.generation >= newest || record.error.is_empty() || condition.reason == reasons::QUOTA_EXCEEDED
        };
        match scheduled {
            _ if binding.metadata.deletion_timestamp.is_some() => Self::Deleting,
            _ if spec.placement.is_none() && !spec.required_by.is_empty() => {
                Self::Follows(spec.required_by.iter().map(|it| format!("{}/{}", it.namespace, it.name)).collect())
            }
            _ if !is_claimed(binding) => Self::Released,
            _ if !["", DEFAULT_SCHEDULER].contains(&spec.scheduler_name.as_str()) => {
                Self::OtherScheduler(spec.scheduler_name.clone())
            }
            _ if suspended => Self::Suspended,
            Some(it) if it.status == "False" && is_tried(it) => {
                Self::Failed { reason: it.reason.clone(), message: it.message.clone() }
            }
            Some(it) if it.status == "True" && status.scheduler_observed_generation >= newest => Self::Scheduled,
            _ => Self::Waiting { decided: status.scheduler_observed_generation, newest },
        }
    }

    /// Whether our scheduler decides about it, so that its reasons count.
    pub fn is_decided(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Failed { .. } | Self::Scheduled)
    }
}

fn is_claimed(binding: &Binding) -> bool {
    let by = [
        Scope::Namespaced.policy_id_label(),
        Scope::Cluster.policy_id_label(),
        karmada_api::constants::labels::BINDING_MANAGED_BY,
    ];
    by.iter().any(|label| binding.metadata.labels.get(*label).is_some_and(|value| !value.is_empty()))
}

/// The record of the scheduler's last decision.
pub fn record_of(binding: &Binding) -> Option<Record> {
    binding.metadata.annotations.get(record::ANNOTATION).and_then(|text| Record::parse(text))
}

/// `report` is the result of a current calculation.
pub fn explanation_of(live: &Live, report: Option<&Report>) -> Explanation {
    let selection = selecting(live);
    let mut lines = vec![("Workload", workload(live))];
    lines.push(("Policy", policy(live, &selection)));
    lines.extend(near_misses(live, &selection).into_iter().map(|miss| ("Not by", miss)));
    lines.extend(live.warnings.iter().map(|warning| ("Warning", warning.clone())));
    let Some(binding) = &live.binding else {
        let next = advise(live, &selection, None, &[], report);
        return Explanation { lines, rows: Vec::new(), next };
    };
    let scheduling = Scheduling::of(binding);
    lines.push(("Scheduled", scheduled(binding, &scheduling)));
    lines.push(("Assigned", places(&binding.spec.clusters)));
    lines.extend(retry(&scheduling).map(|words| ("Retry", words.to_owned())));
    lines.extend(report.and_then(|report| recheck(binding, &scheduling, report)).map(|words| ("Recheck", words)));
    lines.extend(applied(binding).map(|words| ("Applied", words)));
    lines.extend(
        unknown_clusters(live)
            .map(|names| ("Unknown", format!("the policy names clusters that do not exist: {names}"))),
    );
    let rows = rows(live, binding, &scheduling, report);
    lines.extend(stalled(live, &rows).map(|it| ("Failing", format!("{}: {}", it.reason, it.message))));
    let next = advise(live, &selection, Some((binding, &scheduling)), &rows, report);
    Explanation { lines, rows, next }
}

pub fn workload(live: &Live) -> String {
    let it = &live.workload;
    let place = if it.namespace.is_empty() { String::new() } else { format!("{}/", it.namespace) };
    let replicas = live.binding.as_ref().map_or(0, |binding| binding.spec.replicas);
    let replicas = match replicas {
        0 => String::new(),
        1 => ", 1 replica".to_owned(),
        many => format!(", {many} replicas"),
    };
    let gone = if live.template == Template::Missing { ", deleted" } else { "" };
    format!("{} {place}{}{replicas}{gone}", it.kind, it.name)
}

/// The policy that has the workload, by the marks on the binding or on the template.
pub fn claim_of(live: &Live) -> Option<Claim> {
    let claim = live.binding.as_ref().and_then(|binding| claimed_by_metadata(&binding.metadata));
    claim.or_else(|| match &live.template {
        Template::Found(tree) => claimed_by(Tree(tree)),
        _ => None,
    })
}

fn policy(live: &Live, selection: &Selection<'_>) -> String {
    let Some(claim) = claim_of(live) else {
        let follows = live.binding.as_ref().is_some_and(|binding| !binding.spec.required_by.is_empty());
        return match selection.best {
            Some(policy) => format!("{}, which has not taken effect", selection.name_of(policy)),
            None if follows => "none of its own".to_owned(),
            None => "none selects it".to_owned(),
        };
    };
    let name = claim_name(&claim);
    let is_there = live.template == Template::Unread
        || live.policies.iter().any(|policy| policy.scope == claim.scope() && policy.key() == claim.policy);
    if !is_there {
        return format!("{name}, deleted");
    }
    let others: Vec<String> =
        selection.all.iter().map(|policy| selection.name_of(policy)).filter(|it| *it != name).collect();
    if others.is_empty() { name } else { format!("{name}; also selected by {}", others.join(", ")) }
}

pub fn claim_name(claim: &Claim) -> String {
    format!("{} {}", karmada_api::scope::Policy::kind(claim.scope()), claim.policy)
}

fn scheduled(binding: &Binding, scheduling: &Scheduling) -> String {
    let condition = binding.status.conditions.iter().find(|it| it.type_ == conditions::SCHEDULED);
    let before = condition.map_or_else(String::new, |it| format!("; before that: {} {}", it.status, it.message));
    match scheduling {
        Scheduling::Deleting => "no more: its binding is being deleted".to_owned(),
        Scheduling::OtherScheduler(name) => format!("by the scheduler {name:?}, not by Karmada's default one{before}"),
        Scheduling::Suspended => format!("suspended by spec.suspension.scheduling of its binding{before}"),
        Scheduling::Follows(requirers) => format!("follows what needs it: {}", requirers.join(", ")),
        Scheduling::Released => "no more: no policy selects it, it stays where it is".to_owned(),
        Scheduling::Waiting { decided: 0, .. } => format!("not yet{before}"),
        Scheduling::Waiting { decided, newest } => {
            format!("not yet in its newest generation {newest}, the last one decided is {decided}{before}")
        }
        Scheduling::Failed { reason, message } => format!("False, {reason}: {message}"),
        Scheduling::Scheduled => "True".to_owned(),
    }
}

/// When the scheduler retries.
pub fn retry(scheduling: &Scheduling) -> Option<&'static str> {
    let Scheduling::Failed { reason, .. } = scheduling else { return None };
    Some(match reason.as_str() {
        reasons::QUOTA_EXCEEDED => "with growing delays, until the quota has room",
        reasons::UNSCHEDULABLE => "when a cluster has more room, at the latest after 5 minutes",
        _ => "when a cluster changes, at the latest after 5 minutes",
    })
}

/// `m1:4, m2:1`; without replicas the names alone.
pub fn places(targets: &[TargetCluster]) -> String {
    let one = |target: &TargetCluster| match target.replicas {
        0 => target.name.clone(),
        replicas => format!("{}:{replicas}", target.name),
    };
    let all: Vec<String> = targets.iter().map(one).collect();
    if all.is_empty() { "no cluster".to_owned() } else { all.join(", ") }
}

/// The result of a calculation now, where it differs from the stored one, and the reason for the difference.
pub fn recheck(binding: &Binding, scheduling: &Scheduling, report: &Report) -> Option<String> {
    let now = match &report.decision.clusters {
        Ok(targets) => format!("a calculation gives {} now", places(targets)),
        Err(error) => format!("a calculation fails now: {error}"),
    };
    let assigned = |targets: &[TargetCluster]| -> BTreeSet<(String, i32)> {
        targets.iter().map(|target| (target.name.clone(), target.replicas)).collect()
    };
    let differs = match &report.decision.clusters {
        Ok(targets) => assigned(targets) != assigned(&binding.spec.clusters),
        Err(_) => true,
    };
    let why = match (scheduling, &report.decision.clusters) {
        (Scheduling::Waiting { .. }, _) if differs => "the scheduler has not decided about the newest change yet",
        (Scheduling::Scheduled, _) if differs => {
            "what is assigned stays until the policy, the replicas or a cluster's labels, taints or spec change"
        }
        (Scheduling::Failed { message, .. }, Err(error)) if error.to_string() != *message => {
            "the clusters have changed since, or the scheduler counts what this command does not see: workloads that are \
             assigned and not running yet, estimators, other workloads of an affinity group"
        }
        (Scheduling::Failed { .. }, Ok(_)) => {
            "the clusters have changed since, or the scheduler counts what this command does not see: workloads that are \
             assigned and not running yet, estimators, other workloads of an affinity group"
        }
        _ => return None,
    };
    Some(format!("{now}; {why}"))
}

fn applied(binding: &Binding) -> Option<String> {
    let condition = binding.status.conditions.iter().find(|it| it.type_ == conditions::FULLY_APPLIED)?;
    Some(match condition.status.as_str() {
        "True" => "True".to_owned(),
        status => format!("{status}, {}", condition.message),
    })
}

/// Every cluster name that a placement lists.
fn listed(placement: &Placement) -> BTreeSet<&str> {
    let own = placement.cluster_affinity.iter().flat_map(|affinity| &affinity.cluster_names);
    let terms = placement.cluster_affinities.iter().flat_map(|term| {
        term.cluster_names.iter().chain(term.overflow_affinities.iter().flat_map(|more| &more.cluster_names))
    });
    own.chain(terms).map(String::as_str).collect()
}

/// Names of the policy that are no cluster's.
pub fn unknown_names(live: &Live) -> Vec<&str> {
    let placement = live.binding.as_ref().and_then(|binding| binding.spec.placement.as_ref());
    let names = placement.filter(|_| live.knows(List::Clusters)).map(listed).unwrap_or_default();
    names.into_iter().filter(|name| !live.clusters.iter().any(|cluster| cluster.metadata.name == *name)).collect()
}

fn unknown_clusters(live: &Live) -> Option<String> {
    let names = unknown_names(live);
    (!names.is_empty()).then(|| names.join(", "))
}

impl Explanation {
    /// Lines for a terminal, each with its end.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (label, words) in &self.lines {
            text += &format!("{:<11}{}\n", format!("{label}:"), crate::table::printable(words));
        }
        if !self.rows.is_empty() {
            let head = ["CLUSTER", "REPLICAS", "ROOM", "STATE"].map(str::to_owned).to_vec();
            let lines: Vec<Vec<String>> = std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
            text += &format!("\n{}\n", crate::table::Layout::default().render(&lines));
        }
        for (index, step) in self.next.iter().enumerate() {
            let label = if index == 0 { "Next:" } else { "" };
            text += &format!("{label:<11}{step}\n");
        }
        text
    }

    pub fn to_value(&self, live: &Live) -> Value {
        let line = |(label, words): &(&str, String)| json!({"about": label.to_lowercase(), "text": words});
        let it = &live.workload;
        let mut value = json!({
            "workload": {"apiVersion": it.api_version, "kind": it.kind, "namespace": it.namespace, "name": it.name},
            "explanation": self.lines.iter().map(line).collect::<Vec<_>>(),
            "clusters": self.rows.iter().map(Row::to_value).collect::<Vec<_>>(),
            "next": self.next,
        });
        if let Some(binding) = &live.binding {
            value["binding"] = json!({
                "kind": Binding::kind(binding.scope), "namespace": binding.metadata.namespace, "name": binding.metadata.name,
                "generation": binding.metadata.generation,
                "schedulerObservedGeneration": binding.status.scheduler_observed_generation,
                "assigned": binding.spec.clusters, "conditions": binding.status.conditions,
            });
        }
        value
    }
}
