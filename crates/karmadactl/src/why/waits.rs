//! The result in one sentence, and the outstanding events.

use std::collections::BTreeMap;

use apimachinery::meta::Time;
use karmada_api::constants::conditions;
use karmada_api::names;
use karmada_api::scope::{Binding, Policy};
use karmada_api::work::v1alpha2::{GracefulEvictionTask, ResourceHealth};
use propagation::failover::brake;

use crate::placement::advice::stalled;
use crate::placement::explanation::{Scheduling, places, retry};
use crate::placement::live::{List, Live, Template};
use crate::placement::places::{Row, targets};
use crate::placement::selecting::Selection;

/// How many clusters a summary names; the table lists all.
const NAMED: usize = 5;

/// The summary of `live`, for a workload without a binding.
pub fn unbound(live: &Live, selection: &Selection<'_>) -> String {
    if !live.knows(List::Policies) {
        return "it has no binding, and which policies select it is unknown".to_owned();
    }
    match selection.best {
        _ if live.template == Template::Missing => "it does not exist".to_owned(),
        _ if live.is_never_propagated() => "objects of this kind are never propagated".to_owned(),
        Some(policy) => {
            let name = format!("{} {}", Policy::kind(policy.scope), policy.key());
            format!("{name} selects it and has not taken effect")
        }
        None => "no policy selects it, so it stays in the control plane".to_owned(),
    }
}

/// The summary of `live`, for a workload with a binding.
pub fn bound(live: &Live, binding: &Binding, scheduling: &Scheduling, rows: &[Row]) -> String {
    let chosen: Vec<&Row> = rows.iter().filter(|row| row.is_target).collect();
    let fine = chosen.iter().filter(|row| row.obstacle.is_none()).count();
    let missing: Vec<&str> =
        chosen.iter().filter(|row| row.obstacle.is_some()).map(|row| row.cluster.as_str()).collect();
    let gone = if live.template == Template::Missing { "it was deleted; " } else { "" };
    let reported = |name: &str| binding.status.aggregated_status.iter().find(|item| item.cluster_name == name);
    let is_healthy =
        |row: &&Row| reported(&row.cluster).is_some_and(|item| item.health == Some(ResourceHealth::Healthy));
    let count = match (chosen.len(), missing.as_slice()) {
        (0, _) => "in no cluster".to_owned(),
        (all, []) if chosen.iter().all(is_healthy) => format!("applied and healthy in {fine} of {all} clusters"),
        (all, []) => format!("applied in {fine} of {all} clusters"),
        (all, missing) => format!("as wanted in {fine} of {all} clusters, not in {}", some_of(missing)),
    };
    let is_placed = !chosen.is_empty();
    match scheduling {
        Scheduling::Deleting => "its binding and its copies are being deleted".to_owned(),
        Scheduling::Failed { .. } if is_placed => format!("{gone}the newest change cannot be scheduled; {count}"),
        Scheduling::Failed { .. } => format!("{gone}in no cluster: it cannot be scheduled"),
        Scheduling::Waiting { .. } if is_placed => format!("{gone}the newest change is not scheduled yet; {count}"),
        Scheduling::Waiting { .. } => format!("{gone}in no cluster: it is not scheduled yet"),
        Scheduling::Suspended => format!("{gone}its scheduling is suspended; {count}"),
        Scheduling::Released => format!("{gone}no policy selects it any more, and it stays where it is; {count}"),
        Scheduling::Follows(_) => format!("{gone}{count}, where the workloads are that require it"),
        Scheduling::OtherScheduler(_) | Scheduling::Scheduled => format!("{gone}{count}"),
    }
}

/// The outstanding steps until the workload is as desired.
pub fn waiting(live: &Live, binding: &Binding, scheduling: &Scheduling, rows: &[Row]) -> Vec<String> {
    let failing = stalled(live, rows).map(|it| format!("{}: {}", it.reason, it.message));
    let mut found = Vec::from_iter(failing);
    found.extend(of_scheduling(scheduling));
    let outstanding = rows.iter().filter(|row| row.is_target && row.obstacle.is_some());
    found.extend(of_clusters(outstanding.map(|row| (row.cluster.as_str(), row.state.clone()))));
    let tasks = &binding.spec.graceful_eviction_tasks;
    found.extend(tasks.iter().map(|task| eviction(task, binding)));
    let desired = targets(binding);
    found.extend(of_clusters(live.works.iter().filter_map(|work| {
        let cluster = names::cluster_of_namespace(&work.metadata.namespace).unwrap_or_default();
        let leaves = !desired.contains_key(cluster) || work.metadata.deletion_timestamp.is_some();
        let is_evicted = tasks.iter().any(|task| task.from_cluster == cluster);
        (leaves && !is_evicted).then(|| (cluster, format!("its copy is being removed{}", trouble_of(live, cluster))))
    })));
    found.extend(of_clusters(live.clusters.iter().filter_map(|cluster| {
        let name = cluster.metadata.name.as_str();
        brake::paused_since(cluster)
            .filter(|since| desired.contains_key(name) && !brake::is_released(cluster, *since))?;
        Some((name, "evictions from it are paused until the fleet has recovered".to_owned()))
    })));
    found
}

/// One line for each cluster; one for all with the same text where these are more than [`NAMED`].
pub fn of_clusters<'a>(waiting: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (cluster, text) in waiting {
        let group = *known.entry(text).or_insert_with_key(|text| {
            groups.push((text.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(cluster);
    }
    let lines = groups.iter().flat_map(|(text, clusters)| match clusters.len() {
        count if count > NAMED => vec![format!("{}: {text}", some_of(clusters))],
        _ => clusters.iter().map(|cluster| format!("{cluster}: {text}")).collect(),
    });
    lines.collect()
}

/// The first names and the number of the others.
fn some_of(names: &[&str]) -> String {
    match names.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        others => format!("{} and {others} more", names[..NAMED].join(", ")),
    }
}

fn trouble_of(live: &Live, cluster: &str) -> String {
    let known = live.clusters.iter().find(|it| it.metadata.name == cluster);
    match known {
        Some(known) if !known.is_ready() => {
            format!(", which waits for the cluster: {}", crate::placement::places::trouble(known))
        }
        None if live.knows(List::Clusters) => ", and there is no such cluster".to_owned(),
        _ => String::new(),
    }
}

fn of_scheduling(scheduling: &Scheduling) -> Option<String> {
    Some(match scheduling {
        Scheduling::Failed { reason, message } => {
            let again = retry(scheduling).unwrap_or_default();
            format!("the scheduler: {message} ({reason}); it tries again {again}")
        }
        Scheduling::Waiting { decided: 0, .. } => "the scheduler: it has not decided yet".to_owned(),
        Scheduling::Waiting { decided, newest } => {
            format!("the scheduler: it has not decided about generation {newest}, the last one decided is {decided}")
        }
        Scheduling::Suspended => "scheduling: spec.suspension.scheduling of the binding suspends it".to_owned(),
        Scheduling::OtherScheduler(name) => format!("the scheduler {name:?}, which is not Karmada's default one"),
        _ => return None,
    })
}

/// An old copy that leaves a cluster, and when.
pub fn eviction(task: &GracefulEvictionTask, binding: &Binding) -> String {
    let cluster = &task.from_cluster;
    let ends = match (task.suppress_deletion, task.grace_period_seconds) {
        (Some(true), _) => "it stays until suppressDeletion of its eviction task is false or absent".to_owned(),
        (_, Some(seconds)) => format!(
            "it leaves when the new copies are healthy ({}), at the latest {seconds}s after {}",
            places(&binding.spec.clusters),
            time(task.creation_timestamp)
        ),
        (_, None) => format!("it leaves when the new copies are healthy ({})", places(&binding.spec.clusters)),
    };
    let why = if task.message.is_empty() { task.reason.clone() } else { format!("{}: {}", task.reason, task.message) };
    format!("{cluster}: the copy is being evicted by {} ({why}); {ends}", task.producer)
}

fn time(time: Option<Time>) -> String {
    time.map_or_else(|| "its start".to_owned(), |time| time.to_string())
}

/// A condition of a binding: `FullyApplied: False, message`.
pub fn conditions_of(binding: &Binding) -> Vec<String> {
    let shown = [conditions::SCHEDULED, conditions::FULLY_APPLIED];
    let found = shown.iter().filter_map(|type_| binding.status.conditions.iter().find(|it| it.type_ == *type_));
    found
        .map(|it| match it.status.as_str() {
            "True" => format!("{}=True", it.type_),
            status => format!("{}={status} ({}): {}", it.type_, it.reason, it.message),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_a_large_fleet_that_wait_for_the_same_share_a_line() {
        let few: Vec<String> = (1..=5).map(|number| format!("m{number}")).collect();
        let lines = |clusters: &[String]| {
            let odd = std::iter::once(("a", "not applied".to_owned()));
            of_clusters(odd.chain(clusters.iter().map(|name| (name.as_str(), "not healthy".to_owned()))))
        };
        assert_eq!(lines(&few[..2]), ["a: not applied", "m1: not healthy", "m2: not healthy"]);
        assert_eq!(lines(&few).len(), 6);
        let fleet: Vec<String> = (1..=1000).map(|number| format!("m{number}")).collect();
        assert_eq!(lines(&fleet), ["a: not applied", "m1, m2, m3, m4, m5 and 995 more: not healthy"]);
    }
}
