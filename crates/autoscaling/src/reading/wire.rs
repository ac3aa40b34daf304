//! Pods and their usage as members send them. A list of pods is large, and almost all of it is skipped. Values that are
//! malformed are absent.

use std::collections::BTreeMap;

use apimachinery::duration::Duration;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;

use super::{Phase, Ready, Usage, milli, time};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    deletion_timestamp: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    resources: Option<Resources>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    restart_policy: Option<String>,
    resources: Option<Resources>,
    /// In metrics.
    usage: Option<Amounts>,
}

type Amounts = BTreeMap<String, Value>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<Amounts>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    start_time: Value,
    conditions: Option<Vec<Condition>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PodMetrics {
    metadata: Metadata,
    timestamp: Value,
    window: Option<String>,
    containers: Option<Vec<Container>>,
}

fn amounts(wire: Option<Amounts>) -> BTreeMap<String, i64> {
    let entries = wire.into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name, milli(&amount)?))).collect()
}

fn requests(wire: Option<Resources>) -> BTreeMap<String, i64> {
    amounts(wire.and_then(|resources| resources.requests))
}

impl From<Pod> for super::Pod {
    fn from(pod: Pod) -> Self {
        let Pod { metadata, spec, status } = pod;
        let stays = |container: &Container| container.restart_policy.as_deref() == Some("Always");
        let sidecars = spec.init_containers.into_iter().flatten().filter(stays);
        let containers = spec.containers.into_iter().flatten().chain(sidecars);
        let ready = status.conditions.iter().flatten().find(|it| it.type_ == "Ready").map(|it| Ready {
            status: match it.status.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            },
            since: time(&it.last_transition_time).unwrap_or_default(),
        });
        Self {
            name: metadata.name,
            phase: match status.phase.as_deref() {
                Some("Pending") | None => Phase::Pending,
                Some("Running") => Phase::Running,
                Some("Failed") => Phase::Failed,
                Some(_) => Phase::Other,
            },
            is_deleting: metadata.deletion_timestamp.is_some(),
            started: time(&status.start_time),
            ready,
            containers: containers.map(|it| (it.name, requests(it.resources))).collect(),
            requests: requests(spec.resources),
        }
    }
}

impl From<PodMetrics> for Usage {
    fn from(metrics: PodMetrics) -> Self {
        let window = metrics.window.and_then(|text| text.parse::<Duration>().ok()).unwrap_or_default();
        let containers = metrics.containers.into_iter().flatten();
        Self {
            pod: metrics.metadata.name,
            at: time(&metrics.timestamp).unwrap_or_default(),
            window: SignedDuration::from_nanos(window.as_nanos()),
            containers: containers.map(|it| (it.name, amounts(it.usage))).collect(),
        }
    }
}
