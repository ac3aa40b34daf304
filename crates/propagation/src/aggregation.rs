//! Aggregation of the Works' statuses into their binding's status.
//!
//! A Work is decoded once for each of its versions: a rollout over N clusters decodes a multiple of N Works, however
//! often the binding is aggregated meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::Object;
use karmada_api::identity::{BindingKey, WorkKey};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, ObjectReference};

use crate::status::{Contribution, ContributionError, Standing};

/// The items of a binding's status.
pub fn items(contributions: &[Arc<Contribution>]) -> Vec<AggregatedStatusItem> {
    contributions.iter().map(|it| it.item.clone()).collect()
}

/// The standings by cluster.
pub fn standings(contributions: &[Arc<Contribution>]) -> BTreeMap<&str, Standing> {
    contributions.iter().map(|it| (it.item.cluster_name.as_str(), it.standing)).collect()
}

/// The contributions of one binding's Works, as they were decoded last.
#[derive(Debug, Default)]
pub struct Contributions {
    resource: ObjectReference,
    works: HashMap<WorkKey, Known>,
    decoded: u64,
}

#[derive(Debug)]
struct Known {
    uid: String,
    resource_version: String,
    contribution: Option<Arc<Contribution>>,
}

impl Contributions {
    /// Updates the contributions from the current Works of the binding and returns them, in the order of clusters.
    ///
    /// One Work of each cluster counts: an override that changed the name of the copy leaves the former one for a moment.
    ///
    /// # Errors
    /// Those of the first Work that contributes nothing.
    pub fn update(
        &mut self,
        resource: &ObjectReference,
        works: &[Arc<Object>],
    ) -> Result<Vec<Arc<Contribution>>, ContributionError> {
        if self.resource != *resource {
            self.works.clear();
            self.resource = resource.clone();
        }
        let mut before = std::mem::take(&mut self.works);
        let mut contributions: Vec<Arc<Contribution>> = Vec::with_capacity(works.len());
        for object in works {
            let key = object.key();
            let is_current =
                |known: &Known| known.resource_version == object.resource_version() && known.uid == object.uid();
            let (key, known) = match before.remove_entry(&key).filter(|(_, known)| is_current(known)) {
                Some(entry) => entry,
                None => {
                    self.decoded += 1;
                    let decode = |source| ContributionError::Decode { work: key.clone(), source };
                    let contribution = Contribution::of(resource, &Work::read(object).map_err(decode)?)?.map(Arc::new);
                    let work = contribution.as_ref().map(|it| it.work.clone());
                    // A Work outside the execution namespaces that is being deleted contributes nothing.
                    let Some(work) = work.or_else(|| WorkKey::try_from(key).ok()) else { continue };
                    let (uid, resource_version) = (object.uid().to_owned(), object.resource_version().to_owned());
                    (work, Known { uid, resource_version, contribution })
                }
            };
            contributions.extend(known.contribution.clone());
            self.works.insert(key, known);
        }
        contributions.sort_by(|left, right| {
            let by_cluster = left.item.cluster_name.cmp(&right.item.cluster_name);
            by_cluster.then_with(|| right.precedence.cmp(&left.precedence)).then_with(|| left.work.cmp(&right.work))
        });
        contributions.dedup_by(|other, first| other.item.cluster_name == first.item.cluster_name);
        Ok(contributions)
    }

    /// How many times a Work was decoded.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }
}

/// Bindings of fewer Works are decoded each time: that is cheaper than the room they would take.
const FEW: usize = 8;

/// The maximum number of Works over all bindings in the cache, each some 600 bytes: 10 MiB.
const MOST: usize = 16_384;

/// The contributions of the bindings that were aggregated last.
#[derive(Debug, Default)]
pub struct Recent {
    bindings: HashMap<BindingKey, (u64, Contributions)>,
    works: usize,
    uses: u64,
}

impl Recent {
    /// Removes and returns the contributions of a binding, to be updated and stored again.
    pub fn take(&mut self, binding: &BindingKey) -> Contributions {
        let Some((_, contributions)) = self.bindings.remove(binding) else { return Contributions::default() };
        self.works -= contributions.works.len();
        contributions
    }

    /// Stores the contributions of a binding. Beyond [`MOST`] Works the least recently used ones are dropped.
    pub fn keep(&mut self, binding: &BindingKey, contributions: Contributions) {
        self.forget(binding);
        if contributions.works.len() <= FEW {
            return;
        }
        self.uses += 1;
        self.works += contributions.works.len();
        self.bindings.insert(binding.clone(), (self.uses, contributions));
        while self.works > MOST
            && let Some(oldest) = self.bindings.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone())
        {
            self.forget(&oldest);
        }
    }

    /// Drops the contributions of a deleted binding.
    pub fn forget(&mut self, binding: &BindingKey) {
        drop(self.take(binding));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource() -> ObjectReference {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "a"});
        serde_json::from_value(value).expect("a reference")
    }

    fn work(cluster: usize, version: u64, status: &Value) -> Arc<Object> {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w", "uid": cluster.to_string(),
            "namespace": format!("karmada-es-m{cluster:03}"), "resourceVersion": version.to_string()},
            "spec": {"workload": {"manifests": [manifest]}}, "status": status});
        Object::from_value(&work).expect("a work").shared()
    }

    /// Every change of every Work is aggregated separately, which is the worst case.
    #[test]
    fn a_rollout_decodes_each_version_of_a_work_once() {
        const CLUSTERS: usize = 100;
        const CHANGES: usize = 3;
        let (mut recent, binding) = (Recent::default(), BindingKey::namespaced("ns", "a-configmap"));
        let mut works: Vec<_> = (0..CLUSTERS).map(|cluster| work(cluster, 1, &json!({}))).collect();
        let statuses = [
            json!({"conditions": [{"type": "Applied", "status": "True", "reason": "r", "message": "m"}]}),
            json!({"conditions": [{"type": "Applied", "status": "True", "reason": "r", "message": "m"}],
                "manifestStatuses": [{"identifier": {"ordinal": 0}, "health": "Unhealthy"}]}),
            json!({"conditions": [{"type": "Applied", "status": "True", "reason": "r", "message": "m"}],
                "manifestStatuses": [{"identifier": {"ordinal": 0}, "health": "Healthy"}]}),
        ];
        let (mut version, mut decoded) = (1, 0);
        for status in &statuses {
            for cluster in 0..CLUSTERS {
                version += 1;
                works[cluster] = work(cluster, version, status);
                let mut contributions = recent.take(&binding);
                let found = contributions.update(&resource(), &works).expect("contributions");
                let fresh = Contributions::default().update(&resource(), &works).expect("contributions");
                assert_eq!(found, fresh);
                decoded = contributions.decoded();
                recent.keep(&binding, contributions);
            }
        }
        assert_eq!(decoded, (CLUSTERS + CLUSTERS * CHANGES - 1) as u64);
    }

    #[test]
    fn contributions_follow_their_works() {
        let mut contributions = Contributions::default();
        let clusters = |found: Vec<Arc<Contribution>>| -> Vec<String> {
            found.iter().map(|it| it.item.cluster_name.clone()).collect()
        };
        let [one, two] = [work(1, 1, &json!({})), work(2, 1, &json!({}))];
        let found = contributions.update(&resource(), &[two.clone(), one.clone()]);
        assert_eq!(clusters(found.expect("contributions")), ["m001", "m002"]);
        let found = contributions.update(&resource(), std::slice::from_ref(&two));
        assert_eq!(clusters(found.expect("contributions")), ["m002"]);
        // A Work of the same name and version, but another one.
        let mut other = one.to_value().expect("a tree");
        other["metadata"]["uid"] = json!("other");
        contributions.update(&resource(), &[one]).expect("contributions");
        let before = contributions.decoded();
        contributions
            .update(&resource(), &[Object::from_value(&other).expect("a work").shared()])
            .expect("contributions");
        assert_eq!(contributions.decoded(), before + 1);
        // An override may have changed the identity of the copy. A Work of several manifests is of none in particular.
        let other = ObjectReference { name: "b".to_owned(), ..resource() };
        let found = contributions.update(&other, std::slice::from_ref(&two));
        assert_eq!(clusters(found.expect("contributions")), ["m002"]);
        let mut several = two.to_value().expect("a tree");
        let manifest = several["spec"]["workload"]["manifests"][0].clone();
        several["spec"]["workload"]["manifests"] = json!([manifest, manifest]);
        several["metadata"]["resourceVersion"] = json!("9");
        let several = Object::from_value(&several).expect("a work").shared();
        let error = contributions.update(&other, &[several]).expect_err("no such manifest");
        assert_eq!(error.to_string(), "work karmada-es-m002/w has no manifest of ConfigMap ns/b");
    }

    /// After an override changes the name, the Work of the former name is left until it is deleted.
    #[test]
    fn one_work_of_a_cluster_counts() {
        let named = |name: &str, second: u32| {
            let mut tree = work(2, 2, &json!({})).to_value().expect("a tree");
            tree["metadata"]["name"] = json!(name);
            tree["metadata"]["uid"] = json!(name);
            tree["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
            tree["spec"]["workload"]["manifests"][0]["metadata"]["name"] = json!(name);
            Object::from_value(&tree).expect("a work").shared()
        };
        for (works, expected) in [
            (vec![named("a", 1), named("b", 2)], "a"),
            (vec![named("b", 1), named("c", 2)], "c"),
            (vec![named("c", 2), named("b", 1)], "c"),
            (vec![named("c", 1), named("b", 1)], "b"),
        ] {
            let found = Contributions::default().update(&resource(), &works).expect("contributions");
            assert_eq!(found.iter().map(|it| it.work.name()).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn kept_contributions_are_bounded() {
        let mut recent = Recent::default();
        let key = |n: usize| BindingKey::namespaced("ns", format!("b{n}"));
        let of = |works: usize| {
            let works: Vec<_> = (0..works).map(|cluster| work(cluster, 1, &json!({}))).collect();
            let mut contributions = Contributions::default();
            contributions.update(&resource(), &works).expect("contributions");
            contributions
        };
        recent.keep(&key(0), of(FEW));
        assert!(recent.bindings.is_empty());
        for n in 1..=MOST / 1000 + 2 {
            recent.keep(&key(n), of(1000));
        }
        assert_eq!((recent.bindings.len(), recent.works), (MOST / 1000, MOST / 1000 * 1000));
        assert!(!recent.bindings.contains_key(&key(2)) && recent.bindings.contains_key(&key(3)), "the oldest go first");
        recent.forget(&key(3));
        assert_eq!(recent.works, (MOST / 1000 - 1) * 1000);
    }
}
