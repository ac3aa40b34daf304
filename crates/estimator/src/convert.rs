//! Converts between the messages and the API's types.

use std::collections::BTreeMap;

use karmada_api::kubernetes::{self, ResourceList};
use karmada_api::work::v1alpha2 as api;
use prost::Message;
use scheduling::accurate;

use crate::wire;

fn amounts(request: &ResourceList) -> BTreeMap<String, Vec<u8>> {
    let bytes = |(name, amount): (&String, &kubernetes::Quantity)| {
        // Upstream sends the canonical form; an invalid quantity is sent unchanged, and rejected by the receiver.
        let text = amount.as_str().parse::<apimachinery::quantity::Quantity>();
        let text = text.map_or_else(|_| amount.as_str().to_owned(), |amount| amount.to_string());
        (name.clone(), wire::Quantity { text }.encode_to_vec())
    };
    request.iter().map(bytes).collect()
}

fn listed(bytes: &BTreeMap<String, Vec<u8>>, legacy: &BTreeMap<String, wire::Quantity>) -> ResourceList {
    if bytes.is_empty() {
        let amount =
            |(name, amount): (&String, &wire::Quantity)| (name.clone(), kubernetes::Quantity(amount.text.clone()));
        return legacy.iter().map(amount).collect();
    }
    let amount = |(name, bytes): (&String, &Vec<u8>)| {
        let amount = wire::Quantity::decode(bytes.as_slice()).ok()?;
        Some((name.clone(), kubernetes::Quantity(amount.text)))
    };
    bytes.iter().filter_map(amount).collect()
}

fn requirement(it: &kubernetes::NodeSelectorRequirement) -> wire::NodeSelectorRequirement {
    let (key, operator, values) = (it.key.clone(), it.operator.clone(), it.values.clone());
    wire::NodeSelectorRequirement { key, operator, values }
}

fn read_requirement(it: wire::NodeSelectorRequirement) -> kubernetes::NodeSelectorRequirement {
    kubernetes::NodeSelectorRequirement { key: it.key, operator: it.operator, values: it.values }
}

fn claim(claim: &api::NodeClaim) -> wire::NodeClaim {
    let term = |term: &kubernetes::NodeSelectorTerm| wire::NodeSelectorTerm {
        match_expressions: term.match_expressions.iter().map(requirement).collect(),
        match_fields: term.match_fields.iter().map(requirement).collect(),
    };
    let affinity = claim.hard_node_affinity.as_ref().map(|affinity| {
        let terms = affinity.node_selector_terms.iter().map(term).collect();
        wire::NodeSelector { terms }.encode_to_vec()
    });
    let toleration = |it: &kubernetes::Toleration| {
        let toleration = wire::Toleration {
            key: it.key.clone(),
            operator: it.operator.clone(),
            value: it.value.clone(),
            effect: it.effect.clone(),
            toleration_seconds: it.toleration_seconds,
        };
        toleration.encode_to_vec()
    };
    wire::NodeClaim {
        node_selector: claim.node_selector.clone(),
        node_affinity: affinity.unwrap_or_default(),
        tolerations: claim.tolerations.iter().map(toleration).collect(),
        ..wire::NodeClaim::default()
    }
}

fn read_claim(claim: wire::NodeClaim) -> api::NodeClaim {
    let affinity = match claim.node_affinity.as_slice() {
        [] => claim.legacy_affinity,
        // An invalid affinity matches no node: an estimate may be too low, never too high.
        bytes => Some(wire::NodeSelector::decode(bytes).unwrap_or_default()),
    };
    let term = |term: wire::NodeSelectorTerm| kubernetes::NodeSelectorTerm {
        match_expressions: term.match_expressions.into_iter().map(read_requirement).collect(),
        match_fields: term.match_fields.into_iter().map(read_requirement).collect(),
    };
    let tolerations = match claim.tolerations.as_slice() {
        [] => claim.legacy_tolerations,
        bytes => bytes.iter().filter_map(|bytes| wire::Toleration::decode(bytes.as_slice()).ok()).collect(),
    };
    let toleration = |it: wire::Toleration| kubernetes::Toleration {
        key: it.key,
        operator: it.operator,
        value: it.value,
        effect: it.effect,
        toleration_seconds: it.toleration_seconds,
    };
    api::NodeClaim {
        hard_node_affinity: affinity.map(|affinity| kubernetes::NodeSelector {
            node_selector_terms: affinity.terms.into_iter().map(term).collect(),
        }),
        node_selector: claim.node_selector,
        tolerations: tolerations.into_iter().map(toleration).collect(),
    }
}

pub fn requirements(it: &api::ReplicaRequirements) -> wire::ReplicaRequirements {
    wire::ReplicaRequirements {
        node_claim: it.node_claim.as_ref().map(claim),
        namespace: it.namespace.clone(),
        priority_class_name: it.priority_class_name.clone(),
        resource_request: amounts(&it.resource_request),
        ..wire::ReplicaRequirements::default()
    }
}

pub fn read_requirements(it: wire::ReplicaRequirements) -> api::ReplicaRequirements {
    api::ReplicaRequirements {
        resource_request: listed(&it.resource_request, &it.legacy_request),
        node_claim: it.node_claim.map(read_claim),
        namespace: it.namespace,
        priority_class_name: it.priority_class_name,
    }
}

pub fn component(it: &api::Component) -> wire::Component {
    let requirements = |it: &api::ComponentReplicaRequirements| wire::ComponentReplicaRequirements {
        node_claim: it.node_claim.as_ref().map(claim),
        priority_class_name: it.priority_class_name.clone(),
        resource_request: amounts(&it.resource_request),
        ..wire::ComponentReplicaRequirements::default()
    };
    wire::Component {
        name: it.name.clone(),
        replica_requirements: it.replica_requirements.as_ref().map(requirements),
        replicas: it.replicas,
    }
}

pub fn read_component(it: wire::Component) -> api::Component {
    let requirements = |it: wire::ComponentReplicaRequirements| api::ComponentReplicaRequirements {
        resource_request: listed(&it.resource_request, &it.legacy_request),
        node_claim: it.node_claim.map(read_claim),
        priority_class_name: it.priority_class_name,
    };
    api::Component {
        name: it.name,
        replica_requirements: it.replica_requirements.map(requirements),
        replicas: it.replicas,
    }
}

pub fn assumed(it: &accurate::AssumedWorkload) -> wire::AssumedWorkload {
    let components = it.components.iter().map(component).collect();
    wire::AssumedWorkload { namespace: it.namespace.clone(), components }
}

pub fn read_assumed(it: wire::AssumedWorkload) -> accurate::AssumedWorkload {
    let components = it.components.into_iter().map(read_component).collect();
    accurate::AssumedWorkload { namespace: it.namespace, components }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration() -> wire::Toleration {
        wire::Toleration { key: "k".to_owned(), operator: "Exists".to_owned(), ..wire::Toleration::default() }
    }

    fn affinity() -> wire::NodeSelector {
        let exists = wire::NodeSelectorRequirement {
            key: "disk".to_owned(),
            operator: "Exists".to_owned(),
            ..wire::NodeSelectorRequirement::default()
        };
        let term = wire::NodeSelectorTerm { match_expressions: vec![exists], ..wire::NodeSelectorTerm::default() };
        wire::NodeSelector { terms: vec![term] }
    }

    /// Up to 1.17 the values, then both, from 1.19 on the bytes only: all have the same meaning.
    #[test]
    fn every_release_is_decoded() {
        let quantity = wire::Quantity { text: "500m".to_owned() };
        let old = wire::ReplicaRequirements {
            node_claim: Some(wire::NodeClaim {
                legacy_affinity: Some(affinity()),
                legacy_tolerations: vec![toleration()],
                ..wire::NodeClaim::default()
            }),
            legacy_request: BTreeMap::from([("cpu".to_owned(), quantity.clone())]),
            ..wire::ReplicaRequirements::default()
        };
        let new = wire::ReplicaRequirements {
            node_claim: Some(wire::NodeClaim {
                node_affinity: affinity().encode_to_vec(),
                tolerations: vec![toleration().encode_to_vec()],
                ..wire::NodeClaim::default()
            }),
            resource_request: BTreeMap::from([("cpu".to_owned(), quantity.encode_to_vec())]),
            ..wire::ReplicaRequirements::default()
        };
        let mut both = new.clone();
        both.legacy_request.clone_from(&old.legacy_request);
        let meant = read_requirements(new);
        assert_eq!(meant.resource_request["cpu"].as_str(), "500m");
        assert_eq!(meant.node_claim.as_ref().map(|claim| claim.tolerations.len()), Some(1));
        assert_eq!(read_requirements(old), meant);
        assert_eq!(read_requirements(both), meant);
    }

    /// Unknown fields of later releases are skipped: a varint, eight bytes, bytes and four bytes, among known fields.
    #[test]
    fn unknown_fields_are_skipped() {
        let known = wire::MaxAvailableReplicasRequest { cluster: "m1".to_owned(), ..Default::default() };
        let mut bytes = known.encode_to_vec();
        bytes.extend([
            0xd0, 0x02, 0x07, 0xd9, 0x02, 1, 2, 3, 4, 5, 6, 7, 8, 0xe2, 0x02, 2, b'h', b'i', 0xed, 0x02, 1, 2, 3, 4,
        ]);
        assert_eq!(wire::MaxAvailableReplicasRequest::decode(bytes.as_slice()).ok(), Some(known));
    }

    /// An invalid quantity or message costs only its own entry.
    #[test]
    fn invalid_entries_are_dropped() {
        let broken = wire::ReplicaRequirements {
            node_claim: Some(wire::NodeClaim {
                node_affinity: vec![0xff],
                tolerations: vec![vec![0xff], toleration().encode_to_vec()],
                ..wire::NodeClaim::default()
            }),
            resource_request: BTreeMap::from([
                ("cpu".to_owned(), vec![0xff]),
                ("memory".to_owned(), wire::Quantity { text: "1Gi".to_owned() }.encode_to_vec()),
            ]),
            ..wire::ReplicaRequirements::default()
        };
        let read = read_requirements(broken);
        assert_eq!(read.resource_request.keys().collect::<Vec<_>>(), ["memory"]);
        let claim = read.node_claim.unwrap_or_default();
        assert_eq!(claim.tolerations.len(), 1);
        assert_eq!(claim.hard_node_affinity.map(|affinity| affinity.node_selector_terms.len()), Some(0));
    }
}
