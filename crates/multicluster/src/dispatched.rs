//! Copies of collected EndpointSlices in the consumers of a MultiClusterService: a Work for each slice and consumer.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::ObjectKey;
use karmada_api::ApiType;
use karmada_api::constants::{annotations, finalizers, labels};
use karmada_api::identity::ClusterName;
use karmada_api::names;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::claimed::Range;
use crate::collected::Collectors;
use crate::work::{self, object_name};

/// The state of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// It is Ready and serves EndpointSlices.
    Ready,
    /// It does not serve EndpointSlices.
    Incompatible,
    /// Not Ready: it keeps its slices, and receives no new ones.
    NotReady,
    /// It leaves, or does not exist.
    Leaving,
}

/// The state of one MultiClusterService.
pub struct Input<'a> {
    /// Its name, which is the Service's.
    pub service: &'a ObjectKey,
    /// Its clusters; `None` when it does not exist, or is being deleted.
    pub range: Option<&'a Range>,
    /// Works with collected slices of the Service, also those being deleted.
    pub sources: &'a [Work],
    /// Works with dispatched slices of the Service that are not being deleted.
    pub copies: &'a [Work],
    /// The state of a cluster.
    pub consumer: &'a dyn Fn(&str) -> Consumer,
    /// Whether a Work with this namespace and name exists.
    pub is_taken: &'a dyn Fn(&str, &str) -> bool,
}

/// The writes of one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// New Works.
    pub creates: Vec<Work>,
    /// Existing Works, with the revisions that they were read at.
    pub updates: Vec<Work>,
    /// Works that go, because their slice, provider or consumer has ended. The caller confirms that the
    /// MultiClusterService is the one of the plan.
    pub deletes: Vec<Work>,
    /// Collected Works without copies after this plan: their finalizer of dispatching is removed.
    pub released: Vec<Work>,
    /// Consumers that do not serve EndpointSlices.
    pub incompatible: Vec<String>,
    /// Slices for which no name is free in a consumer.
    pub nameless: Vec<String>,
}

impl Plan {
    /// Whether the plan has no writes.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.updates.is_empty() && self.deletes.is_empty() && self.released.is_empty()
    }
}

/// A slice to dispatch to consumers.
struct Source<'a> {
    provider: &'a str,
    work: &'a Work,
    slice: String,
    manifest: Value,
}

/// Whether a Work has a slice that is dispatched while its MultiClusterService exists.
fn is_active(work: &Work) -> bool {
    work.metadata.deletion_timestamp.is_none() && Collectors::of(work).service
}

/// Whether dispatching holds the Work.
fn has_finalizer(work: &Work) -> bool {
    work.metadata.finalizers.iter().any(|finalizer| finalizer == finalizers::MCS_ENDPOINT_SLICE_DISPATCH)
}

/// Plans the copies of one MultiClusterService.
pub fn plan(input: &Input<'_>) -> Plan {
    let mut plan = Plan::default();
    let sources = sources(input);
    let none = BTreeSet::new();
    let consumers = input.range.map_or(&none, |range| &range.consumers);
    let mut kept: BTreeSet<(&str, &str)> = BTreeSet::new();
    for consumer in consumers {
        let state = (input.consumer)(consumer);
        match state {
            Consumer::Leaving => continue,
            Consumer::Incompatible => plan.incompatible.push(consumer.clone()),
            Consumer::Ready | Consumer::NotReady => {}
        }
        let place = Place::new(consumer, input);
        for copy in place.fill(&sources, state, &mut plan) {
            kept.insert((&copy.metadata.namespace, &copy.metadata.name));
        }
    }
    let is_kept = |copy: &&Work| kept.contains(&(copy.metadata.namespace.as_str(), copy.metadata.name.as_str()));
    plan.deletes = input.copies.iter().filter(|copy| !is_kept(copy)).cloned().collect();
    let ended = |source: &&Work| has_finalizer(source) && !is_active(source);
    plan.released = input.sources.iter().filter(ended).cloned().collect();
    plan
}

/// The slices of providers, in the order of their clusters.
fn sources<'a>(input: &'a Input<'a>) -> Vec<Source<'a>> {
    let providers = input.range.map(|range| &range.providers);
    let mut sources: Vec<Source<'a>> = input
        .sources
        .iter()
        .filter(|work| is_active(work))
        .filter_map(|work| {
            let provider = names::cluster_of_namespace(&work.metadata.namespace)?;
            providers.filter(|providers| providers.contains(provider))?;
            Some(Source { provider, work, slice: work::slice_name(work)?, manifest: work::manifest(work).ok()? })
        })
        .collect();
    sources.sort_by(|one, other| (one.provider, &one.slice).cmp(&(other.provider, &other.slice)));
    sources
}

/// One consumer.
struct Place<'a> {
    consumer: &'a str,
    input: &'a Input<'a>,
    namespace: String,
    /// The existing copies.
    copies: Vec<&'a Work>,
}

impl<'a> Place<'a> {
    fn new(consumer: &'a str, input: &'a Input<'a>) -> Self {
        let namespace = ClusterName::from(consumer).execution_namespace();
        let copies = input.copies.iter().filter(|copy| copy.metadata.namespace == namespace).collect();
        Self { consumer, input, namespace, copies }
    }

    /// Plans the copies of all sources here, and returns the existing ones that stay.
    fn fill(&self, sources: &[Source<'_>], state: Consumer, plan: &mut Plan) -> Vec<&'a Work> {
        let mut kept: BTreeMap<String, &'a Work> = BTreeMap::new();
        let mut objects: BTreeSet<String> = BTreeSet::new();
        let mut works: BTreeSet<String> = BTreeSet::new();
        let mut new = Vec::new();
        // Existing copies keep their names; later ones get other names.
        for source in sources.iter().filter(|source| source.provider != self.consumer) {
            match self.copy_of(source).filter(|copy| !kept.contains_key(&copy.metadata.name)) {
                Some(copy) => {
                    let object = work::slice_name(copy).unwrap_or_default();
                    let changed = self.copy(copy.clone(), source, &object);
                    plan.updates.extend((changed != *copy).then_some(changed));
                    objects.insert(object);
                    kept.insert(copy.metadata.name.clone(), copy);
                }
                None => new.push(source),
            }
        }
        for source in new.into_iter().filter(|_| state == Consumer::Ready) {
            let object = self.object_names(source).into_iter().find(|name| !objects.contains(name));
            let is_free = |name: &String| !works.contains(name) && !(self.input.is_taken)(&self.namespace, name);
            let named = object.and_then(|object| {
                let namespace = self.input.service.namespace().unwrap_or_default();
                let further = work::apart(&object, source.provider, &source.slice);
                let spare = [&object, &further].map(|name| work::name(name, namespace));
                let work = std::iter::once(source.work.metadata.name.clone()).chain(spare).find(is_free)?;
                Some((object, work))
            });
            let Some((object, name)) = named else {
                plan.nameless
                    .push(format!("{} of cluster {} in cluster {}", source.slice, source.provider, self.consumer));
                continue;
            };
            let work = Work::named(&ObjectKey::namespaced(self.namespace.as_str(), name.as_str()));
            plan.creates.push(self.copy(work, source, &object));
            objects.insert(object);
            works.insert(name);
        }
        kept.into_values().collect()
    }

    /// The usual name of the copy, and another one.
    fn object_names(&self, source: &Source<'_>) -> [String; 2] {
        let plain = names::dispatched_slice(source.provider, &source.slice);
        let apart = work::apart(&plain, source.provider, &source.slice);
        [plain, apart]
    }

    fn copy_of(&self, source: &Source<'_>) -> Option<&'a Work> {
        let names = self.object_names(source);
        let mut copies = self.copies.iter().filter(|copy| {
            let provider = copy.metadata.annotations.get(annotations::PROVISION_CLUSTER);
            provider.is_some_and(|provider| provider == source.provider)
        });
        copies.find(|copy| work::slice_name(copy).is_some_and(|name| names.contains(&name))).copied()
    }

    /// A Work with the slice under the name `object`.
    fn copy(&self, mut work: Work, source: &Source<'_>, object: &str) -> Work {
        let service = self.input.service;
        let metadata = &mut work.metadata;
        let namespace = service.namespace().unwrap_or_default();
        metadata.labels.insert(labels::MULTI_CLUSTER_SERVICE_NAMESPACE.to_owned(), namespace.to_owned());
        metadata.labels.insert(labels::MULTI_CLUSTER_SERVICE_NAME.to_owned(), service.name().to_owned());
        metadata.annotations.insert(annotations::PROVISION_CLUSTER.to_owned(), source.provider.to_owned());
        if !metadata.finalizers.iter().any(|finalizer| finalizer == finalizers::EXECUTION) {
            metadata.finalizers.push(finalizers::EXECUTION.to_owned());
        }
        let mut slice = source.manifest.clone();
        let mut on_slice = json!({
            "name": object, "namespace": namespace,
            "labels": {
                labels::KUBERNETES_SERVICE_NAME: service.name(),
                labels::KUBERNETES_SLICE_MANAGED_BY: labels::SLICE_MANAGED_BY_DISPATCH,
                labels::MANAGED: "true",
            },
            "annotations": {
                annotations::PROVISION_CLUSTER: source.provider,
                annotations::WORK_NAMESPACE: metadata.namespace,
                annotations::WORK_NAME: metadata.name,
            },
        });
        if let Some(prefix) = source.manifest["metadata"]["generateName"].as_str() {
            on_slice["generateName"] = json!(prefix);
        }
        slice["metadata"] = on_slice;
        work::put(&mut work, slice);
        work
    }
}

/// The Service of a dispatched Work; `None` for other Works.
pub fn service_of(work: &Work) -> Option<ObjectKey> {
    work.metadata.annotations.get(annotations::PROVISION_CLUSTER)?;
    let label = |key: &str| work.metadata.labels.get(key).cloned();
    let (namespace, name) =
        (label(labels::MULTI_CLUSTER_SERVICE_NAMESPACE)?, label(labels::MULTI_CLUSTER_SERVICE_NAME)?);
    Some(ObjectKey::namespaced(namespace, name))
}

/// The slice's object name in a dispatched Work, for tests and reports.
pub fn object_of(work: &Work) -> Option<String> {
    let manifest = work::manifest(work).ok()?;
    Some(object_name(&manifest).to_owned())
}

#[cfg(test)]
mod tests;
