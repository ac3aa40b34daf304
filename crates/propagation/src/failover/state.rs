//! State that a copy carries over to the cluster that takes over, as labels: values of the status it reported.

use std::collections::BTreeMap;

use apimachinery::jsonpath::Template;
use apimachinery::names::is_label_value;
use karmada_api::policy::v1alpha1::StatePreservationRule;
use karmada_api::scope::Binding;
use serde_json::Value;

/// Why the state of a copy is not known. The copy is not evicted, so that the state is not lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum Error {
    #[error("cluster {0} has not reported a status to preserve")]
    NotReported(String),
    #[error("the status reported by cluster {cluster} cannot be read: {why}")]
    Unreadable { cluster: String, why: String },
    #[error("statePreservation rule {rule}: {path:?} is not a JSONPath template: {why}")]
    Template { rule: String, path: String, why: String },
    #[error("statePreservation rule {rule}: {path:?} finds nothing in the status reported by cluster {cluster}")]
    Missing { rule: String, path: String, cluster: String },
    #[error("statePreservation rule {rule}: {value:?} is not a label value: {why}")]
    Label { rule: String, value: String, why: String },
}

/// The labels for the copy that replaces the one in `cluster`.
///
/// A copy without a reported status passes on the state it was created with, because it has no newer one.
///
/// # Errors
/// A rule without a value.
pub fn preserved(
    binding: &Binding,
    cluster: &str,
    rules: &[StatePreservationRule],
) -> Result<BTreeMap<String, String>, Error> {
    let item = binding.status.aggregated_status.iter().find(|item| item.cluster_name == cluster);
    let Some(status) = item.and_then(|item| item.status.as_ref()) else {
        let passed_on = binding.spec.graceful_eviction_tasks.last().filter(|task| {
            !task.preserved_label_state.is_empty() && !task.clusters_before_failover.iter().any(|it| it == cluster)
        });
        let passed_on = passed_on.map(|task| task.preserved_label_state.clone());
        return passed_on.ok_or_else(|| Error::NotReported(cluster.to_owned()));
    };
    let unreadable =
        |error: serde_json::Error| Error::Unreadable { cluster: cluster.to_owned(), why: error.to_string() };
    let status = status.to_value().map_err(unreadable)?;
    rules.iter().map(|rule| Ok((rule.alias_label_name.clone(), value(rule, &status, cluster)?))).collect()
}

fn value(rule: &StatePreservationRule, status: &Value, cluster: &str) -> Result<String, Error> {
    let (name, path) = (&rule.alias_label_name, &rule.json_path);
    let malformed = |why: String| Error::Template { rule: name.clone(), path: path.clone(), why };
    let missing = || Error::Missing { rule: name.clone(), path: path.clone(), cluster: cluster.to_owned() };
    let mut template = Template::parse(path).map_err(|error| malformed(error.to_string()))?;
    template.strict(true);
    let value = template.render_checked(status).map_err(|_| missing())?;
    match is_label_value(&value).into_iter().next() {
        None => Ok(value),
        Some(why) => Err(Error::Label { rule: name.clone(), value, why }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::binding;
    use super::*;

    #[test]
    fn values_of_a_status() {
        let status = json!({"replicas": 3, "rate": 2.0, "share": 0.5, "job": {"id": "a-1"}, "on": true, "none": null,
            "conditions": [{"type": "Ready", "status": "True"}], "text": "no label"});
        let items = json!({"aggregatedStatus": [{"clusterName": "m1", "status": status}, {"clusterName": "m2"}]});
        for (path, expected) in [
            ("{.replicas}", "3"),
            ("{ .replicas }", "3"),
            ("{$.replicas}", "3"),
            ("{.rate}", "2"),
            ("{.share}", "0.5"),
            ("{.job.id}", "a-1"),
            ("job-{.job.id}-{.replicas}", "job-a-1-3"),
            ("{.on}", "true"),
            ("{.conditions[0].status}", "True"),
            (r#"{.conditions[?(@.type=="Ready")].status}"#, "True"),
            ("plain", "plain"),
            ("{..id}", "a-1"),
            (
                "{.absent}",
                "statePreservation rule kept: \"{.absent}\" finds nothing in the status reported by cluster m1",
            ),
        ] {
            let rules = [StatePreservationRule { alias_label_name: "kept".to_owned(), json_path: path.to_owned() }];
            let found = preserved(&binding(json!({}), items.clone()), "m1", &rules);
            let found = found.map(|labels| labels["kept"].clone()).unwrap_or_else(|error| error.to_string());
            assert_eq!(found, expected, "{path}");
        }
        for path in ["{.replicas", "{.a[}", "{.text}", "{.job}"] {
            let rules = [StatePreservationRule { alias_label_name: "kept".to_owned(), json_path: path.to_owned() }];
            let found = preserved(&binding(json!({}), items.clone()), "m1", &rules);
            assert!(matches!(found, Err(Error::Template { .. } | Error::Label { .. })), "{path}: {found:?}");
        }
    }

    /// The initial state of a copy is passed on, unless the copy is older than that state.
    #[test]
    fn a_copy_that_reported_nothing() {
        let task =
            json!({"fromCluster": "m0", "preservedLabelState": {"kept": "7"}, "clustersBeforeFailover": ["m0", "m2"]});
        let items = json!({"aggregatedStatus": [{"clusterName": "m1"}, {"clusterName": "m3", "status": {"n": 8}}]});
        let rules = [StatePreservationRule { alias_label_name: "kept".to_owned(), json_path: "{.n}".to_owned() }];
        for (tasks, cluster, expected) in [
            (json!([]), "m1", None),
            (json!([task]), "m1", Some("7")),
            (json!([task]), "m2", None),
            (json!([task]), "m3", Some("8")),
            (json!([task, {"fromCluster": "m9"}]), "m1", None),
        ] {
            let binding = binding(json!({"gracefulEvictionTasks": tasks}), items.clone());
            let found = preserved(&binding, cluster, &rules);
            match expected {
                Some(value) => assert_eq!(found.expect("a state")["kept"], value, "{tasks} {cluster}"),
                None => assert_eq!(found, Err(Error::NotReported(cluster.to_owned())), "{tasks} {cluster}"),
            }
        }
    }
}
