//! Whether the clusters have capacity for the replicas that a FederatedHPA may request: a prediction of the scheduler's
//! decision.

use std::sync::Arc;

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use scheduling::forecast::{Taken, after};
use scheduling::{Gates, Snapshot};

/// One line for each number of replicas above the present one: the clusters that the scheduler would assign, or why it
/// would not.
pub(super) fn lines(binding: &Binding, clusters: &[Arc<Cluster>], numbers: &[i32]) -> Vec<String> {
    let snapshot = Snapshot::of_clusters(clusters.iter().cloned());
    let mut numbers: Vec<i32> = numbers.iter().copied().filter(|number| *number > binding.spec.replicas).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let line = |number: i32| {
        let mut grown = binding.clone();
        grown.spec.replicas = number;
        let report = after(&mut Taken::default(), &grown, &snapshot, &Gates::default())?;
        Some(format!("{number} replicas: {}", report.result()))
    };
    numbers.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use karmada_api::scope::Scope;
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, cpu: &str) -> Arc<Cluster> {
        let resource = |cpu: &str| json!({"cpu": cpu, "memory": "64Gi", "pods": "110"});
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push"}, "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
                "resourceSummary": {"allocatable": resource(cpu), "allocated": {"cpu": "0", "memory": "0", "pods": "0"}}}});
        Arc::new(serde_json::from_value(cluster).expect("a Cluster"))
    }

    fn binding(replicas: i32) -> Binding {
        let division = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
        let value: Value = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web-deployment", "namespace": "shop"},
            "spec": {"replicas": replicas, "clusters": [{"name": "m1", "replicas": replicas}],
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "replicaScheduling": division}}});
        Binding::from_value(Scope::Namespaced, &value).expect("a binding")
    }

    #[test]
    fn forecasts_report_whether_growth_fits() {
        let clusters = [cluster("m1", "4"), cluster("m2", "2")];
        let found = lines(&binding(2), &clusters, &[9, 5, 5, 2]);
        assert_eq!(found.len(), 2, "numbers that are no growth are left out: {found:?}");
        assert!(found[0].starts_with("5 replicas: m"), "{found:?}");
        assert!(found[1].starts_with("9 replicas: ") && found[1].contains("available"), "{found:?}");
        assert_eq!(lines(&binding(2), &clusters, &[]), Vec::<String>::new());
    }
}
