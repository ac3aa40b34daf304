//! Built-in kinds that are served in two forms and stored in one: events of both groups, and autoscalers v1 and v2.

use apimachinery::object::ObjectTree as _;
use apimachinery::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};

/// The conversion between a served form and the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// `events.k8s.io/v1`, stored as `v1`.
    Event,
    /// `autoscaling/v1`, stored as `autoscaling/v2`.
    Autoscaler,
}

/// Names of `v1` and of `events.k8s.io/v1`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const PERCENT: &str = "targetCPUUtilizationPercentage";
/// Percent of the CPU requested by the pods.
const DEFAULT_UTILIZATION: i64 = 80;
const CURRENT_PERCENT: &str = "currentCPUUtilizationPercentage";

impl Conversion {
    /// `None` if the stored form of the kind is the served one.
    pub(crate) fn of(resource: &ApiResource) -> Option<Self> {
        Self::of_form(&resource.api_version(), &resource.kind)
    }

    /// The other form of a kind that has two.
    pub(crate) fn other_form(resource: &ApiResource) -> Option<GroupVersionKind> {
        let form = |group, version| Some(GroupVersionKind::new(group, version, resource.kind.clone()));
        match (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str()) {
            ("", "v1", "Event") => form("events.k8s.io", "v1"),
            ("events.k8s.io", "v1", "Event") => form("", "v1"),
            ("autoscaling", "v1", "HorizontalPodAutoscaler") => form("autoscaling", "v2"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler") => form("autoscaling", "v1"),
            _ => None,
        }
    }

    /// The conversion of the form with this `apiVersion` of a kind; `None` if that is the stored one.
    fn of_form(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("events.k8s.io/v1", "Event") => Some(Self::Event),
            ("autoscaling/v1", "HorizontalPodAutoscaler") => Some(Self::Autoscaler),
            _ => None,
        }
    }

    /// Converts an object of either form to the form with this `apiVersion`.
    pub(crate) fn between(object: &mut Value, kind: &str, api_version: &str) {
        let from = object["apiVersion"].as_str().unwrap_or_default();
        if from == api_version {
            return;
        }
        if let Some(conversion) = Self::of_form(from, kind) {
            conversion.to_stored(object);
        }
        if let Some(conversion) = Self::of_form(api_version, kind) {
            conversion.to_served(object);
        }
    }

    /// Sets the defaults of the served form before the conversion, so that the writer owns them.
    pub(crate) fn default(self, object: &mut Value) {
        let Some(map) = object.as_object_mut().filter(|_| self == Self::Autoscaler) else { return };
        let has_metrics = map.get("metadata").is_some_and(|metadata| metadata["annotations"][METRICS].is_string());
        if !has_metrics {
            part(map, "spec").entry(PERCENT).or_insert_with(|| DEFAULT_UTILIZATION.into());
        }
    }

    pub(crate) fn to_stored(self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        match self {
            Self::Event => {
                EVENT_FIELDS.iter().for_each(|(stored, served)| rename(map, served, stored));
                map.insert("apiVersion".into(), "v1".into());
            }
            Self::Autoscaler => {
                autoscaler_to_v2(map);
                map.insert("apiVersion".into(), "autoscaling/v2".into());
            }
        }
    }

    pub(crate) fn to_served(self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        match self {
            Self::Event => {
                EVENT_FIELDS.iter().for_each(|(stored, served)| rename(map, stored, served));
                map.insert("apiVersion".into(), "events.k8s.io/v1".into());
            }
            Self::Autoscaler => {
                autoscaler_to_v1(map);
                map.insert("apiVersion".into(), "autoscaling/v1".into());
            }
        }
    }
}

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

fn part<'m>(map: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let value = map.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object")
}

/// Decodes and removes the JSON of an annotation.
fn unwrap(map: &mut Map<String, Value>, annotation: &str) -> Option<Value> {
    let metadata = map.metadata_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

/// Encodes values without a v1 field into an annotation.
fn wrap(map: &mut Map<String, Value>, annotation: &str, value: Option<Value>) {
    let Some(value) = value.filter(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
    else {
        return;
    };
    part(part(map, "metadata"), "annotations").insert(annotation.to_owned(), value.to_string().into());
}

fn autoscaler_to_v2(map: &mut Map<String, Value>) {
    let mut metrics = list(unwrap(map, METRICS));
    let mut current = list(unwrap(map, CURRENT_METRICS));
    let (behavior, conditions) = (unwrap(map, BEHAVIOR), unwrap(map, CONDITIONS));
    let spec = part(map, "spec");
    if let Some(percent) = spec.remove(PERCENT).filter(Value::is_number) {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    if metrics.is_empty() {
        // The stored form requires a metric, and defaults it.
        let target = json!({"type": "Utilization", "averageUtilization": DEFAULT_UTILIZATION});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    spec.insert("metrics".into(), metrics.into());
    if let Some(behavior) = behavior {
        spec.insert("behavior".into(), behavior);
    }
    if !map.contains_key("status") && current.is_empty() && conditions.is_none() {
        return;
    }
    let status = part(map, "status");
    if let Some(percent) = status.remove(CURRENT_PERCENT).filter(Value::is_number) {
        let shown = json!({"averageUtilization": percent, "averageValue": "0"});
        current.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "current": shown}}));
    }
    status.insert("currentMetrics".into(), if current.is_empty() { Value::Null } else { current.into() });
    if let Some(conditions) = conditions {
        status.insert("conditions".into(), conditions);
    }
}

fn autoscaler_to_v1(map: &mut Map<String, Value>) {
    let spec = part(map, "spec");
    let mut metrics = list(spec.remove("metrics"));
    let is_cpu = |metric: &Value| {
        metric["type"] == "Resource"
            && metric["resource"]["name"] == "cpu"
            && metric["resource"]["target"]["averageUtilization"].is_number()
    };
    if let Some(at) = metrics.iter().position(is_cpu) {
        let metric = metrics.remove(at);
        spec.insert(PERCENT.into(), metric["resource"]["target"]["averageUtilization"].clone());
    }
    let behavior = spec.remove("behavior");
    let (mut current, mut conditions) = (Vec::new(), None);
    if let Some(status) = map.get_mut("status").and_then(Value::as_object_mut) {
        current = list(status.remove("currentMetrics"));
        conditions = status.remove("conditions");
        let shown = |metric: &Value| metric["resource"]["current"]["averageUtilization"].clone();
        let cpu = current.iter().find(|metric| metric["resource"]["name"] == "cpu" && shown(metric).is_number());
        if let Some(metric) = cpu {
            status.insert(CURRENT_PERCENT.into(), shown(metric));
        }
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
    wrap(map, METRICS, Some(metrics.into()));
    wrap(map, CURRENT_METRICS, Some(current.into()));
    wrap(map, BEHAVIOR, behavior);
    wrap(map, CONDITIONS, conditions);
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_event_are_one_object() {
        let stored = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "m", "count": 2,
                            "involvedObject": {"name": "p"}, "reason": "R", "reportingComponent": "c"});
        let mut event = stored.clone();
        Conversion::Event.to_served(&mut event);
        assert_eq!((&event["apiVersion"], &event["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
        assert_eq!((&event["regarding"]["name"], event.get("message")), (&json!("p"), None));
        Conversion::Event.to_stored(&mut event);
        assert_eq!(event, stored);
    }

    #[test]
    fn an_autoscaler_survives_its_old_form() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}});
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let stored = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
                            "spec": {"maxReplicas": 3, "metrics": [cpu, memory], "behavior": {"scaleDown": {"selectPolicy": "Max"}}}});
        let mut old = stored.clone();
        Conversion::Autoscaler.to_served(&mut old);
        assert_eq!((&old["apiVersion"], &old["spec"][PERCENT]), (&json!("autoscaling/v1"), &json!(70)));
        assert_eq!((old["spec"].get("metrics"), old["spec"].get("behavior")), (None, None));
        Conversion::Autoscaler.to_stored(&mut old);
        assert_eq!(old, stored);
        let mut simple =
            json!({"apiVersion": "autoscaling/v1", "metadata": {}, "spec": {"maxReplicas": 1, PERCENT: 80}});
        Conversion::Autoscaler.to_stored(&mut simple);
        assert_eq!(simple["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
        assert_eq!(simple["metadata"], json!({}));
        let mut silent = json!({"apiVersion": "autoscaling/v1", "metadata": {}, "spec": {"maxReplicas": 1}});
        Conversion::Autoscaler.to_stored(&mut silent);
        Conversion::Autoscaler.to_served(&mut silent);
        assert_eq!(silent["spec"], json!({"maxReplicas": 1, PERCENT: 80}));
    }
}
