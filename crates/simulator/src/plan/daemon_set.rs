//! DaemonSets: one pod on every node that matches the template.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::int_or_string::IntOrString;
use apimachinery::meta::null_as_default;
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::node::NodeFacts;
use super::pod::{self, PodFacts, PodSpec};
use super::revision::{self, ControllerRevision, HASH_LABEL};
use super::scheduling::{accepts, untolerated};
use super::strategy::Strategy;
use super::{Action, Kind, Plan};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DaemonSet {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    template: Value,
    #[serde(deserialize_with = "null_as_default")]
    update_strategy: Strategy<RollingUpdate>,
    #[serde(deserialize_with = "null_as_default")]
    min_ready_seconds: i64,
    revision_history_limit: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_unavailable: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    current_number_scheduled: i64,
    desired_number_scheduled: i64,
    number_available: i64,
    number_misscheduled: i64,
    number_ready: i64,
    number_unavailable: i64,
    observed_generation: i64,
    updated_number_scheduled: i64,
}

/// The tolerations of every daemon: daemons run on unhealthy and cordoned nodes too.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

pub(crate) fn plan<'v>(
    set: &DaemonSet,
    pods: impl Iterator<Item = &'v PodFacts>,
    nodes: impl Iterator<Item = &'v NodeFacts>,
    known: &[ControllerRevision],
    now: jiff::Timestamp,
) -> Plan {
    if set.metadata.is_deleting() {
        return Plan::nothing();
    }
    if let Some(action) = revision::record(&set.metadata, "DaemonSet", &set.spec.template, known) {
        return Plan::one(action);
    }
    let (hash, revision) = revision::name(&set.metadata, &set.spec.template);
    let template = template(set, &hash);
    let Ok(spec) = serde_json::from_value::<PodSpec>(template["spec"].clone()) else { return Plan::nothing() };
    let suits = |node: &&NodeFacts| {
        let tainted = untolerated(&spec.tolerations, &node.taints, &["NoSchedule", "NoExecute"]);
        tainted.is_none() && accepts(&spec, &node.name, &node.labels)
    };
    let node_names: BTreeSet<&str> = nodes.filter(suits).map(|node| node.name.as_ref()).collect();
    let mut at: BTreeMap<&str, Vec<&PodFacts>> = BTreeMap::new();
    for pod in pods {
        at.entry(pod.node.as_ref()).or_default().push(pod);
    }
    let actions = steps(set, &node_names, &at, &template, &hash, now);
    if !actions.is_empty() {
        return Plan { actions, again: None };
    }
    let status = status(set, &node_names, &at, &hash, now);
    if status != set.status {
        return Plan::one(Action::Status(Kind::DaemonSet, set.metadata.with_status(printed(&status))));
    }
    let next = at.values().flatten().filter_map(|pod| pod.available_since(set.spec.min_ready_seconds));
    let next = next.filter(|since| *since > now).min();
    Plan {
        actions: revision::surplus(known, set.spec.revision_history_limit, &[&revision]),
        again: next.map(|next| std::time::Duration::try_from(next.duration_since(now)).unwrap_or_default()),
    }
}

/// The pod template with the tolerations of every daemon.
fn template(set: &DaemonSet, hash: &str) -> Value {
    let mut template = set.spec.template.clone();
    let mut tolerations = template["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in TOLERATED {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    template["spec"]["tolerations"] = tolerations.into();
    let labels = [(HASH_LABEL, hash), ("pod-template-generation", &set.metadata.generation.to_string())];
    pod::from_template(&template, &set.metadata, "apps/v1", "DaemonSet", &labels)
}

type Places<'p> = BTreeMap<&'p str, Vec<&'p PodFacts>>;

fn steps(
    set: &DaemonSet,
    node_names: &BTreeSet<&str>,
    at: &Places<'_>,
    template: &Value,
    hash: &str,
    now: jiff::Timestamp,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for node in node_names {
        if !at.contains_key(node) {
            let mut pod = template.clone();
            pod["spec"]["nodeName"] = (*node).into();
            actions.push(Action::Create(Kind::Pod, pod));
        }
    }
    for (node, pods) in at {
        // The oldest of several pods stays; ended pods are replaced.
        let mut living: Vec<&PodFacts> = pods.iter().filter(|pod| pod.is_active()).copied().collect();
        living.sort_by_key(|pod| (pod.created, pod.key.clone()));
        let keep = usize::from(node_names.contains(node));
        let ended = pods.iter().filter(|pod| pod.is_terminal() && !pod.deleting).copied();
        actions.extend(living.into_iter().skip(keep).chain(ended).map(super::replica_set::delete));
    }
    if actions.is_empty() { outdated(set, node_names, at, hash, now) } else { actions }
}

/// Outdated pods, at most as many as may be unavailable; unavailable ones first.
fn outdated(
    set: &DaemonSet,
    node_names: &BTreeSet<&str>,
    at: &Places<'_>,
    hash: &str,
    now: jiff::Timestamp,
) -> Vec<Action> {
    if set.spec.update_strategy.type_ == "OnDelete" {
        return Vec::new();
    }
    let total = i64::try_from(node_names.len()).unwrap_or(i64::MAX);
    let most = set.spec.update_strategy.rolling_update.max_unavailable.clone().unwrap_or(IntOrString::Int(1));
    let most = most.scaled(total, true).unwrap_or(1).max(1);
    let pods = || node_names.iter().filter_map(|node| at.get(node)).flatten().filter(|pod| pod.is_active()).copied();
    let available = |pod: &PodFacts| pod.available_since(set.spec.min_ready_seconds).is_some_and(|since| since <= now);
    let count = pods().filter(|pod| available(pod)).count();
    let missing = total - i64::try_from(count).unwrap_or(i64::MAX);
    let mut old: Vec<&PodFacts> = pods().filter(|pod| pod.template_hash.as_ref() != hash).collect();
    old.sort_by_key(|pod| available(pod));
    let idle = old.iter().filter(|pod| !available(pod)).count();
    let allowed = usize::try_from((most - missing).max(0)).unwrap_or(0);
    old.into_iter().take(idle + allowed).map(super::replica_set::delete).collect()
}

fn status(set: &DaemonSet, node_names: &BTreeSet<&str>, at: &Places<'_>, hash: &str, now: jiff::Timestamp) -> Status {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let on = |node: &&&str| at.get(**node).into_iter().flatten().find(|pod| pod.is_active()).copied();
    let pods: Vec<&PodFacts> = node_names.iter().filter_map(|node| on(&node)).collect();
    let available =
        |pod: &&&PodFacts| pod.available_since(set.spec.min_ready_seconds).is_some_and(|since| since <= now);
    let available = count(pods.iter().filter(available).count());
    let desired = count(node_names.len());
    Status {
        current_number_scheduled: count(pods.len()),
        desired_number_scheduled: desired,
        number_available: available,
        number_misscheduled: count(
            at.iter()
                .filter(|(node, pods)| !node_names.contains(**node) && pods.iter().any(|pod| pod.is_active()))
                .count(),
        ),
        number_ready: count(pods.iter().filter(|pod| pod.is_ready()).count()),
        number_unavailable: desired - available,
        observed_generation: set.metadata.generation,
        updated_number_scheduled: count(pods.iter().filter(|pod| pod.template_hash.as_ref() == hash).count()),
    }
}

/// The first four are always written.
fn printed(status: &Status) -> Value {
    let mut printed = json!({
        "currentNumberScheduled": status.current_number_scheduled,
        "desiredNumberScheduled": status.desired_number_scheduled,
        "numberMisscheduled": status.number_misscheduled,
        "numberReady": status.number_ready,
        "observedGeneration": status.observed_generation,
    });
    for (field, count) in [
        ("numberAvailable", status.number_available),
        ("numberUnavailable", status.number_unavailable),
        ("updatedNumberScheduled", status.updated_number_scheduled),
    ] {
        if count > 0 {
            printed[field] = count.into();
        }
    }
    printed
}
