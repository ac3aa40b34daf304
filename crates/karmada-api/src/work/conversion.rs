//! Converts between the two versions of the bindings. v1alpha1 has fewer fields: down-conversion drops the others,
//! up-conversion leaves them empty.

use apiextensions::Converter;
use serde::Deserialize;
use serde_json::Value;

use super::{v1alpha1, v1alpha2};

/// Converts stored and received bindings of either scope.
#[derive(Clone, Copy, Debug, Default)]
pub struct BindingConverter;

impl Converter for BindingConverter {
    fn convert(&self, object: &mut Value, to_version: &str) -> Result<(), String> {
        let from = object["apiVersion"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
        if from == to_version {
            return Ok(());
        }
        // Metadata is copied whole; typed metadata would lose unknown fields.
        let metadata = object["metadata"].clone();
        let converted = match (from, to_version) {
            ("v1alpha2", "v1alpha1") => v1alpha2::ResourceBinding::deserialize(&*object)
                .and_then(|binding| serde_json::to_value(to_v1alpha1(binding))),
            ("v1alpha1", "v1alpha2") => v1alpha1::ResourceBinding::deserialize(&*object)
                .and_then(|binding| serde_json::to_value(to_v1alpha2(binding))),
            _ => return Err(format!("bindings cannot be converted from {from:?} to {to_version:?}")),
        };
        *object = converted.map_err(|error| error.to_string())?;
        object["metadata"] = metadata;
        Ok(())
    }
}

/// The v1alpha1 view of a stored binding.
pub fn to_v1alpha1(binding: v1alpha2::ResourceBinding) -> v1alpha1::ResourceBinding {
    let v1alpha2::ResourceBinding { kind, metadata, spec, status, .. } = binding;
    v1alpha1::ResourceBinding {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind,
        metadata,
        spec: v1alpha1::ResourceBindingSpec {
            clusters: spec
                .clusters
                .into_iter()
                .map(|cluster| v1alpha1::TargetCluster { name: cluster.name, replicas: cluster.replicas })
                .collect(),
            resource: v1alpha1::ObjectReference {
                api_version: spec.resource.api_version,
                kind: spec.resource.kind,
                name: spec.resource.name,
                namespace: spec.resource.namespace,
                replicas: spec.replicas,
                resource_per_replicas: spec.replica_requirements.map(|r| r.resource_request).unwrap_or_default(),
                resource_version: spec.resource.resource_version,
            },
        },
        status: v1alpha1::ResourceBindingStatus {
            aggregated_status: status
                .aggregated_status
                .into_iter()
                .map(|item| v1alpha1::AggregatedStatusItem {
                    applied: item.applied,
                    applied_message: item.applied_message,
                    cluster_name: item.cluster_name,
                    status: item.status,
                })
                .collect(),
            conditions: status.conditions,
        },
    }
}

/// The stored form of a v1alpha1 binding.
pub fn to_v1alpha2(binding: v1alpha1::ResourceBinding) -> v1alpha2::ResourceBinding {
    let v1alpha1::ResourceBinding { kind, metadata, spec, status, .. } = binding;
    let request = spec.resource.resource_per_replicas;
    v1alpha2::ResourceBinding {
        api_version: "work.karmada.io/v1alpha2".to_owned(),
        kind,
        metadata,
        spec: v1alpha2::ResourceBindingSpec {
            clusters: spec
                .clusters
                .into_iter()
                .map(|cluster| v1alpha2::TargetCluster {
                    name: cluster.name,
                    replicas: cluster.replicas,
                    ..Default::default()
                })
                .collect(),
            replicas: spec.resource.replicas,
            replica_requirements: (!request.is_empty())
                .then(|| v1alpha2::ReplicaRequirements { resource_request: request, ..Default::default() }),
            resource: v1alpha2::ObjectReference {
                api_version: spec.resource.api_version,
                kind: spec.resource.kind,
                name: spec.resource.name,
                namespace: spec.resource.namespace,
                resource_version: spec.resource.resource_version,
                ..Default::default()
            },
            ..Default::default()
        },
        status: v1alpha2::ResourceBindingStatus {
            aggregated_status: status
                .aggregated_status
                .into_iter()
                .map(|item| v1alpha2::AggregatedStatusItem {
                    applied: item.applied,
                    applied_message: item.applied_message,
                    cluster_name: item.cluster_name,
                    status: item.status,
                    ..Default::default()
                })
                .collect(),
            conditions: status.conditions,
            ..Default::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::Quantity;

    #[test]
    fn trees_are_converted_and_keep_their_metadata() {
        let mut object = serde_json::json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding",
            "metadata": {"name": "a", "selfLink": "x"}, "spec": {"replicas": 2, "resource": {"apiVersion": "v1", "kind": "K", "name": "a"}}});
        BindingConverter.convert(&mut object, "v1alpha1").unwrap();
        assert_eq!(object["apiVersion"], "work.karmada.io/v1alpha1");
        assert_eq!(object["spec"]["resource"]["replicas"], 2);
        assert_eq!(object["metadata"]["selfLink"], "x");
        assert!(BindingConverter.convert(&mut object, "v2").is_err());
    }

    #[test]
    fn common_fields_survive_a_round_trip() {
        let old: v1alpha1::ResourceBinding = serde_json::from_value(serde_json::json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "ResourceBinding", "metadata": {"name": "a"},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "namespace": "ns",
                    "replicas": 3, "resourcePerReplicas": {"cpu": "1"}, "resourceVersion": "7"},
                "clusters": [{"name": "m1", "replicas": 3}],
            },
            "status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true, "status": {"x": 1}}]},
        }))
        .unwrap();
        let new = to_v1alpha2(old.clone());
        assert_eq!(new.spec.replicas, 3);
        assert_eq!(new.spec.replica_requirements.as_ref().unwrap().resource_request["cpu"], Quantity::from("1"));
        assert_eq!(to_v1alpha1(new), old);
    }
}
