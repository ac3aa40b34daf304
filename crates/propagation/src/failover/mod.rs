//! Failover: when a workload leaves a cluster, and when its old copy is removed.
//!
//! [`by_taint`] and [`application`] decide to evict from a cluster: both remove the cluster from `spec.clusters` and
//! append an eviction task, so that the scheduler assigns other clusters. [`graceful`] decides when a task ends, and
//! with it the old copy. [`state`] extracts state from the old copy's status for the new one. [`brake`] and [`pace`]
//! limit evictions by taints.

pub mod application;
pub mod brake;
pub mod by_taint;
pub mod graceful;
pub mod history;
pub mod pace;
pub mod state;

use karmada_api::work::v1alpha2::{GracefulEvictionTask, ResourceBindingSpec};

/// Removes the cluster of `task` from the targets and appends the task, unless the cluster already has one. False if
/// the binding does not target the cluster.
///
/// State preserved by earlier tasks is dropped: it is older than the state with which the evicted copy was created.
fn leave(spec: &mut ResourceBindingSpec, mut task: GracefulEvictionTask) -> bool {
    let Some(at) = spec.clusters.iter().position(|target| target.name == task.from_cluster) else { return false };
    let target = spec.clusters.remove(at);
    let tasks = &mut spec.graceful_eviction_tasks;
    if tasks.iter().any(|it| it.from_cluster == task.from_cluster) {
        return true;
    }
    tasks.iter_mut().for_each(|earlier| earlier.preserved_label_state.clear());
    task.replicas = Some(target.replicas).filter(|replicas| *replicas > 0);
    tasks.push(task);
    true
}

/// The clusters of a binding before it leaves one of them.
fn clusters_of(spec: &ResourceBindingSpec) -> Vec<String> {
    spec.clusters.iter().map(|target| target.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use karmada_api::scope::{Binding, Scope};
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn binding(spec: Value, status: Value) -> Binding {
        let metadata = json!({"name": "web-deployment", "namespace": "demo", "generation": 4});
        let wire = json!({"metadata": metadata, "spec": spec, "status": status});
        Binding::from_value(Scope::Namespaced, &wire).expect("a binding")
    }

    #[test]
    fn a_task_takes_the_place_of_a_target() {
        let task = |cluster: &str| GracefulEvictionTask { from_cluster: cluster.to_owned(), ..Default::default() };
        for (clusters, tasks, from, left, then) in [
            (
                json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]),
                json!([]),
                "m1",
                Some("m2"),
                "m1=2",
            ),
            (json!([{"name": "m1"}]), json!([]), "m1", Some(""), "m1"),
            (json!([{"name": "m1"}]), json!([]), "m2", None, ""),
            // The existing task is not changed.
            (json!([{"name": "m1", "replicas": 2}]), json!([{"fromCluster": "m1"}]), "m1", Some(""), "m1"),
            // The state preserved from m0 is older than the copy in m1.
            (
                json!([{"name": "m1", "replicas": 2}]),
                json!([{"fromCluster": "m0", "preservedLabelState": {"a": "1"}}]),
                "m1",
                Some(""),
                "m0 m1=2",
            ),
        ] {
            let mut spec = binding(json!({"clusters": clusters, "gracefulEvictionTasks": tasks}), json!({})).spec;
            let is_left = leave(&mut spec, task(from));
            assert_eq!(is_left.then(|| clusters_of(&spec).join(" ")).as_deref(), left, "{clusters} {from}");
            let tasks: Vec<String> = spec
                .graceful_eviction_tasks
                .iter()
                .map(|task| {
                    assert!(task.preserved_label_state.is_empty(), "{clusters} {from}");
                    let replicas = task.replicas.map(|replicas| format!("={replicas}")).unwrap_or_default();
                    format!("{}{replicas}", task.from_cluster)
                })
                .collect();
            assert_eq!(tasks.join(" "), then, "{clusters} {from}");
        }
    }
}
