//! The estimator's state of a member, updated object by object.

use std::collections::{BTreeMap, HashMap};

use apimachinery::ObjectKey;
use interpreter::pod_request;
use serde_json::Value;

use super::node::{Amounts, Node};
use super::quota::Quota;
use crate::capacity::count;

/// The nodes, quotas and pod requests of a member. Only the requests of a pod are kept.
#[derive(Clone, Debug, Default)]
pub struct State {
    nodes: BTreeMap<String, Node>,
    used: HashMap<String, Used>,
    pods: HashMap<ObjectKey, Pod>,
    quotas: BTreeMap<(String, String), Quota>,
}

/// The sum of the requests of the pods on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Used {
    pub amounts: Amounts,
    pub pods: i64,
}

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    node: String,
    request: Vec<(String, i64)>,
}

impl State {
    /// Adds or replaces a Node.
    pub fn put_node(&mut self, node: &Value) {
        let node = Node::of(node);
        self.nodes.insert(node.name.clone(), node);
    }

    /// Removes a Node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A finished or unassigned pod uses nothing. A pod with unreadable requests counts as one pod without requests.
    pub fn put_pod(&mut self, pod: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::namespaced(text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        self.remove_pod(&key);
        let node = text(&pod["spec"]["nodeName"]);
        if node.is_empty() || matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return;
        }
        let request = pod_request(&pod["spec"]).unwrap_or_default();
        let request: Vec<(String, i64)> = request
            .into_iter()
            .map(|(name, amount)| {
                let amount = count(&name, amount);
                (name, amount)
            })
            .collect();
        let used = self.used.entry(node.clone()).or_default();
        used.pods += 1;
        for (name, amount) in &request {
            let sum = used.amounts.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        self.pods.insert(key, Pod { node, request });
    }

    /// Removes a Pod.
    pub fn remove_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.remove(key) else { return };
        let Some(used) = self.used.get_mut(&pod.node) else { return };
        used.pods -= 1;
        for (name, amount) in &pod.request {
            if let Some(sum) = used.amounts.get_mut(name) {
                *sum = sum.saturating_sub(*amount);
            }
        }
        if used.pods == 0 {
            self.used.remove(&pod.node);
        }
    }

    /// Adds or replaces a ResourceQuota.
    pub fn put_quota(&mut self, quota: &Value) {
        let text = |field: &str| quota["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.quotas.insert((text("namespace"), text("name")), Quota::of(quota));
    }

    /// Removes a ResourceQuota.
    pub fn remove_quota(&mut self, namespace: &str, name: &str) {
        self.quotas.remove(&(namespace.to_owned(), name.to_owned()));
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub(super) fn used(&self, node: &str) -> Option<&Used> {
        self.used.get(node)
    }

    pub(super) fn quotas(&self, namespace: &str) -> impl Iterator<Item = &Quota> {
        let start = (namespace.to_owned(), String::new());
        self.quotas.range(start..).take_while(move |((of, _), _)| of == namespace).map(|(_, quota)| quota)
    }

    /// Nodes in turn over the zones, so that sets spread over zones.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = &Node> {
        let mut zones: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in self.nodes() {
            zones.entry(&node.zone).or_default().push(node);
        }
        let longest = zones.values().map(Vec::len).max().unwrap_or(0);
        let zones: Vec<Vec<&Node>> = zones.into_values().collect();
        let turn = |index: usize| zones.iter().filter_map(move |zone| zone.get(index).copied()).collect::<Vec<_>>();
        (0..longest).flat_map(turn).collect::<Vec<_>>().into_iter()
    }
}
