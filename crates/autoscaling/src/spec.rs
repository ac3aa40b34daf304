//! The request of a FederatedHPA, with Kubernetes' defaults for absent fields.

use apimachinery::quantity::Quantity;
use karmada_api::autoscaling::v1alpha1::{CrossVersionObjectReference, FederatedHPASpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The bounds, the metrics and the behavior.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The least replicas; 1 when absent.
    pub min: i32,
    /// The most replicas.
    pub max: i32,
    /// At least one: 80 percent of the requested cpu when absent.
    pub metrics: Vec<Metric>,
    /// Absent: the limits of [`Behavior`] do not apply, and a workload grows to twice its size or 4 replicas at a time.
    pub behavior: Option<Behavior>,
}

/// A metric and its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The origin of its values.
    pub source: Source,
    /// The target value.
    pub target: Target,
}

/// The origin of a metric's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A resource of all containers of the pods.
    Resource {
        /// `cpu` or `memory`.
        name: String,
    },
    /// A resource of one container of the pods.
    ContainerResource {
        /// `cpu` or `memory`.
        name: String,
        /// The container.
        container: String,
    },
    /// A metric of the pods.
    Pods(Identifier),
    /// A metric of another object.
    Object(CrossVersionObjectReference, Identifier),
    /// A metric from outside the clusters.
    External(Identifier),
    /// A type that is not supported, or without its source.
    Unknown(String),
}

/// The name of a custom or external metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identifier {
    /// The name.
    pub name: String,
    /// Selects series of the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Value>,
}

/// The target value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// Over all pods.
    pub value: Option<Quantity>,
    /// For each pod.
    pub average_value: Option<Quantity>,
    /// For each pod, in percent of its request.
    pub average_utilization: Option<i32>,
}

/// How fast replicas may change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behavior {
    /// Rules for scaling up.
    pub up: Rules,
    /// Rules for scaling down.
    pub down: Rules,
}

/// How fast replicas may change in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Seconds in which earlier recommendations count.
    pub window: Option<i64>,
    /// Which of the policies counts.
    pub select: Select,
    /// The limits.
    pub policies: Vec<Policy>,
    /// Replaces the controller's tolerance.
    pub tolerance: Option<f64>,
}

/// Which of several policies counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The one that allows the largest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// No change in this direction.
    Disabled,
}

/// The largest change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The number of pods, or the percentage.
    pub change: Change,
    /// In seconds.
    pub period: i64,
}

/// The size of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many pods.
    Pods(i32),
    /// So many percent of the pods at the begin of the period.
    Percent(i32),
}

/// A field of a FederatedHPA that cannot be decoded; the server's schema refuses such objects.
#[derive(Debug, thiserror::Error)]
#[error("{field} cannot be read: {source}")]
pub struct SpecError {
    field: &'static str,
    source: serde_json::Error,
}

impl Spec {
    /// From the API's form.
    ///
    /// # Errors
    /// When the metrics or the behavior cannot be decoded.
    pub fn of(spec: &FederatedHPASpec) -> Result<Self, SpecError> {
        let metrics: Vec<WireMetric> = decode("spec.metrics", spec.metrics.as_ref())?;
        let mut metrics: Vec<Metric> = metrics.into_iter().map(Metric::from).collect();
        if metrics.is_empty() {
            let target = Target { average_utilization: Some(80), ..Target::default() };
            metrics.push(Metric { source: Source::Resource { name: "cpu".to_owned() }, target });
        }
        let behavior: Option<WireBehavior> = decode("spec.behavior", spec.behavior.as_ref())?;
        let behavior = behavior.map(|wire| Behavior {
            up: wire.scale_up.filled(Some(0), &[(Change::Pods(4), 15), (Change::Percent(100), 15)]),
            down: wire.scale_down.filled(None, &[(Change::Percent(100), 15)]),
        });
        Ok(Self { min: spec.min_replicas.unwrap_or(1), max: spec.max_replicas, metrics, behavior })
    }

    /// Whether a metric is read from `metrics.k8s.io`.
    pub fn needs_usage(&self) -> bool {
        self.metrics.iter().any(|it| matches!(it.source, Source::Resource { .. } | Source::ContainerResource { .. }))
    }
}

fn decode<T: Default + for<'de> Deserialize<'de>>(field: &'static str, value: Option<&Value>) -> Result<T, SpecError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(T::default()) };
    T::deserialize(value).map_err(|source| SpecError { field, source })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetric {
    #[serde(rename = "type")]
    type_: String,
    resource: Option<WireSource>,
    container_resource: Option<WireSource>,
    pods: Option<WireSource>,
    object: Option<WireSource>,
    external: Option<WireSource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSource {
    name: String,
    container: String,
    described_object: CrossVersionObjectReference,
    metric: Identifier,
    target: Target,
}

impl From<WireMetric> for Metric {
    fn from(wire: WireMetric) -> Self {
        let WireMetric { type_, resource, container_resource, pods, object, external } = wire;
        let unknown = |type_| Self { source: Source::Unknown(type_), target: Target::default() };
        let wire_source = match type_.as_str() {
            "Resource" => resource,
            "ContainerResource" => container_resource,
            "Pods" => pods,
            "Object" => object,
            "External" => external,
            _ => None,
        };
        let Some(wire_source) = wire_source else { return unknown(type_) };
        let WireSource { name, container, described_object, metric, target } = wire_source;
        let source = match type_.as_str() {
            "Resource" => Source::Resource { name },
            "ContainerResource" => Source::ContainerResource { name, container },
            "Pods" => Source::Pods(metric),
            "Object" => Source::Object(described_object, metric),
            _ => Source::External(metric),
        };
        Self { source, target }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireBehavior {
    scale_up: Option<WireRules>,
    scale_down: Option<WireRules>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireRules {
    stabilization_window_seconds: Option<i64>,
    select_policy: Option<String>,
    policies: Option<Vec<WirePolicy>>,
    tolerance: Option<Quantity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePolicy {
    #[serde(rename = "type")]
    type_: String,
    value: i32,
    period_seconds: i64,
}

trait Filled {
    fn filled(self, window: Option<i64>, policies: &[(Change, i64)]) -> Rules;
}

impl Filled for Option<WireRules> {
    fn filled(self, window: Option<i64>, policies: &[(Change, i64)]) -> Rules {
        let wire = self.unwrap_or_default();
        let policies_of = |list: Vec<WirePolicy>| list.into_iter().map(Policy::from).collect();
        let default = || policies.iter().map(|(change, period)| Policy { change: *change, period: *period }).collect();
        Rules {
            window: wire.stabilization_window_seconds.or(window),
            select: match wire.select_policy.as_deref() {
                Some("Disabled") => Select::Disabled,
                Some("Min") => Select::Min,
                _ => Select::Max,
            },
            policies: wire.policies.map_or_else(default, policies_of),
            tolerance: wire.tolerance.map(Quantity::as_f64),
        }
    }
}

impl From<WirePolicy> for Policy {
    fn from(wire: WirePolicy) -> Self {
        let change = match wire.type_.as_str() {
            "Percent" => Change::Percent(wire.value),
            _ => Change::Pods(wire.value),
        };
        Self { change, period: wire.period_seconds }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: Value) -> Spec {
        Spec::of(&serde_json::from_value(value).expect("a spec")).expect("decodable")
    }

    #[test]
    fn absent_fields_have_defaults() {
        let bare = spec(json!({"maxReplicas": 10}));
        assert_eq!((bare.min, bare.max, &bare.behavior), (1, 10, &None));
        assert_eq!(bare.metrics[0].source, Source::Resource { name: "cpu".to_owned() });
        assert_eq!(bare.metrics[0].target.average_utilization, Some(80));
        let decoded = spec(json!({"maxReplicas": 10, "behavior": {"scaleDown": {"selectPolicy": "Min"}}}));
        let Behavior { up, down } = decoded.behavior.expect("a behavior");
        assert_eq!((up.window, up.policies.len(), up.select), (Some(0), 2, Select::Max));
        assert_eq!((down.window, down.select), (None, Select::Min));
        assert_eq!(down.policies, [Policy { change: Change::Percent(100), period: 15 }]);
    }

    #[test]
    fn a_type_without_its_source_is_unknown() {
        let decoded = spec(json!({"maxReplicas": 10, "metrics": [{"type": "Pods"}, {"type": "Sun"}]}));
        assert_eq!(decoded.metrics[0].source, Source::Unknown("Pods".to_owned()));
        assert_eq!(decoded.metrics[1].source, Source::Unknown("Sun".to_owned()));
        assert!(!decoded.needs_usage());
    }
}
