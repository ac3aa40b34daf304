//! EndpointSlices of the control plane, one for each slice that was collected for a ServiceExport. The dependencies of
//! the ServiceImport carry them to its clusters.

use karmada_api::constants::{annotations, labels};
use karmada_api::names;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::collected::{Collectors, service_of};
use crate::work::{self, object_name};

/// The slice for a collected Work; `None` for a Work that no ServiceExport requires, or that is being deleted.
/// `is_taken` returns whether the slice of another Work has the name.
pub fn desired(work: &Work, is_taken: impl Fn(&str) -> bool) -> Option<Value> {
    if work.metadata.deletion_timestamp.is_some() || !Collectors::of(work).export {
        return None;
    }
    let service = service_of(|label| work.metadata.labels.get(label).cloned())?;
    let cluster = names::cluster_of_namespace(&work.metadata.namespace)?;
    let id = work.metadata.labels.get(labels::WORK_ID)?;
    let mut slice = work::manifest(work).ok()?;
    let source = object_name(&slice).to_owned();
    let plain = names::imported_slice(cluster, &source);
    let name = if is_taken(&plain) { work::apart(&plain, cluster, &source) } else { plain };
    slice["metadata"] = json!({
        "name": name,
        "namespace": service.namespace(),
        "labels": {
            labels::KUBERNETES_SERVICE_NAME: names::derived_service(service.name()),
            labels::KUBERNETES_SLICE_MANAGED_BY: labels::SLICE_MANAGED_BY_IMPORT,
            labels::WORK_ID: id,
        },
        "annotations": {
            annotations::WORK_NAMESPACE: work.metadata.namespace,
            annotations::WORK_NAME: work.metadata.name,
        },
    });
    Some(slice)
}

/// Brings an existing object up to the wanted one.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is as wanted.
    Nothing,
    /// The object, to be written with the revision that it was read at.
    Update(Value),
    /// A field that differs cannot be changed: the object is deleted, and created again by the next pass.
    Recreate,
}

/// Compares an imported slice. Labels and annotations of others stay.
pub fn step(existing: &Value, desired: &Value) -> Step {
    if existing["addressType"] != desired["addressType"] {
        return Step::Recreate;
    }
    let mut merged = existing.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in desired["metadata"][field].as_object().into_iter().flatten() {
            merged["metadata"][field][key] = value.clone();
        }
    }
    for field in ["endpoints", "ports"] {
        merged[field] = desired.get(field).cloned().unwrap_or(Value::Null);
    }
    if is_same(&merged, existing) { Step::Nothing } else { Step::Update(merged) }
}

/// A missing field and null are the same.
fn is_same(one: &Value, other: &Value) -> bool {
    let fields = ["endpoints", "ports"];
    one["metadata"] == other["metadata"] && fields.iter().all(|field| one[*field] == other[*field])
}

#[cfg(test)]
mod tests {
    use karmada_api::constants::finalizers;

    use super::*;

    fn work(managed_by: &str, deleting: bool) -> Work {
        let mut value = json!({"metadata": {"name": "serve-1", "namespace": "karmada-es-m1", "labels": {
            "endpointslice.karmada.io/namespace": "shop", "endpointslice.karmada.io/name": "serve",
            "endpointslice.karmada.io/managed-by": managed_by, "work.karmada.io/permanent-id": "id"},
            "finalizers": [finalizers::ENDPOINT_SLICE]},
            "spec": {"workload": {"manifests": [{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "addressType": "IPv4", "metadata": {"name": "serve-abc", "namespace": "shop", "generateName": "serve-",
                    "labels": {"kubernetes.io/service-name": "serve", "x": "y"}},
                "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}]}}});
        if deleting {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(value).expect("a Work")
    }

    #[test]
    fn the_slice_of_a_collected_work() {
        let slice = desired(&work("ServiceExport", false), |_| false).expect("a slice");
        assert_eq!(
            slice,
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "imported-m1-serve-abc", "namespace": "shop",
                    "labels": {"kubernetes.io/service-name": "derived-serve", "work.karmada.io/permanent-id": "id",
                        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.karmada.io"},
                    "annotations": {"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "serve-1"}},
                "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]})
        );
        for (managed_by, deleting, expected) in [
            ("MultiClusterService.ServiceExport", false, true),
            ("MultiClusterService", false, false),
            ("ServiceExport", true, false),
        ] {
            assert_eq!(desired(&work(managed_by, deleting), |_| false).is_some(), expected, "{managed_by} {deleting}");
        }
        let apart = desired(&work("ServiceExport", false), |name| name == "imported-m1-serve-abc").expect("a slice");
        assert_ne!(apart["metadata"]["name"], "imported-m1-serve-abc");
    }

    #[test]
    fn differences() {
        let desired = desired(&work("ServiceExport", false), |_| false).expect("a slice");
        let mut stored = desired.clone();
        stored["metadata"]["resourceVersion"] = json!("7");
        stored["metadata"]["labels"]["theirs"] = json!("kept");
        assert_eq!(step(&stored, &desired), Step::Nothing);
        let mut edited = stored.clone();
        edited["endpoints"] = json!([]);
        assert_eq!(step(&edited, &desired), Step::Update(stored.clone()));
        let mut unlabelled = stored.clone();
        unlabelled["metadata"]["labels"]["kubernetes.io/service-name"] = json!("other");
        assert_eq!(step(&unlabelled, &desired), Step::Update(stored.clone()));
        stored["addressType"] = json!("IPv6");
        assert_eq!(step(&stored, &desired), Step::Recreate);
    }
}
