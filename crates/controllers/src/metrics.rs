//! Metrics of the controllers, with upstream's names, labels and buckets.

use std::time::Duration;

use apimachinery::quantity::Quantity;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::kubernetes::ResourceList;
use metrics::{Buckets, Counters, Description, Gauges, Histograms, Registry};

const MILLISECONDS: Buckets = Buckets::Exponential { start: 0.001, factor: 2.0, count: 12 };
const CLUSTER: &[&str] = &["member_cluster"];

pub const READY: Description =
    Description::gauge("cluster_ready_state", CLUSTER, "1 when the condition Ready of a member is True, else 0.");
pub const NODES: Description = Description::gauge("cluster_node_number", CLUSTER, "Nodes of a member.");
pub const READY_NODES: Description =
    Description::gauge("cluster_ready_node_number", CLUSTER, "Ready nodes of a member.");
pub const MEMORY_ALLOCATABLE: Description =
    Description::gauge("cluster_memory_allocatable_bytes", CLUSTER, "Allocatable memory of a member.");
pub const CPU_ALLOCATABLE: Description =
    Description::gauge("cluster_cpu_allocatable_number", CLUSTER, "Allocatable CPU of a member, in cores.");
pub const PODS_ALLOCATABLE: Description =
    Description::gauge("cluster_pod_allocatable_number", CLUSTER, "Allocatable pods of a member.");
pub const MEMORY_ALLOCATED: Description =
    Description::gauge("cluster_memory_allocated_bytes", CLUSTER, "Memory requested by pods of a member.");
pub const CPU_ALLOCATED: Description =
    Description::gauge("cluster_cpu_allocated_number", CLUSTER, "CPU requested by pods of a member, in cores.");
pub const PODS_ALLOCATED: Description =
    Description::gauge("cluster_pod_allocated_number", CLUSTER, "Pods of a member that are assigned to a node.");
pub const SYNC_STATUS: Description = Description::histogram(
    "cluster_sync_status_duration_seconds",
    CLUSTER,
    Buckets::Default,
    "Duration of a member's status collection.",
);
pub const MATCH_POLICY: Description = Description::histogram(
    "resource_match_policy_duration_seconds",
    &[],
    MILLISECONDS,
    "Duration of finding the policy of a template.",
);
pub const APPLY_POLICY: Description = Description::histogram(
    "resource_apply_policy_duration_seconds",
    &["result"],
    MILLISECONDS,
    "Duration of applying a policy to a template.",
);
pub const APPLY_ATTEMPTS: Description =
    Description::counter("policy_apply_attempts_total", &["result"], "Policies applied to templates.");
pub const SYNC_WORK: Description = Description::histogram(
    "binding_sync_work_duration_seconds",
    &["result"],
    MILLISECONDS,
    "Duration of writing the Works of a binding.",
);
pub const SYNC_WORKLOAD: Description = Description::histogram(
    "work_sync_workload_duration_seconds",
    &["result"],
    MILLISECONDS,
    "Duration of applying a Work to a member.",
);
pub const CREATES: Description = Description::counter(
    "create_resource_to_cluster",
    &["result", "apiversion", "kind", "member_cluster", "recreate"],
    "Objects created in members; recreate is true if the object had been deleted there.",
);
pub const UPDATES: Description = Description::counter(
    "update_resource_to_cluster",
    &["result", "apiversion", "kind", "member_cluster", "operationResult"],
    "Objects updated in members; operationResult is none, unchanged or updated.",
);
pub const DELETES: Description = Description::counter(
    "delete_resource_from_cluster",
    &["result", "apiversion", "kind", "member_cluster"],
    "Objects deleted in members.",
);
pub const CONTESTED: Description = Description::counter(
    "karmada_contested_fields_total",
    &["member_cluster", "kind"],
    "Fields of objects in members that another client wrote as often as they were reverted; its values stay since.",
);
pub const PREEMPTIONS: Description = Description::counter(
    "policy_preemption_total",
    &["result"],
    "Templates taken over from a policy of lower priority.",
);
pub const RESUME_PENDING: Description = Description::gauge(
    "karmada_members_resume_pending",
    &[],
    "Members that are newer than the store and wait for karmadactl resume.",
);
pub const POOL_GETS: Description = Description::counter(
    "pool_get_operation_total",
    &["name", "from"],
    "Lua interpreters acquired: from the pool, or new.",
);
pub const POOL_PUTS: Description = Description::counter(
    "pool_put_operation_total",
    &["name", "to"],
    "Lua interpreters released: to the pool, or destroyed.",
);
pub const EVICTION_DEPTH: Description =
    Description::gauge("eviction_queue_depth", &["name"], "Taint evictions waiting for a worker.");
pub const EVICTION_KINDS: Description = Description::gauge(
    "eviction_kind_total",
    &["member_cluster", "resource_kind"],
    "Taint evictions waiting for a worker, by cluster and kind of binding.",
);
pub const EVICTION_LATENCY: Description = Description::histogram(
    "eviction_processing_latency_seconds",
    &["name"],
    Buckets::Exponential { start: 0.001, factor: 2.0, count: 15 },
    "Duration of a taint eviction, without the pause after it.",
);
pub const EVICTIONS: Description =
    Description::counter("eviction_processing_total", &["name", "result"], "Taint evictions.");
pub const EVICTIONS_PAUSED: Description = Description::gauge(
    "karmada_failover_evictions_paused",
    &[],
    "Clusters without taint evictions because too much of the fleet is unhealthy.",
);
pub const ALL: &[Description] = &[
    READY,
    NODES,
    READY_NODES,
    MEMORY_ALLOCATABLE,
    CPU_ALLOCATABLE,
    PODS_ALLOCATABLE,
    MEMORY_ALLOCATED,
    CPU_ALLOCATED,
    PODS_ALLOCATED,
    SYNC_STATUS,
    MATCH_POLICY,
    APPLY_POLICY,
    APPLY_ATTEMPTS,
    SYNC_WORK,
    SYNC_WORKLOAD,
    CREATES,
    UPDATES,
    DELETES,
    CONTESTED,
    PREEMPTIONS,
    RESUME_PENDING,
    POOL_GETS,
    POOL_PUTS,
    EVICTION_DEPTH,
    EVICTION_KINDS,
    EVICTION_LATENCY,
    EVICTIONS,
    EVICTIONS_PAUSED,
];

/// Families that go with a member.
const OF_CLUSTERS: &[Description] = &[
    READY,
    NODES,
    READY_NODES,
    MEMORY_ALLOCATABLE,
    CPU_ALLOCATABLE,
    PODS_ALLOCATABLE,
    MEMORY_ALLOCATED,
    CPU_ALLOCATED,
    PODS_ALLOCATED,
];

/// The resolved families, so that an observation only looks up its series.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub registry: Registry,
    pub match_policy: Histograms,
    pub apply_policy: Histograms,
    pub apply_attempts: Counters,
    pub sync_work: Histograms,
    pub sync_workload: Histograms,
    pub creates: Counters,
    pub updates: Counters,
    pub deletes: Counters,
    pub contested: Counters,
    pub preemptions: Counters,
    pub sync_status: Histograms,
    pub eviction_latency: Histograms,
    pub evictions: Counters,
    pub resume_pending: Gauges,
    pub evictions_paused: Gauges,
    clusters: Vec<Gauges>,
}

/// The value of a label `result`.
pub fn result<T, E>(result: &Result<T, E>) -> &'static str {
    if result.is_ok() { "success" } else { "error" }
}

impl Metrics {
    pub fn new(registry: Registry) -> Self {
        Self {
            match_policy: registry.histograms(&MATCH_POLICY),
            apply_policy: registry.histograms(&APPLY_POLICY),
            apply_attempts: registry.counters(&APPLY_ATTEMPTS),
            sync_work: registry.histograms(&SYNC_WORK),
            sync_workload: registry.histograms(&SYNC_WORKLOAD),
            creates: registry.counters(&CREATES),
            updates: registry.counters(&UPDATES),
            deletes: registry.counters(&DELETES),
            contested: registry.counters(&CONTESTED),
            preemptions: registry.counters(&PREEMPTIONS),
            sync_status: registry.histograms(&SYNC_STATUS),
            eviction_latency: registry.histograms(&EVICTION_LATENCY),
            evictions: registry.counters(&EVICTIONS),
            resume_pending: registry.gauges(&RESUME_PENDING),
            evictions_paused: registry.gauges(&EVICTIONS_PAUSED),
            clusters: OF_CLUSTERS.iter().map(|family| registry.gauges(family)).collect(),
            registry,
        }
    }

    /// Records a completed status collection.
    pub fn cluster(&self, cluster: &Cluster, took: Duration) {
        let name = cluster.metadata.name.as_str();
        self.sync_status.took(&[name], took);
        for (gauge, value) in self.clusters.iter().zip(figures(cluster)) {
            gauge.set(&[name], value);
        }
    }

    /// Removes the series of a removed member.
    pub fn forget(&self, name: &str) {
        for gauge in &self.clusters {
            gauge.remove(&[(CLUSTER[0], name)]);
        }
        self.sync_status.remove(&[(CLUSTER[0], name)]);
    }
}

/// In the order of [`OF_CLUSTERS`].
fn figures(cluster: &Cluster) -> [f64; 9] {
    let (nodes, summary) = (cluster.status.node_summary.as_ref(), cluster.status.resource_summary.as_ref());
    let amount = |list: Option<&ResourceList>, name: &str| {
        let text = list.and_then(|list| list.get(name)).map_or("0", |amount| amount.as_str());
        text.parse::<Quantity>().map_or(0.0, Quantity::as_f64)
    };
    let (allocatable, allocated) = (summary.map(|it| &it.allocatable), summary.map(|it| &it.allocated));
    [
        f64::from(u8::from(cluster.is_ready())),
        nodes.map_or(0.0, |nodes| f64::from(nodes.total_num)),
        nodes.map_or(0.0, |nodes| f64::from(nodes.ready_num)),
        amount(allocatable, "memory"),
        amount(allocatable, "cpu"),
        amount(allocatable, "pods"),
        amount(allocated, "memory"),
        amount(allocated, "cpu"),
        amount(allocated, "pods"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn series_of_a_member_are_exported_and_removed() {
        let cluster: Cluster = serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}, "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeSummary": {"totalNum": 3, "readyNum": 2},
            "resourceSummary": {"allocatable": {"cpu": "3500m", "memory": "1Ki", "pods": "30"}, "allocated": {"cpu": "1"}},
        }}))
        .unwrap();
        let metrics = Metrics::new(Registry::default());
        metrics.cluster(&cluster, Duration::from_millis(20));
        let text = metrics.registry.text();
        for line in [
            "cluster_ready_state{member_cluster=\"m1\"} 1\n",
            "cluster_ready_node_number{member_cluster=\"m1\"} 2\n",
            "cluster_cpu_allocatable_number{member_cluster=\"m1\"} 3.5\n",
            "cluster_memory_allocatable_bytes{member_cluster=\"m1\"} 1024\n",
            "cluster_pod_allocated_number{member_cluster=\"m1\"} 0\n",
            "cluster_sync_status_duration_seconds_count{member_cluster=\"m1\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        metrics.forget("m1");
        assert!(!metrics.registry.text().contains("m1"));
    }
}
