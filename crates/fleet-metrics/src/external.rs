//! `external.metrics.k8s.io`: the series of all members, each with the label of its cluster.
//!
//! Values are not added up: clients do so, and may select clusters by the label where several members report the same
//! queue.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::groups::{CLUSTER, EXTERNAL};
use crate::narrowed::Narrowed;

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalRequest {
    /// The namespace; members' adapters may use it.
    pub namespace: String,
    /// The metric.
    pub metric: String,
    /// Selects series, and members.
    pub series: Narrowed,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Option<Vec<Map<String, Value>>>,
}

/// The series of a member's list that were requested, with the label of the cluster.
///
/// # Errors
/// In words: the document is not a list of values.
pub fn series(requested: &ExternalRequest, cluster: &str, list: Value) -> Result<Vec<Map<String, Value>>, String> {
    let list: List = serde_json::from_value(list).map_err(|error| format!("its values cannot be read: {error}"))?;
    if list.kind != "ExternalMetricValueList" {
        return Err(format!("it returned the kind {:?} instead of ExternalMetricValueList", list.kind));
    }
    let mut found = list.items.unwrap_or_default();
    // KEDA's metric names are lower case, whatever was requested.
    found.retain(|it| {
        it.get("metricName").and_then(Value::as_str).is_some_and(|it| it.eq_ignore_ascii_case(&requested.metric))
    });
    for item in &mut found {
        match item.get_mut("metricLabels") {
            Some(Value::Object(labels)) => {
                labels.insert(CLUSTER.to_owned(), json!(cluster));
            }
            _ => {
                item.insert("metricLabels".to_owned(), json!({CLUSTER: cluster}));
            }
        }
    }
    Ok(found)
}

/// The response; members are in the order of their names.
pub fn merged(parts: Vec<Vec<Map<String, Value>>>) -> Value {
    let items: Vec<Map<String, Value>> = parts.into_iter().flatten().collect();
    json!({"kind": "ExternalMetricValueList", "apiVersion": format!("{EXTERNAL}/v1beta1"), "metadata": {}, "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_name_their_cluster() {
        let requested =
            ExternalRequest { namespace: "shop".into(), metric: "jobs".into(), series: Narrowed::default() };
        let list = |items: Value| json!({"kind": "ExternalMetricValueList", "items": items});
        let one = json!([{"metricName": "jobs", "metricLabels": {"queue": "a", CLUSTER: "lie"}, "value": "3"},
            {"metricName": "other", "value": "9"}]);
        let two = json!([{"metricName": "JOBS", "metricLabels": null, "value": "4"}]);
        let parts =
            [("m1", one), ("m2", two)].map(|(name, items)| series(&requested, name, list(items)).expect("a list"));
        let merged = merged(parts.into());
        assert_eq!(
            merged["items"],
            json!([
            {"metricName": "jobs", "metricLabels": {"queue": "a", CLUSTER: "m1"}, "value": "3"},
            {"metricName": "JOBS", "metricLabels": {CLUSTER: "m2"}, "value": "4"}])
        );
        assert!(series(&requested, "m", json!({"kind": "Status"})).is_err());
        assert!(series(&requested, "m", json!([])).is_err());
    }
}
