//! Nodes and their free resources.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use karmada_api::kubernetes::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};
use karmada_api::work::v1alpha2::{Component, NodeClaim};
use serde::Deserialize;
use serde_json::Value;

use super::state::State;
use crate::capacity::{count, is_of_nodes};

/// Amounts by resource name, in the units of estimates.
pub(super) type Amounts = BTreeMap<String, i64>;

/// The largest number of nodes visited while sets are placed, about 50 ms. Sets placed until then count.
const MAX_VISITS: usize = 200_000;

/// The scheduling properties of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub(super) name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    allocatable: Amounts,
    /// Region and zone; sets are placed on zones in turn.
    pub(super) zone: String,
}

/// The fields of a Node that are read; all others may be malformed.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSpec {
    unschedulable: bool,
    taints: Option<Vec<Taint>>,
}

impl Node {
    /// Reads a Node. An unreadable field counts as absent, so the node has less capacity, never more.
    pub fn of(node: &Value) -> Self {
        let labels = node["metadata"]["labels"].as_object();
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let labels: BTreeMap<String, String> = labels.into_iter().flatten().filter_map(text).collect();
        let spec = NodeSpec::deserialize(&node["spec"]).unwrap_or_default();
        let mut taints = spec.taints.unwrap_or_default();
        if spec.unschedulable {
            let (key, effect) = ("node.kubernetes.io/unschedulable".to_owned(), "NoSchedule".to_owned());
            taints.push(Taint { key, effect, ..Taint::default() });
        }
        let label = |name: &str| labels.get(name).map_or("", String::as_str);
        let zone = format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"));
        Self {
            name: node["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            taints,
            allocatable: amounts(&node["status"]["allocatable"]),
            zone,
            labels,
        }
    }

    fn takes(&self, claim: Option<&NodeClaim>) -> bool {
        let none = NodeClaim::default();
        let claim = claim.unwrap_or(&none);
        let selected = claim.node_selector.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        selected
            && claim.hard_node_affinity.as_ref().is_none_or(|affinity| self.matches(affinity))
            && self.tolerated(&claim.tolerations)
    }

    fn tolerated(&self, tolerations: &[Toleration]) -> bool {
        let repels = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
        self.taints.iter().filter(repels).all(|taint| tolerations.iter().any(|it| it.tolerates(taint)))
    }

    fn matches(&self, affinity: &NodeSelector) -> bool {
        let term = |term: &NodeSelectorTerm| {
            let some = !term.match_expressions.is_empty() || !term.match_fields.is_empty();
            let label = |it: &NodeSelectorRequirement| holds(it, self.labels.get(&it.key).map(String::as_str));
            let field = |it: &NodeSelectorRequirement| it.key == "metadata.name" && holds(it, Some(&self.name));
            some && term.match_expressions.iter().all(label) && term.match_fields.iter().all(field)
        };
        affinity.node_selector_terms.iter().any(term)
    }
}

/// An invalid requirement matches nothing.
fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = &requirement.values;
    let listed = || value.is_some_and(|value| values.iter().any(|other| other == value));
    let compared = || -> Option<std::cmp::Ordering> {
        let [bound] = values.as_slice() else { return None };
        Some(value?.parse::<i64>().ok()?.cmp(&bound.parse().ok()?))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !values.is_empty() && !listed(),
        "Exists" => values.is_empty() && value.is_some(),
        "DoesNotExist" => values.is_empty() && value.is_none(),
        "Gt" => compared() == Some(std::cmp::Ordering::Greater),
        "Lt" => compared() == Some(std::cmp::Ordering::Less),
        _ => false,
    }
}

pub(super) fn amounts(list: &Value) -> Amounts {
    let amount = |(name, amount): (&String, &Value)| {
        let amount: Quantity = match amount {
            Value::String(text) => text.parse().ok()?,
            Value::Number(number) => number.to_string().parse().ok()?,
            _ => return None,
        };
        // A quota's `requests.cpu` counts the same requests as `cpu`.
        Some((name.clone(), count(name.strip_prefix("requests.").unwrap_or(name), amount)))
    };
    list.as_object().into_iter().flatten().filter_map(amount).collect()
}

/// Returns what one replica requests of the resources that `is_needed` selects.
pub(super) fn needs(component: &Component, is_needed: impl Fn(&str) -> bool) -> Vec<(&str, i64)> {
    let request = component.replica_requirements.as_ref().map(|it| &it.resource_request);
    let amount = |(name, amount): (&'_ String, &karmada_api::kubernetes::Quantity)| {
        let amount: Quantity = amount.as_str().parse().ok()?;
        Some(count(name, amount)).filter(|amount| *amount > 0)
    };
    let listed = request.into_iter().flatten().filter(|(name, _)| is_needed(name));
    listed.filter_map(|(name, quantity)| Some((name.as_str(), amount((name, quantity))?))).collect()
}

/// The sort key of a component: cpu first, then memory.
pub(super) fn size(component: &Component) -> (i64, i64) {
    let needs = needs(component, is_of_nodes);
    let of = |resource: &str| needs.iter().find(|(name, _)| *name == resource).map_or(0, |(_, amount)| *amount);
    (of("cpu"), of("memory"))
}

/// The free resources of each node, in the order in which sets are placed.
#[derive(Clone)]
pub(super) struct FreeNodes<'a> {
    nodes: Vec<FreeNode<'a>>,
    visits: usize,
}

#[derive(Clone)]
struct FreeNode<'a> {
    node: &'a Node,
    left: Amounts,
    pods: i64,
}

impl FreeNode<'_> {
    fn fits(&self, needs: &[(&str, i64)]) -> i64 {
        let left = |name: &str| self.left.get(name).copied().unwrap_or(0);
        needs.iter().map(|(name, amount)| left(name) / amount).fold(self.pods, i64::min).max(0)
    }

    fn take(&mut self, needs: &[(&str, i64)], replicas: i64) {
        self.pods -= replicas;
        for (name, amount) in needs {
            if let Some(left) = self.left.get_mut(*name) {
                *left -= amount.saturating_mul(replicas);
            }
        }
    }
}

impl<'a> FreeNodes<'a> {
    pub fn of(state: &'a State) -> Self {
        let free_node = |node: &'a Node| {
            let used = state.used(&node.name);
            let left = node.allocatable.iter().map(|(name, amount)| {
                let used = used.and_then(|used| used.amounts.get(name)).copied().unwrap_or(0);
                (name.clone(), amount.saturating_sub(used).max(0))
            });
            let allowed = node.allocatable.get("pods").copied().unwrap_or(0);
            let pods = allowed.saturating_sub(used.map_or(0, |used| used.pods)).max(0);
            FreeNode { node, left: left.collect(), pods }
        };
        Self { nodes: state.in_turn().map(free_node).collect(), visits: 0 }
    }

    /// Returns how many replicas fit on all nodes together.
    pub fn fits(&self, component: &Component) -> i64 {
        let needs = needs(component, is_of_nodes);
        let taking = self.nodes.iter().filter(|free_node| free_node.node.takes(claim(component)));
        taking.fold(0, |sum, free_node| sum.saturating_add(free_node.fits(&needs)))
    }

    /// Places components on the first nodes that fit. Returns false when one does not fit; replicas placed before stay.
    pub fn place(&mut self, components: &[Component]) -> bool {
        components.iter().all(|component| self.place_one(component))
    }

    fn place_one(&mut self, component: &Component) -> bool {
        let mut remaining = i64::from(component.replicas);
        let needs = needs(component, is_of_nodes);
        for free_node in &mut self.nodes {
            if remaining <= 0 || self.visits >= MAX_VISITS {
                break;
            }
            self.visits += 1;
            if free_node.node.takes(claim(component)) {
                let placed = free_node.fits(&needs).min(remaining);
                free_node.take(&needs, placed);
                remaining -= placed;
            }
        }
        remaining <= 0
    }

    /// Returns how many sets can be placed one after the other.
    pub fn sets(mut self, components: &[&Component], most: i64) -> i64 {
        // Pods of one kind do not compete with each other: the number of sets follows from the number of pods.
        let mut some = components.iter().filter(|component| component.replicas > 0);
        if let (Some(only), None) = (some.next(), some.next()) {
            return (self.fits(only) / i64::from(only.replicas)).min(most);
        }
        let mut placed = 0;
        while placed < most && components.iter().all(|component| self.place_one(component)) {
            placed += 1;
        }
        placed
    }
}

fn claim(component: &Component) -> Option<&NodeClaim> {
    component.replica_requirements.as_ref()?.node_claim.as_ref()
}
