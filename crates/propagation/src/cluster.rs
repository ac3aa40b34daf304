//! Whether a cluster passes a ClusterAffinity.

use apimachinery::selector::Selector;
use karmada_api::kubernetes::NodeSelectorRequirement;
use karmada_api::policy::v1alpha1::ClusterAffinity;

use karmada_api::cluster::v1alpha1::Cluster;

/// Every part of the affinity that is present must hold; an empty affinity passes every cluster.
pub fn matches(affinity: &ClusterAffinity, cluster: &Cluster) -> bool {
    let name = &cluster.metadata.name;
    if affinity.exclude.contains(name) {
        return false;
    }
    if let Some(labels) = &affinity.label_selector {
        match Selector::from_label_selector(labels) {
            Ok(selector) if selector.matches(&cluster.metadata.labels) => {}
            _ => return false,
        }
    }
    if let Some(fields) = &affinity.field_selector
        && !fields.match_expressions.iter().all(|requirement| field(requirement, cluster))
    {
        return false;
    }
    affinity.cluster_names.is_empty() || affinity.cluster_names.contains(name)
}

/// An unset provider or region counts as absent; a cluster has any number of zones.
fn field(requirement: &NodeSelectorRequirement, cluster: &Cluster) -> bool {
    let values: Vec<&str> = match requirement.key.as_str() {
        "zone" => cluster.spec.zones.iter().map(String::as_str).collect(),
        "provider" => vec![cluster.spec.provider.as_str()],
        "region" => vec![cluster.spec.region.as_str()],
        _ => Vec::new(),
    };
    let mut present = values.into_iter().filter(|value| !value.is_empty()).peekable();
    match requirement.operator.as_str() {
        "Exists" => present.peek().is_some(),
        "DoesNotExist" => present.peek().is_none(),
        "In" => present.any(|value| requirement.values.iter().any(|wanted| wanted == value)),
        "NotIn" => !present.any(|value| requirement.values.iter().any(|wanted| wanted == value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn affinities() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": "m1", "labels": {"env": "prod"}},
            "spec": {"syncMode": "Push", "provider": "p", "zones": ["z1", "z2"]},
        }))
        .unwrap();
        let fields = |key: &str, operator: &str, value: &str| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]}});
        for (affinity, expected) in [
            (json!({}), true),
            (json!({"clusterNames": ["m1"]}), true),
            (json!({"clusterNames": ["m2"]}), false),
            (json!({"clusterNames": ["m1"], "exclude": ["m1"]}), false),
            (json!({"labelSelector": {"matchLabels": {"env": "prod"}}}), true),
            (json!({"labelSelector": {"matchLabels": {"env": "test"}}}), false),
            (fields("provider", "In", "p"), true),
            (fields("region", "NotIn", "r"), true),
            (fields("region", "In", "r"), false),
            (fields("zone", "In", "z2"), true),
            (fields("zone", "NotIn", "z2"), false),
        ] {
            let parsed: ClusterAffinity = serde_json::from_value(affinity.clone()).unwrap();
            assert_eq!(matches(&parsed, &cluster), expected, "{affinity}");
        }
    }
}
