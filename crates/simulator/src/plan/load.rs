//! The load of simulated pods in `metrics.k8s.io`, from annotations and the member's default.

use std::collections::BTreeMap;
use std::str::FromStr;

use apimachinery::meta::{OwnerReference, Time};
use apimachinery::quantity::{Format, Quantity};
use serde_json::{Value, json};

use super::meta::Meta;
use super::pod::Pod;

/// The usage of each pod, on a pod or its workload: `cpu=100m,memory=64Mi`.
pub(crate) const USAGE: &str = "simulator.karmada.io/usage";
/// The usage of all running pods of a workload in the member together, on the workload.
pub(crate) const LOAD: &str = "simulator.karmada.io/load";
/// How long a sample is measured, as by metrics-server.
const WINDOW: &str = "15s";

/// CPU and memory. An absent value leaves the resource unchanged.
///
/// ```
/// let load: simulator::Load = "cpu=250m,memory=64Mi".parse()?;
/// assert_eq!(load.to_string(), "cpu=250m,memory=64Mi");
/// # Ok::<(), simulator::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// In cores.
    pub cpu: Option<Quantity>,
    /// In bytes.
    pub memory: Option<Quantity>,
}

/// A text that is not a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a load such as cpu=250m,memory=64Mi")]
pub struct LoadError(String);

impl FromStr for Load {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let wrong = || LoadError(text.to_owned());
        let mut load = Self::default();
        for part in text.split(',') {
            let (name, amount) = part.split_once('=').ok_or_else(wrong)?;
            let amount: Quantity = amount.trim().parse().map_err(|_| wrong())?;
            let field = match name.trim() {
                "cpu" => &mut load.cpu,
                "memory" => &mut load.memory,
                _ => return Err(wrong()),
            };
            *field = Some(amount).filter(|amount| !amount.is_negative());
            if field.is_none() {
                return Err(wrong());
            }
        }
        Ok(load)
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let amount = |name: &str, amount: Option<Quantity>| amount.map(|amount| format!("{name}={amount}"));
        let parts: Vec<String> = amount("cpu", self.cpu).into_iter().chain(amount("memory", self.memory)).collect();
        f.write_str(&parts.join(","))
    }
}

impl Load {
    /// An invalid annotation counts as absent.
    fn of(annotations: &BTreeMap<String, String>, key: &str) -> Option<Self> {
        annotations.get(key)?.parse().ok()
    }

    fn or(self, other: Self) -> Self {
        Self { cpu: self.cpu.or(other.cpu), memory: self.memory.or(other.memory) }
    }

    /// An equal part; a rest is cut.
    fn divided(self, parts: usize) -> Self {
        let parts = i64::try_from(parts).unwrap_or(i64::MAX).max(1);
        let cpu = self.cpu.map(|cpu| Quantity::from_milli(cpu.milli_value() / parts, Format::DecimalSi));
        let memory = self.memory.map(|memory| Quantity::new(memory.value() / parts, Format::BinarySi));
        Self { cpu, memory }
    }

    fn to_value(self) -> Value {
        json!({"cpu": self.cpu.unwrap_or_default(), "memory": self.memory.unwrap_or_default()})
    }
}

/// Whether the pod has usage.
pub(crate) fn is_measured(pod: &Pod) -> bool {
    pod.status.phase == "Running" && !pod.metadata.is_deleting()
}

/// The usage of each pod. `owner` reads the metadata of a controller in a namespace.
pub(crate) fn usages(pods: &[Pod], default: Load, owner: impl Fn(&str, &OwnerReference) -> Option<Meta>) -> Vec<Load> {
    let mut owners: BTreeMap<&str, Vec<Meta>> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods {
        let Some(controller) = pod.metadata.controller() else { continue };
        let chain = owners.entry(&controller.uid).or_insert_with(|| chain(&pod.metadata.namespace, controller, &owner));
        if let Some(top) = chain.last() {
            *counts.entry(top.uid.clone()).or_default() += 1;
        }
    }
    let usage = |pod: &Pod| {
        let chain = pod.metadata.controller().and_then(|controller| owners.get(controller.uid.as_str()));
        let chain = chain.map(Vec::as_slice).unwrap_or_default();
        let own = std::iter::once(&pod.metadata).chain(chain.iter().rev());
        let own = own.filter_map(|meta| Load::of(&meta.annotations, USAGE));
        let total = chain.last().and_then(|top| {
            let load = Load::of(&top.annotations, LOAD)?;
            Some(load.divided(counts.get(&top.uid).copied().unwrap_or(1)))
        });
        own.chain(total).chain([default]).fold(Load::default(), Load::or)
    };
    pods.iter().map(usage).collect()
}

/// The controller and its controllers, the highest last. A ReplicaSet of a Deployment has copies of its annotations,
/// which may be older.
pub(crate) fn chain(
    namespace: &str,
    controller: &OwnerReference,
    owner: impl Fn(&str, &OwnerReference) -> Option<Meta>,
) -> Vec<Meta> {
    let Some(first) = owner(namespace, controller) else { return Vec::new() };
    match first.controller().and_then(|second| owner(namespace, second)) {
        Some(second) => vec![second],
        None => vec![first],
    }
}

/// A `PodMetrics`: the usage is shared by the containers.
pub(crate) fn pod_metrics(pod: &Pod, load: Load, now: Time) -> Value {
    let share = load.divided(pod.spec.containers.len());
    let containers: Vec<Value> =
        pod.spec.containers.iter().map(|it| json!({"name": it.name, "usage": share.to_value()})).collect();
    json!({"kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "creationTimestamp": now,
            "labels": pod.metadata.labels},
        "timestamp": now, "window": WINDOW, "containers": containers})
}

/// A `NodeMetrics`: the sum of the usages of its pods.
pub(crate) fn node_metrics(node: &Meta, pods: &[(&Pod, Load)], now: Time) -> Value {
    let here = || pods.iter().filter(|(pod, _)| pod.spec.node_name == node.name).map(|(_, load)| load);
    let sum = |values: &mut dyn Iterator<Item = i64>| values.fold(0i64, i64::saturating_add);
    let cpu = sum(&mut here().filter_map(|load| load.cpu).map(Quantity::milli_value));
    let memory = sum(&mut here().filter_map(|load| load.memory).map(Quantity::value));
    let cpu = Some(Quantity::from_milli(cpu, Format::DecimalSi));
    let usage = Load { cpu, memory: Some(Quantity::new(memory, Format::BinarySi)) };
    json!({"kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": node.name, "creationTimestamp": now, "labels": node.labels},
        "timestamp": now, "window": WINDOW, "usage": usage.to_value()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads() {
        assert_eq!("cpu=1".parse::<Load>().map(|it| it.to_string()), Ok("cpu=1".to_owned()));
        for wrong in ["", "cpu", "cpu=x", "gpu=1", "cpu=-1"] {
            assert!(wrong.parse::<Load>().is_err(), "{wrong}");
        }
    }

    fn pod(name: &str, annotations: Value, owner: &str) -> Pod {
        let owners = match owner {
            "" => json!([]),
            owner => {
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}])
            }
        };
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "d", "annotations": annotations, "ownerReferences": owners},
            "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]}, "status": {"phase": "Running"}}),
        )
        .expect("a pod")
    }

    #[test]
    fn usages_of_pods() {
        let pods = [
            pod("a", json!({}), "web-1"),
            pod("b", json!({USAGE: "cpu=7m"}), "web-2"),
            pod("c", json!({USAGE: "cpu=bad"}), ""),
            pod("d", json!({}), "gone"),
        ];
        let owner = |_: &str, reference: &OwnerReference| {
            let deployment = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}]);
            let meta = match reference.name.as_str() {
                "web" => json!({"name": "web", "uid": "web", "annotations": {LOAD: "cpu=100m,memory=4Mi"}}),
                "gone" => return None,
                set => json!({"name": set, "uid": set, "ownerReferences": deployment, "annotations": {LOAD: "cpu=1"}}),
            };
            serde_json::from_value(meta).ok()
        };
        let default = "cpu=1m,memory=1Mi".parse().expect("a load");
        let loads = usages(&pods, default, owner);
        let shown: Vec<String> = loads.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["cpu=50m,memory=2Mi", "cpu=7m,memory=2Mi", "cpu=1m,memory=1Mi", "cpu=1m,memory=1Mi"]);
        let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
        let metrics = pod_metrics(&pods[0], loads[0], now);
        assert_eq!(metrics["containers"][1], json!({"name": "b", "usage": {"cpu": "25m", "memory": "1Mi"}}));
        let node: Meta = serde_json::from_value(json!({"name": "n"})).expect("a node");
        let placed: Vec<(&Pod, Load)> = pods.iter().zip(loads).collect();
        assert_eq!(node_metrics(&node, &placed, now)["usage"], json!({"cpu": "59m", "memory": "6Mi"}));
    }
}
