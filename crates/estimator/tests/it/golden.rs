//! Messages as upstream's encoder writes them.

use std::collections::BTreeMap;

use estimator::wire::{
    AssumedWorkload, Component, ComponentReplicaRequirements, MaxAvailableComponentSetsRequest,
    MaxAvailableComponentSetsResponse, MaxAvailableReplicasRequest, MaxAvailableReplicasResponse, NodeClaim,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference, Quantity, ReplicaRequirements,
    Toleration, UnschedulableReplicasRequest, UnschedulableReplicasResponse,
};
use prost::Message;

fn check<M: Message + Default + PartialEq + std::fmt::Debug>(message: &M, expected: &str) {
    assert_eq!(hex::encode(message.encode_to_vec()), expected);
    assert_eq!(&M::decode(hex::decode(expected).unwrap().as_slice()).unwrap(), message);
}

fn quantity(text: &str) -> Quantity {
    Quantity { text: text.to_owned() }
}

fn toleration() -> Toleration {
    Toleration {
        key: "k".to_owned(),
        operator: "Equal".to_owned(),
        value: "v".to_owned(),
        effect: "NoSchedule".to_owned(),
        toleration_seconds: None,
    }
}

fn affinity() -> NodeSelector {
    let requirement =
        NodeSelectorRequirement { key: "a".to_owned(), operator: "Gt".to_owned(), values: vec!["0".to_owned()] };
    NodeSelector { terms: vec![NodeSelectorTerm { match_expressions: vec![requirement], match_fields: vec![] }] }
}

#[test]
fn parts_encode_as_upstreams() {
    check(&quantity("500m"), "0a043530306d");
    check(&quantity("1Gi"), "0a03314769");
    check(&toleration(), "0a016b1205457175616c1a0176220a4e6f5363686564756c65");
    check(&affinity(), "0a0c0a0a0a0161120247741a0130");
}

#[test]
fn replicas() {
    let request = MaxAvailableReplicasRequest {
        cluster: "member1".to_owned(),
        replica_requirements: Some(ReplicaRequirements {
            node_claim: Some(NodeClaim {
                node_selector: BTreeMap::from([("z".to_owned(), "1".to_owned())]),
                node_affinity: affinity().encode_to_vec(),
                tolerations: vec![toleration().encode_to_vec()],
                ..NodeClaim::default()
            }),
            namespace: "ns".to_owned(),
            priority_class_name: "pc".to_owned(),
            resource_request: BTreeMap::from([
                ("cpu".to_owned(), quantity("500m").encode_to_vec()),
                ("memory".to_owned(), quantity("1Gi").encode_to_vec()),
            ]),
            ..ReplicaRequirements::default()
        }),
        assumed_workloads: vec![],
    };
    check(
        &request,
        "0a076d656d62657231125d0a3312060a017a120131220e0a0c0a0a0a0161120247741a01302a190a016b1205457175616c1a0176220a4e6f\
         5363686564756c651a026e73220270632a0d0a0363707512060a043530306d2a0f0a066d656d6f727912050a03314769",
    );
    check(&MaxAvailableReplicasResponse { max_replicas: 7 }, "0807");
    check(&MaxAvailableReplicasResponse { max_replicas: 0 }, "");
    check(&MaxAvailableReplicasResponse { max_replicas: -1 }, "08ffffffffffffffffff01");
}

#[test]
fn component_sets() {
    let component = Component {
        name: "jm".to_owned(),
        replica_requirements: Some(ComponentReplicaRequirements {
            priority_class_name: "pc".to_owned(),
            resource_request: BTreeMap::from([("cpu".to_owned(), quantity("1").encode_to_vec())]),
            ..ComponentReplicaRequirements::default()
        }),
        replicas: 2,
    };
    let request = MaxAvailableComponentSetsRequest {
        cluster: "member1".to_owned(),
        components: vec![component.clone()],
        namespace: "ns".to_owned(),
        assumed_workloads: vec![AssumedWorkload { namespace: "ns".to_owned(), components: vec![component] }],
    };
    check(
        &request,
        "0a076d656d6265723112180a026a6d12101a027063220a0a0363707512030a013118021a026e73221e0a026e7312180a026a6d12101a0270\
         63220a0a0363707512030a01311802",
    );
    check(&MaxAvailableComponentSetsResponse { max_sets: 3 }, "0803");
}

#[test]
fn unschedulable_replicas() {
    let request = UnschedulableReplicasRequest {
        cluster: "member1".to_owned(),
        resource: Some(ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "default".to_owned(),
            name: "nginx".to_owned(),
        }),
        unschedulable_threshold: 300_000_000_000,
    };
    check(
        &request,
        "0a076d656d6265723112250a07617070732f7631120a4465706c6f796d656e741a0764656661756c7422056e67696e781880f092cbdd08",
    );
    check(&UnschedulableReplicasResponse { unschedulable_replicas: 2 }, "0802");
}
