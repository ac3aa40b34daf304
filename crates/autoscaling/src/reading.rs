//! Values read from the members: scales, pods, and metrics.

mod wire;

use std::collections::BTreeMap;

use apimachinery::meta::Time;
use apimachinery::quantity::Quantity;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// One of the clusters that the workload is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub cluster: String,
    /// The response, or the reason why there is none.
    pub answer: Result<Answer, String>,
}

/// The answer of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// `spec.replicas` of the workload's scale.
    pub desired: i32,
    /// `status.replicas` of the workload's scale.
    pub observed: i32,
    /// `status.selector` of the workload's scale.
    pub selector: String,
    /// The pods that the selector matches.
    pub pods: Vec<Pod>,
    /// Usage of these pods, from `metrics.k8s.io`; absent if no metric requires it.
    pub usage: Option<Result<Vec<Usage>, String>>,
    /// Values of custom and external metrics, by their positions in the spec.
    pub series: BTreeMap<usize, Result<Series, String>>,
}

/// Values of a custom or external metric in one member.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// By the names of pods.
    Pods(BTreeMap<String, Sample>),
    /// One value, in thousandths; `None` where the member does not have the object or the series.
    Total(Option<i64>),
}

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// In thousandths of the unit.
    pub value: i64,
    /// When it was measured.
    pub at: Timestamp,
    /// How long it was measured.
    pub window: SignedDuration,
}

/// The usage of a pod's containers, decoded from a `PodMetrics` of `metrics.k8s.io`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "wire::PodMetrics")]
pub struct Usage {
    /// The pod's name.
    pub pod: String,
    /// When it was measured.
    pub at: Timestamp,
    /// How long it was measured.
    pub window: SignedDuration,
    /// Each container with its resources, in thousandths.
    pub containers: Vec<(String, BTreeMap<String, i64>)>,
}

/// A pod, decoded from a `v1.Pod` without the fields that no decision needs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "wire::Pod")]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// `status.phase`.
    pub phase: Phase,
    /// It has a deletion timestamp.
    pub is_deleting: bool,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// The condition Ready.
    pub ready: Option<Ready>,
    /// Its containers and sidecars, with their requests in thousandths.
    pub containers: Vec<(String, BTreeMap<String, i64>)>,
    /// The requests of the whole pod in thousandths, where its spec has them.
    pub requests: BTreeMap<String, i64>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    #[default]
    Pending,
    /// Started.
    Running,
    /// Ended with an error.
    Failed,
    /// Ended, or unknown.
    Other,
}

/// The condition Ready of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// `None`: Unknown.
    pub status: Option<bool>,
    /// `lastTransitionTime`.
    pub since: Timestamp,
}

/// A `v1.PodList`, or a list of `metrics.k8s.io`.
#[derive(Debug, Deserialize)]
pub struct List<T> {
    /// The kind of the list.
    #[serde(default)]
    pub kind: String,
    /// The items; absent in some empty lists.
    pub items: Option<Vec<T>>,
}

fn time(value: &Value) -> Option<Timestamp> {
    serde_json::from_value::<Time>(value.clone()).ok().map(Time::timestamp)
}

/// A quantity in thousandths.
fn milli(value: &Value) -> Option<i64> {
    serde_json::from_value::<Quantity>(value.clone()).ok().map(Quantity::milli_value)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Pod {
    /// It runs and its condition Ready is True.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Running && self.ready.is_some_and(|ready| ready.status == Some(true))
    }
}

impl Usage {
    /// The usage of a resource, of all containers or of one; `None` where one of them does not report it.
    pub fn sample(&self, resource: &str, container: Option<&str>) -> Option<Sample> {
        let mut selected =
            self.containers.iter().filter(|(name, _)| container.is_none_or(|container| container == name)).peekable();
        selected.peek()?;
        let value = selected.map(|(_, usage)| usage.get(resource).copied()).sum::<Option<i64>>()?;
        Some(Sample { value, at: self.at, window: self.window })
    }
}

/// The values of a `MetricValueList` of `custom.metrics.k8s.io` by the names of the described objects. Both versions of
/// the API are read.
pub fn described_values(list: &Value) -> BTreeMap<String, Sample> {
    let sample = |item: &Value| {
        let seconds = item["windowSeconds"].as_i64().or_else(|| item["window"].as_i64()).unwrap_or(60);
        let at = time(&item["timestamp"]).unwrap_or_default();
        Some(Sample { value: milli(&item["value"])?, at, window: SignedDuration::from_secs(seconds) })
    };
    items(&list["items"]).filter_map(|item| Some((text(&item["describedObject"]["name"]), sample(item)?))).collect()
}

/// The sum of the values of a list of `custom.metrics.k8s.io` or `external.metrics.k8s.io`; `None` when it is empty.
pub fn sum_of_values(list: &Value) -> Option<i64> {
    let mut values = items(&list["items"]).filter_map(|item| milli(&item["value"])).peekable();
    values.peek()?;
    Some(values.fold(0i64, i64::saturating_add))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from<T: for<'de> Deserialize<'de>>(value: Value) -> T {
        serde_json::from_value(value).expect("decodable")
    }

    #[test]
    fn malformed_values_are_absent() {
        let pod = from::<Pod>(
            json!({"metadata": {"name": "a", "deletionTimestamp": null}, "spec": {"initContainers": null,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "much", "memory": 5}}}, {"name": "b", "resources": {}}]},
            "status": {"startTime": "now", "conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        );
        assert_eq!((pod.is_deleting, pod.started, pod.phase), (false, None, Phase::Pending));
        assert_eq!(pod.containers[0].1, BTreeMap::from([("memory".to_owned(), 5000)]));
        assert_eq!(pod.ready, Some(Ready { status: None, since: Timestamp::default() }));
        assert_eq!(from::<List<Pod>>(json!({"kind": "PodList", "items": null})).items, None);
    }

    #[test]
    fn pods_and_their_usage() {
        let pod = from::<Pod>(json!({
            "metadata": {"name": "a", "deletionTimestamp": "2026-11-21T00:00:00Z"},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "25m", "memory": "64Mi"}}}],
                "initContainers": [{"name": "once"}, {"name": "side", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "startTime": "2026-11-21T00:00:00Z", "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T00:00:09Z"}]}}));
        assert!(pod.is_deleting && !pod.is_ready());
        let names: Vec<&str> = pod.containers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["app", "side"]);
        assert_eq!(pod.containers[0].1["cpu"], 25);
        assert_eq!(pod.containers[0].1["memory"], 64 * 1024 * 1024 * 1000);
        assert_eq!(pod.ready.and_then(|it| it.status), Some(false));

        let usage =
            from::<Usage>(json!({"metadata": {"name": "a"}, "timestamp": "2026-11-21T00:01:00Z", "window": "30s",
            "containers": [{"name": "app", "usage": {"cpu": "10m", "memory": "1k"}},
                {"name": "side", "usage": {"cpu": "2500n"}}]}));
        assert_eq!(usage.window, SignedDuration::from_secs(30));
        let value = |resource, container| usage.sample(resource, container).map(|it| it.value);
        assert_eq!(value("cpu", None), Some(11), "a part of a thousandth counts as one");
        assert_eq!(value("cpu", Some("app")), Some(10));
        assert_eq!(value("memory", None), None, "a container does not report it");
        assert_eq!(value("cpu", Some("none")), None);
    }

    #[test]
    fn lists_of_values() {
        let list = json!({"items": [
            {"describedObject": {"name": "a"}, "timestamp": "2026-11-21T00:01:00Z", "windowSeconds": 30, "value": "700m"},
            {"describedObject": {"name": "b"}, "timestamp": "2026-11-21T00:01:00Z", "value": "2"}]});
        let values = described_values(&list);
        assert_eq!((values["a"].value, values["a"].window.as_secs()), (700, 30));
        assert_eq!((values["b"].value, values["b"].window.as_secs()), (2000, 60));
        assert_eq!(sum_of_values(&list), Some(2700));
        assert_eq!(sum_of_values(&json!({"items": []})), None);
    }
}
