//! CPU and memory: the requests of pods and the capacity of nodes.

use std::collections::BTreeMap;

use apimachinery::meta::null_as_default;
use apimachinery::quantity::Quantity;
use serde::Deserialize;

use super::pod::{Container, PodSpec};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Requirements {
    #[serde(deserialize_with = "null_as_default")]
    pub requests: BTreeMap<String, Amount>,
    #[serde(deserialize_with = "null_as_default")]
    pub limits: BTreeMap<String, Amount>,
}

/// A quantity, which the API accepts as a string or a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(crate) struct Amount(pub Quantity);

impl From<serde_json::Value> for Amount {
    /// An invalid quantity counts as zero.
    fn from(value: serde_json::Value) -> Self {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self(text.parse().unwrap_or_default())
    }
}

/// The sum on a node, in millicores and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub cpu_milli: i64,
    pub memory: i64,
}

impl Request {
    pub fn of(amounts: &BTreeMap<String, Amount>) -> Self {
        let amount = |name: &str| amounts.get(name).map_or(Quantity::default(), |amount| amount.0);
        Self { cpu_milli: amount("cpu").milli_value(), memory: amount("memory").value() }
    }

    /// The request of a pod: the sum of its containers or its largest init container, plus the overhead. A limit
    /// without a request counts as the request.
    pub fn of_pod(spec: &PodSpec) -> Self {
        let of = |container: &Container| {
            let Requirements { requests, limits } = &container.resources;
            let amount = |name: &str| requests.get(name).or_else(|| limits.get(name)).map(|amount| amount.0);
            Self {
                cpu_milli: amount("cpu").map_or(0, Quantity::milli_value),
                memory: amount("memory").map_or(0, Quantity::value),
            }
        };
        let containers = spec.containers.iter().map(of).fold(Self::default(), Self::plus);
        let most = spec.init_containers.iter().map(of).fold(containers, |most, one| Self {
            cpu_milli: most.cpu_milli.max(one.cpu_milli),
            memory: most.memory.max(one.memory),
        });
        most.plus(Self::of(&spec.overhead))
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(other.cpu_milli),
            memory: self.memory.saturating_sub(other.memory),
        }
    }
}

/// The QoS class of a pod.
pub(crate) fn qos_class(spec: &PodSpec) -> &'static str {
    let containers = || spec.containers.iter().chain(&spec.init_containers);
    let states_nothing = |container: &Container| {
        let Requirements { requests, limits } = &container.resources;
        ["cpu", "memory"].iter().all(|name| !requests.contains_key(*name) && !limits.contains_key(*name))
    };
    let is_guaranteed = |container: &Container| {
        let Requirements { requests, limits } = &container.resources;
        ["cpu", "memory"].iter().all(|name| match (requests.get(*name), limits.get(*name)) {
            (Some(request), Some(limit)) => request == limit,
            (None, Some(_)) => true,
            _ => false,
        })
    };
    if containers().all(states_nothing) {
        "BestEffort"
    } else if containers().all(is_guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, cpu_milli: i64, memory: i64, class: &str) {
        let spec: PodSpec = serde_json::from_value(spec).expect("a pod's spec");
        assert_eq!(Request::of_pod(&spec), Request { cpu_milli, memory });
        assert_eq!(qos_class(&spec), class);
    }

    #[test]
    fn pods_request_the_sum_of_their_containers() {
        check(
            json!({"containers": [{"name": "a", "resources": {}}, {"name": "b", "resources": null}]}),
            0,
            0,
            "BestEffort",
        );
        check(
            json!({"containers": [{"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}},
                {"resources": {"limits": {"cpu": 1}}}]}),
            1250,
            64 << 20,
            "Burstable",
        );
        check(
            json!({"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
                "initContainers": [{"resources": {"limits": {"cpu": "3", "memory": "1Mi"}}}],
                "overhead": {"cpu": "100m"}}),
            3100,
            1 << 30,
            "Guaranteed",
        );
    }
}
