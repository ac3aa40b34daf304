//! The resources that the group versions list. Those of `custom.metrics.k8s.io` and `external.metrics.k8s.io` are the metrics that
//! members list.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::groups::{GroupVersion, RESOURCE};

/// A metric that a member lists: `pods/http_requests`, and whether it is namespaced.
pub type Listed = (String, bool);

/// The metrics in a member's `APIResourceList`.
///
/// # Errors
/// In words: the document is not such a list.
pub fn listed(document: &Value) -> Result<BTreeSet<Listed>, String> {
    if document["kind"] != "APIResourceList" {
        return Err(format!("it returned the kind {} instead of APIResourceList", document["kind"]));
    }
    let rows = document["resources"].as_array().into_iter().flatten();
    Ok(rows.filter_map(|row| Some((row["name"].as_str()?.to_owned(), row["namespaced"] == true))).collect())
}

fn resource_metrics() -> Vec<Value> {
    let row = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    vec![row("nodes", "NodeMetrics", false), row("pods", "PodMetrics", true)]
}

/// The `APIResourceList` of a group version.
pub fn resource_list(version: GroupVersion, metrics: &BTreeSet<Listed>) -> Value {
    let kind = if version.group == crate::groups::EXTERNAL { "ExternalMetricValueList" } else { "MetricValueList" };
    let resources = match version.group {
        RESOURCE => resource_metrics(),
        _ => metrics
            .iter()
            .map(|(name, namespaced)| {
                json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]})
            })
            .collect(),
    };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version.api_version(), "resources": resources})
}

/// The `resources` of the group version in aggregated discovery. Metrics of members are left out there: the document is the same
/// for all clients and would change with every metric.
pub fn aggregated(version: GroupVersion) -> Value {
    if version.group != RESOURCE {
        return json!([]);
    }
    let entry = |row: &Value| {
        let scope = if row["namespaced"] == true { "Namespaced" } else { "Cluster" };
        json!({"resource": row["name"], "responseKind": {"group": RESOURCE, "version": version.version, "kind": row["kind"]},
            "scope": scope, "singularResource": "", "verbs": row["verbs"]})
    };
    resource_metrics().iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups;

    #[test]
    fn metrics_are_listed() {
        let list = json!({"kind": "APIResourceList", "resources": [
            {"name": "pods/b", "namespaced": true}, {"name": "pods/a", "namespaced": true}, {"x": 1}]});
        let metrics = listed(&list).expect("a list");
        let custom = groups::find(groups::CUSTOM, "v1beta2").expect("a version");
        let rows = resource_list(custom, &metrics);
        assert_eq!(rows["groupVersion"], "custom.metrics.k8s.io/v1beta2");
        assert_eq!(
            rows["resources"][0],
            json!({"name": "pods/a", "singularName": "", "namespaced": true,
            "kind": "MetricValueList", "verbs": ["get"]})
        );
        assert!(listed(&json!({"kind": "Status"})).is_err());
        let resource = groups::find(groups::RESOURCE, "v1beta1").expect("a version");
        assert_eq!(resource_list(resource, &metrics)["resources"][1]["kind"], "PodMetrics");
        assert_eq!(aggregated(resource)[0]["scope"], "Cluster");
        assert_eq!(aggregated(custom), json!([]));
    }
}
