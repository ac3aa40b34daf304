//! Works that report the EndpointSlices of a member: one for each slice of a Service that is exported, or provided by a
//! MultiClusterService.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use karmada_api::ApiType;
use karmada_api::constants::{finalizers, labels};
use karmada_api::identity::ClusterName;
use karmada_api::names;
use karmada_api::work::v1alpha1::Work;
use serde_json::Value;

use crate::work::{self, object_name};

/// The value of `endpointslice.kubernetes.io/managed-by` on slices of Kubernetes' own controller.
const KUBERNETES: &str = "endpointslice-controller.k8s.io";

/// The mechanisms that have collected a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collectors {
    /// ServiceExport.
    pub export: bool,
    /// MultiClusterService.
    pub service: bool,
}

impl Collectors {
    /// Reads the label `endpointslice.karmada.io/managed-by`: names joined with `.`, in any order.
    pub fn parse(label: &str) -> Self {
        let has = |name: &str| label.split('.').any(|part| part == name);
        Self { export: has(labels::BY_SERVICE_EXPORT), service: has(labels::BY_MULTI_CLUSTER_SERVICE) }
    }

    /// The mechanisms that a Work records.
    pub fn of(work: &Work) -> Self {
        work.metadata.labels.get(labels::ENDPOINT_SLICE_MANAGED_BY).map(|it| Self::parse(it)).unwrap_or_default()
    }

    /// The value of the label.
    pub fn label(self) -> String {
        let parts = [(self.export, labels::BY_SERVICE_EXPORT), (self.service, labels::BY_MULTI_CLUSTER_SERVICE)];
        parts.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| *name).collect::<Vec<_>>().join(".")
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The Service of a collected slice, as its Work records it.
pub fn service_of(labels_of_work: impl Fn(&str) -> Option<String>) -> Option<ObjectKey> {
    let pairs = [
        (labels::ENDPOINT_SLICE_NAMESPACE, labels::ENDPOINT_SLICE_NAME),
        (labels::MULTI_CLUSTER_SERVICE_NAMESPACE, labels::MULTI_CLUSTER_SERVICE_NAME),
    ];
    pairs
        .into_iter()
        .find_map(|(namespace, name)| Some(ObjectKey::namespaced(labels_of_work(namespace)?, labels_of_work(name)?)))
}

/// Whether a slice may be collected at all: those that Karmada wrote are not, or they would go round in circles.
pub fn is_own(managed_by: Option<&str>) -> bool {
    matches!(managed_by, Some(labels::SLICE_MANAGED_BY_DISPATCH | labels::SLICE_MANAGED_BY_IMPORT))
}

/// Whether a mechanism requires the slices of a Service in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// They are collected.
    Active,
    /// Unknown, or decided by another process: collected slices stay.
    Unknown,
    /// They are required no longer.
    Ended,
}

/// The state of one Service in one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// The Service.
    pub service: &'a ObjectKey,
    /// The requirement of ServiceExports.
    pub export: Demand,
    /// The requirement of MultiClusterServices.
    pub multi_cluster: Demand,
    /// The slices of the Service in the member; `None` while they are not known.
    pub slices: Option<&'a [Value]>,
    /// The Works with slices of this Service that were collected in this cluster, without those being deleted.
    pub works: &'a [Work],
}

/// The reason for a removal, which the caller confirms before it removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The member has no such slice of this Service any more.
    SliceGone(ObjectKey),
    /// The requirement for the slices has ended.
    Ended,
    /// Another Work has the same slice.
    Double,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new Work.
    Create(Box<Work>),
    /// An existing Work, with the revision that it was read at.
    Update {
        /// The Work as it should be.
        work: Box<Work>,
        /// Whether a mechanism is taken off, for which [`Proof::Ended`] is required.
        takes_off: bool,
    },
    /// A Work to delete.
    Delete {
        /// The Work.
        work: Box<Work>,
        /// The reason.
        proof: Proof,
    },
}

/// Plans the Works of one Service in one cluster. `is_taken` returns whether a Work of another origin has the name.
pub fn plan(input: Input<'_>, is_taken: impl Fn(&str) -> bool) -> Vec<Change> {
    let mut known: BTreeMap<String, &Work> = BTreeMap::new();
    let mut changes = Vec::new();
    let plain = |slice: &str| work::name(slice, input.service.namespace().unwrap_or_default());
    for work in input.works {
        let Some(slice) = work::slice_name(work) else { continue };
        match known.get(&slice) {
            None => drop(known.insert(slice, work)),
            Some(other) => {
                // The one with the usual name stays.
                let (kept, double) = if work.metadata.name == plain(&slice) { (work, *other) } else { (*other, work) };
                changes.push(Change::Delete { work: Box::new(double.clone()), proof: Proof::Double });
                known.insert(slice, kept);
            }
        }
    }
    let Some(slices) = input.slices else {
        changes.extend(known.values().filter_map(|work| without_ended(input, work)));
        return changes;
    };
    for slice in slices {
        let managed_by = slice["metadata"]["labels"][labels::KUBERNETES_SLICE_MANAGED_BY].as_str();
        if is_own(managed_by) || work::label(slice, labels::KUBERNETES_SERVICE_NAME) != input.service.name() {
            continue;
        }
        let existing = known.remove(object_name(slice));
        let had = existing.map(Collectors::of).unwrap_or_default();
        let keeps = |demand: Demand, had: bool, fits: bool| match demand {
            Demand::Active => fits,
            Demand::Unknown => had,
            Demand::Ended => false,
        };
        let collectors = Collectors {
            export: keeps(input.export, had.export, true),
            service: keeps(input.multi_cluster, had.service, managed_by == Some(KUBERNETES)),
        };
        match (existing, collectors.is_empty()) {
            (None, true) => {}
            (Some(work), true) => {
                changes.push(Change::Delete { work: Box::new(work.clone()), proof: Proof::Ended });
            }
            (None, false) => {
                let mut work = Work::named(&ObjectKey::namespaced(
                    input.cluster.execution_namespace(),
                    free_name(input, object_name(slice), &is_taken),
                ));
                fill(&mut work, input.service, collectors, Some(slice));
                changes.push(Change::Create(Box::new(work)));
            }
            (Some(work), false) => changes.extend(update(work, input.service, collectors, Some(slice))),
        }
    }
    for (slice, work) in known {
        let slice = ObjectKey::namespaced(input.service.namespace().unwrap_or_default(), slice);
        changes.push(Change::Delete { work: Box::new(work.clone()), proof: Proof::SliceGone(slice) });
    }
    changes
}

/// The name of a new Work; another one where the usual name is the one of a Work that was dispatched to this cluster.
fn free_name(input: Input<'_>, slice: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let namespace = input.service.namespace().unwrap_or_default();
    let beside = names::dispatched_slice(input.cluster, slice);
    let last = work::name(&work::apart(&beside, input.cluster, slice), namespace);
    let usual = [slice, &beside].map(|name| work::name(name, namespace));
    usual.into_iter().find(|name| !is_taken(name)).unwrap_or(last)
}

/// A Work without the mechanisms that have ended, while the slices in the member are not known.
fn without_ended(input: Input<'_>, work: &Work) -> Option<Change> {
    let had = Collectors::of(work);
    let left = Collectors {
        export: had.export && input.export != Demand::Ended,
        service: had.service && input.multi_cluster != Demand::Ended,
    };
    if left.is_empty() {
        return Some(Change::Delete { work: Box::new(work.clone()), proof: Proof::Ended });
    }
    update(work, input.service, left, None)
}

fn update(existing: &Work, service: &ObjectKey, collectors: Collectors, slice: Option<&Value>) -> Option<Change> {
    let mut work = existing.clone();
    fill(&mut work, service, collectors, slice);
    let had = Collectors::of(existing);
    let takes_off = (had.export && !collectors.export) || (had.service && !collectors.service);
    (work != *existing).then(|| Change::Update { work: Box::new(work), takes_off })
}

/// Finalizers are added for each mechanism, and removed by the controller that removes the objects derived from the
/// Work.
fn fill(work: &mut Work, service: &ObjectKey, collectors: Collectors, slice: Option<&Value>) {
    let metadata = &mut work.metadata;
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name());
    let set = |on: &mut BTreeMap<String, String>, key: &str, value: &str| {
        on.insert(key.to_owned(), value.to_owned());
    };
    set(&mut metadata.labels, labels::ENDPOINT_SLICE_NAMESPACE, namespace);
    set(&mut metadata.labels, labels::ENDPOINT_SLICE_NAME, name);
    if collectors.service {
        set(&mut metadata.labels, labels::MULTI_CLUSTER_SERVICE_NAMESPACE, namespace);
        set(&mut metadata.labels, labels::MULTI_CLUSTER_SERVICE_NAME, name);
    } else {
        metadata.labels.remove(labels::MULTI_CLUSTER_SERVICE_NAMESPACE);
        metadata.labels.remove(labels::MULTI_CLUSTER_SERVICE_NAME);
    }
    // The order of the names in a label of upstream's is as good as ours.
    let recorded = metadata.labels.get(labels::ENDPOINT_SLICE_MANAGED_BY).map(|it| Collectors::parse(it));
    if recorded != Some(collectors) {
        set(&mut metadata.labels, labels::ENDPOINT_SLICE_MANAGED_BY, &collectors.label());
    }
    let required_finalizers = [
        (collectors.export, finalizers::ENDPOINT_SLICE),
        (collectors.service, finalizers::MCS_ENDPOINT_SLICE_DISPATCH),
    ];
    for (_, finalizer) in required_finalizers.into_iter().filter(|(is_on, _)| *is_on) {
        if !metadata.finalizers.iter().any(|known| known == finalizer) {
            metadata.finalizers.push(finalizer.to_owned());
        }
    }
    work.spec.suspend_dispatching = Some(true);
    if let Some(slice) = slice {
        work::put(work, slice.clone());
    }
}

#[cfg(test)]
mod tests;
