//! Conversion between the two versions of the bindings: common fields survive in both directions.

use apiextensions::Converter;
use karmada_api::kubernetes::Quantity;
use karmada_api::work::{BindingConverter, to_v1alpha1, to_v1alpha2, v1alpha1, v1alpha2};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn cluster() -> impl Strategy<Value = v1alpha1::TargetCluster> {
    ("[a-z]{1,8}", 0..1000_i32).prop_map(|(name, replicas)| v1alpha1::TargetCluster { name, replicas })
}

fn reference() -> impl Strategy<Value = v1alpha1::ObjectReference> {
    let request = btree_map("cpu|memory|pods", "[0-9]{1,4}m?", 0..3);
    ("[a-z/0-9]{1,9}", "[A-Z][a-z]{1,8}", "[a-z]{0,8}", "[a-z.]{1,9}", 0..1000_i32, request, "[0-9]{0,4}").prop_map(
        |(api_version, kind, namespace, name, replicas, request, resource_version)| v1alpha1::ObjectReference {
            api_version,
            kind,
            namespace,
            name,
            replicas,
            resource_per_replicas: request.into_iter().map(|(name, it)| (name, Quantity(it))).collect(),
            resource_version,
        },
    )
}

fn item() -> impl Strategy<Value = v1alpha1::AggregatedStatusItem> {
    ("[a-z]{1,8}", any::<bool>(), "[ -~]{0,12}").prop_map(|(cluster_name, applied, applied_message)| {
        v1alpha1::AggregatedStatusItem { cluster_name, applied, applied_message, ..Default::default() }
    })
}

fn binding() -> impl Strategy<Value = v1alpha1::ResourceBinding> {
    (reference(), vec(cluster(), 0..4), vec(item(), 0..4)).prop_map(|(resource, clusters, aggregated_status)| {
        v1alpha1::ResourceBinding {
            api_version: "work.karmada.io/v1alpha1".to_owned(),
            kind: "ResourceBinding".to_owned(),
            spec: v1alpha1::ResourceBindingSpec { resource, clusters },
            status: v1alpha1::ResourceBindingStatus { aggregated_status, ..Default::default() },
            ..Default::default()
        }
    })
}

proptest! {
    #[test]
    fn up_and_down_again_is_the_same(old in binding()) {
        prop_assert_eq!(to_v1alpha1(to_v1alpha2(old.clone())), old);
    }

    #[test]
    fn trees_round_trip(old in binding(), label in "[a-z]{1,8}") {
        let mut tree = serde_json::to_value(&old).unwrap();
        tree["metadata"] = serde_json::json!({"name": "a", "labels": {"l": label}, "unknown": 1});
        let before = tree.clone();
        BindingConverter.convert(&mut tree, "v1alpha2").unwrap();
        prop_assert_eq!(&tree["apiVersion"], "work.karmada.io/v1alpha2");
        BindingConverter.convert(&mut tree, "v1alpha1").unwrap();
        prop_assert_eq!(tree, before);
    }

    /// Down-conversion drops the fields that v1alpha1 lacks and nothing else; repeating it changes nothing.
    #[test]
    fn down_and_up_keeps_common_fields(old in binding(), uid in "[a-f0-9]{1,8}", scheduler in "[a-z]{1,8}") {
        let mut new: v1alpha2::ResourceBinding = to_v1alpha2(old);
        let kept = new.clone();
        new.spec.resource.uid = uid;
        new.spec.scheduler_name = scheduler;
        new.status.scheduler_observed_generation = 3;
        let again = to_v1alpha2(to_v1alpha1(new));
        prop_assert_eq!(&again, &kept);
        prop_assert_eq!(to_v1alpha2(to_v1alpha1(again)), kept);
    }
}
