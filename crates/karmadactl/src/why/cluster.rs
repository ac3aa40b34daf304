//! The page of a member cluster: readiness, effects of its taints and conditions, and blocked Works and evictions.

use apimachinery::meta::Condition;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{conditions, taints};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::GracefulEvictionTask;
use propagation::failover::brake;
use propagation::resume;
use serde_json::{Value, json};

use super::page::Page;
use super::{waits, works};
use crate::placement::places::trouble;

/// Works and evictions that are listed in a table.
const LISTED: usize = 20;

/// The inputs of a page.
#[derive(Debug)]
pub struct Facts {
    pub cluster: Cluster,
    pub works: Vec<works::Row>,
    /// The bindings with an eviction task from the cluster.
    pub leaving: Vec<Binding>,
    pub unknown: Vec<String>,
}

/// The conditions and taints that exclude or evict workloads, or hold the member.
pub fn notable(cluster: &Cluster) -> Vec<String> {
    let mut found = Vec::new();
    if cluster.metadata.deletion_timestamp.is_some() {
        found.push("it is leaving the control plane".to_owned());
    }
    if !cluster.is_ready() {
        found.push(format!("it is not ready: {}", trouble(cluster)));
    }
    if let Some(held) = holds(cluster, conditions::RESUME_PENDING) {
        found.push(format!("it is held: {}", held.message));
    }
    if let Some(paused) = holds(cluster, conditions::EVICTIONS_PAUSED) {
        let since = brake::paused_since(cluster);
        let released = since.is_some_and(|since| brake::is_released(cluster, since));
        let note =
            if released { "evictions from it were paused, and are released" } else { "evictions from it are paused" };
        found.push(format!("{note}: {}", paused.message));
    }
    let enablements = cluster.condition(conditions::COMPLETE_API_ENABLEMENTS).filter(|it| it.status != "True");
    if let Some(partial) = enablements {
        found.push(format!("what it serves is not completely known: {} ({})", partial.message, partial.reason));
    }
    found.extend(cluster.spec.taints.iter().map(|taint| {
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        let effect = match taint.effect.as_str() {
            taints::NO_EXECUTE => {
                "no new workloads come that do not tolerate it, and others leave if evictions are enabled (karmadactl failover plan)"
            }
            taints::NO_SCHEDULE if taint.key == taints::UNSCHEDULABLE => "it is cordoned: no new workloads come",
            taints::NO_SCHEDULE => "no new workloads come that do not tolerate it",
            _ => "new workloads avoid it",
        };
        let since = taint.time_added.map(|at| format!(" since {at}")).unwrap_or_default();
        format!("taint {}{value}:{}{since}: {effect}", taint.key, taint.effect)
    }));
    found
}

fn holds<'a>(cluster: &'a Cluster, type_: &str) -> Option<&'a Condition> {
    cluster.condition(type_).filter(|it| it.status == "True")
}

fn tasks<'a>(binding: &'a Binding, cluster: &'a str) -> impl Iterator<Item = &'a GracefulEvictionTask> {
    binding.spec.graceful_eviction_tasks.iter().filter(move |task| task.from_cluster == cluster)
}

pub fn page(facts: &Facts) -> Page {
    let cluster = &facts.cluster;
    let name = cluster.metadata.name.as_str();
    let rows = &facts.works;
    let outstanding: Vec<&works::Row> = rows.iter().filter(|row| row.applied != "True" || row.message != "-").collect();
    let mut page = Page { subject: format!("Cluster {name}"), answer: answer(cluster), ..Page::default() };
    page.unknown.clone_from(&facts.unknown);
    page.waiting = waiting(facts, outstanding.len());
    page.next = next(facts, &outstanding);
    let mode = serde_json::to_value(cluster.spec.sync_mode).ok();
    let mode = mode.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    page.lines("Mode", vec![mode]);
    page.lines("Conditions", cluster.status.conditions.iter().map(condition).collect());
    page.lines("Effects", notable(cluster));
    let applied = rows.len() - outstanding.len();
    page.lines("Works", vec![format!("{} in all, {applied} applied, {} not", rows.len(), outstanding.len())]);
    page.table(
        ["WORK", "APPLIED", "DISPATCHING", "HEALTH", "MEMBER", "MESSAGE"],
        outstanding.iter().take(LISTED).map(|row| row.cells()).collect(),
    );
    let leaving = facts.leaving.iter().flat_map(|binding| {
        tasks(binding, name).map(move |task| {
            let it = &binding.spec.resource;
            format!("{} {}/{}: {}", it.kind, it.namespace, it.name, waits::eviction(task, binding))
        })
    });
    let leaving: Vec<String> = leaving.collect();
    page.lines("Evictions", leaving.iter().take(LISTED).cloned().collect());
    page.fact("subject", json!({"kind": "Cluster", "name": name}));
    page.fact("conditions", json!(cluster.status.conditions));
    page.fact("taints", json!(cluster.spec.taints));
    page.fact("effects", notable(cluster));
    page.fact("works", rows.iter().map(works::Row::to_value).collect::<Vec<_>>());
    page.fact("evictions", leaving);
    page
}

fn condition(it: &Condition) -> String {
    let since = it.last_transition_time.map(|at| format!(" since {at}")).unwrap_or_default();
    format!("{}={}{since} ({}): {}", it.type_, it.status, it.reason, it.message)
}

fn answer(cluster: &Cluster) -> String {
    let repels = |taint: &&karmada_api::kubernetes::Taint| {
        matches!(taint.effect.as_str(), taints::NO_EXECUTE | taints::NO_SCHEDULE)
    };
    match () {
        () if cluster.metadata.deletion_timestamp.is_some() => "it is leaving the control plane".to_owned(),
        () if !cluster.is_ready() => format!("not ready: {}", trouble(cluster)),
        () if resume::pending_since(cluster).is_some() => {
            "ready and held: it is newer than the store of the control plane".to_owned()
        }
        () if cluster.spec.taints.iter().any(|it| it.key == taints::UNSCHEDULABLE) => {
            "ready and cordoned: no new workloads come".to_owned()
        }
        () if cluster.spec.taints.iter().any(|taint| repels(&taint)) => {
            "ready; it takes the workloads that tolerate its taints".to_owned()
        }
        () => "ready, and takes workloads".to_owned(),
    }
}

fn waiting(facts: &Facts, outstanding: usize) -> Vec<String> {
    let (cluster, name) = (&facts.cluster, facts.cluster.metadata.name.as_str());
    let mut found = Vec::new();
    if !cluster.is_ready() {
        found.push("the cluster to answer its probes, or its agent to report".to_owned());
    }
    if let Some(held) = holds(cluster, conditions::RESUME_PENDING) {
        found.push(held.message.clone());
    }
    if outstanding > 0 {
        found.push(format!("{outstanding} of {} Works are not applied", facts.works.len()));
    }
    let evictions: usize = facts.leaving.iter().map(|binding| tasks(binding, name).count()).sum();
    if evictions > 0 {
        found.push(format!("{evictions} evictions from it have not ended"));
    }
    if let Some(since) = brake::paused_since(cluster).filter(|since| !brake::is_released(cluster, *since)) {
        found.push(format!("evictions from it are paused since {since}"));
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        found.push(format!("its finalizers: {}", cluster.metadata.finalizers.join(", ")));
    }
    found
}

fn next(facts: &Facts, outstanding: &[&works::Row]) -> Vec<String> {
    let (cluster, name) = (&facts.cluster, facts.cluster.metadata.name.as_str());
    let mut steps = Vec::new();
    if !cluster.is_ready() {
        let mode = cluster.spec.sync_mode;
        let how = match mode == karmada_api::cluster::v1alpha1::SyncMode::Pull {
            true => format!("see whether karmada-agent runs in {name} and reaches the control plane"),
            false => format!(
                "see whether {} answers from the control plane, and the credentials of {name} hold; register others with: \
                 karmadactl join {name} --renew --cluster-kubeconfig=FILE",
                cluster.spec.api_endpoint
            ),
        };
        steps.push(how);
    }
    if resume::pending_since(cluster).is_some() {
        steps.push(format!("confirm what changes in it: karmadactl resume {name} --dry-run"));
    }
    if brake::paused_since(cluster).is_some_and(|since| !brake::is_released(cluster, since)) {
        steps.push(format!("if it is lost, release its workloads: karmadactl failover release {name}"));
    }
    if cluster.spec.taints.iter().any(|it| it.key == taints::UNSCHEDULABLE) {
        steps.push(format!("let new workloads in: karmadactl uncordon {name}"));
    }
    if cluster.is_ready()
        && let Some(first) = outstanding.first()
        && let Some((namespace, work)) = first.work.split_once('/')
    {
        steps.push(format!("see why a Work is not applied: karmadactl why work/{work} -n {namespace}"));
    }
    if steps.is_empty() {
        steps.push("nothing to do".to_owned());
    }
    steps
}
