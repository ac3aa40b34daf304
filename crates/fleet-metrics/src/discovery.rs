//! The resources that the group versions list. Those of `custom.metrics.k8s.io` and `external.metrics.k8s.io` are the
//! metrics that members list.

use std::collections::{BTreeMap, BTreeSet};

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

/// The `resources` of the group version in aggregated discovery. A metric of an object, such as `pods/http_requests`,
/// is a subresource of an entry without a kind, as kube-aggregator renders it.
pub fn aggregated(version: GroupVersion, metrics: &BTreeSet<Listed>) -> Value {
    let list = resource_list(version, metrics);
    let kind = |group: &str, version: &str, kind: &Value| json!({"group": group, "version": version, "kind": kind});
    let mut entries: Vec<Value> = Vec::new();
    let mut described: BTreeMap<(&str, bool), Vec<Value>> = BTreeMap::new();
    for row in list["resources"].as_array().into_iter().flatten() {
        let (name, namespaced) = (row["name"].as_str().unwrap_or_default(), row["namespaced"] == true);
        let own = kind(version.group, version.version, &row["kind"]);
        match name.split_once('/') {
            Some((object, metric)) => {
                let of_object = described.entry((object, namespaced)).or_default();
                of_object.push(json!({"subresource": metric, "responseKind": own, "verbs": row["verbs"]}));
            }
            None => entries.push(
                json!({"resource": name, "responseKind": own, "scope": scope(namespaced), "singularResource": "",
                    "verbs": row["verbs"]}),
            ),
        }
    }
    entries.extend(described.into_iter().map(|((object, namespaced), metrics)| {
        json!({"resource": object, "responseKind": kind("", "", &json!("")), "scope": scope(namespaced),
            "singularResource": "", "verbs": [], "subresources": metrics})
    }));
    entries.into()
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
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
        assert_eq!(aggregated(resource, &metrics)[0]["scope"], "Cluster");
        let verbs = json!(["get"]);
        let kind = json!({"group": groups::CUSTOM, "version": "v1beta2", "kind": "MetricValueList"});
        assert_eq!(
            aggregated(custom, &metrics),
            json!([{"resource": "pods", "responseKind": {"group": "", "version": "", "kind": ""}, "scope": "Namespaced",
                "singularResource": "", "verbs": [], "subresources": [
                    {"subresource": "a", "responseKind": kind, "verbs": verbs},
                    {"subresource": "b", "responseKind": kind, "verbs": verbs}]}])
        );
        let external = groups::find(groups::EXTERNAL, "v1beta1").expect("a version");
        let jobs = aggregated(external, &BTreeSet::from([("jobs".to_owned(), true)]));
        assert_eq!(
            (&jobs[0]["resource"], &jobs[0]["responseKind"]["kind"]),
            (&json!("jobs"), &json!("ExternalMetricValueList"))
        );
    }
}
