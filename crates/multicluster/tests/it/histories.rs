//! Slices, demands and ranges change at random, reconciles run in any order and some are lost. After all have run, each
//! consumer has exactly the slices of the providers, by content, and no other.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::ObjectKey;
use karmada_api::constants::finalizers;
use karmada_api::identity::ClusterName;
use karmada_api::work::v1alpha1::Work;
use multicluster::claimed::Range;
use multicluster::collected::{self, Change, Collectors, Demand};
use multicluster::dispatched::{self, Consumer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const CLUSTERS: [&str; 4] = ["m", "m-4", "m2", "m3"];

#[derive(Default)]
struct World {
    /// Slices of the Service, by cluster and name, with a version.
    slices: BTreeMap<(usize, String), u32>,
    exported: BTreeSet<usize>,
    range: Option<(BTreeSet<usize>, BTreeSet<usize>)>,
    unready: BTreeSet<usize>,
    works: BTreeMap<(String, String), Work>,
}

fn service() -> ObjectKey {
    ObjectKey::namespaced("shop", "web")
}

fn slice(name: &str, version: u32) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "endpoints": [{"addresses": [format!("10.0.{}.{}", version / 256, version % 256)]}]})
}

fn key(work: &Work) -> (String, String) {
    (work.metadata.namespace.clone(), work.metadata.name.clone())
}

impl World {
    fn store(&mut self, work: Work) {
        self.works.insert(key(&work), work);
    }

    /// As an API server does: with finalizers the Work stays, being deleted.
    fn delete(&mut self, work: &Work) {
        let place = key(work);
        let Some(stored) = self.works.get_mut(&place) else { return };
        // The execution controller finishes at once here.
        stored.metadata.finalizers.retain(|existing| existing != finalizers::EXECUTION);
        if stored.metadata.finalizers.is_empty() {
            self.works.remove(&place);
        } else {
            stored.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        }
    }

    fn range(&self) -> Option<Range> {
        let names = |set: &BTreeSet<usize>| set.iter().map(|at| CLUSTERS[*at].to_owned()).collect();
        let (providers, consumers) = self.range.as_ref()?;
        Some(Range { providers: names(providers), consumers: names(consumers), missing: Vec::new() })
    }

    fn is_provider(&self, cluster: usize) -> bool {
        self.range.as_ref().is_some_and(|(providers, _)| providers.contains(&cluster))
    }

    fn collect(&mut self, cluster: usize) {
        let name = ClusterName::from(CLUSTERS[cluster]);
        let namespace = name.execution_namespace();
        let here = self.works.values().filter(|work| work.metadata.namespace == namespace);
        let collected_works = here.filter(|work| Collectors::of(work) != Collectors::default());
        let works: Vec<Work> =
            collected_works.filter(|work| work.metadata.deletion_timestamp.is_none()).cloned().collect();
        let slices: Vec<Value> = self
            .slices
            .iter()
            .filter(|((at, _), _)| *at == cluster)
            .map(|((_, name), version)| slice(name, *version))
            .collect();
        let demand = |is_on: bool| if is_on { Demand::Active } else { Demand::Ended };
        let input = collected::Input {
            cluster: &name,
            service: &service(),
            export: demand(self.exported.contains(&cluster)),
            multi_cluster: demand(self.is_provider(cluster)),
            slices: (!self.unready.contains(&cluster)).then_some(&slices[..]),
            works: &works,
        };
        let is_taken = |name: &str| self.works.contains_key(&(namespace.clone(), name.to_owned()));
        for change in collected::plan(input, is_taken) {
            match change {
                Change::Create(work) => {
                    assert!(self.works.insert(key(&work), *work).is_none(), "a Work of another origin is overwritten");
                }
                Change::Update { work, .. } => self.store(*work),
                Change::Delete { work, .. } => self.delete(&work),
            }
        }
    }

    fn dispatch(&mut self) {
        let all: Vec<Work> = self.works.values().cloned().collect();
        let (copies, sources): (Vec<Work>, Vec<Work>) =
            all.into_iter().partition(|work| dispatched::service_of(work).is_some());
        let range = self.range();
        let works = self.works.clone();
        let unready = self.unready.clone();
        let plan = dispatched::plan(&dispatched::Input {
            service: &service(),
            range: range.as_ref(),
            sources: &sources,
            copies: &copies,
            consumer: &|name| {
                let at = CLUSTERS.iter().position(|it| *it == name).expect("a cluster");
                if unready.contains(&at) { Consumer::NotReady } else { Consumer::Ready }
            },
            is_taken: &|namespace, name| works.contains_key(&(namespace.to_owned(), name.to_owned())),
        });
        assert!(plan.nameless.is_empty());
        for work in plan.creates {
            assert!(self.works.insert(key(&work), work).is_none(), "a Work of another origin is overwritten");
        }
        plan.updates.into_iter().for_each(|work| self.store(work));
        plan.deletes.iter().for_each(|work| self.delete(work));
        for work in plan.released {
            self.release(&work, finalizers::MCS_ENDPOINT_SLICE_DISPATCH);
        }
    }

    fn release(&mut self, work: &Work, finalizer: &str) {
        let Some(stored) = self.works.get_mut(&key(work)) else { return };
        stored.metadata.finalizers.retain(|existing| existing != finalizer);
        if stored.metadata.deletion_timestamp.is_some() && stored.metadata.finalizers.is_empty() {
            self.works.remove(&key(work));
        }
    }

    /// The controller of imported slices releases Works that no export requires.
    fn import(&mut self) {
        let ended = |work: &&Work| work.metadata.deletion_timestamp.is_some() || !Collectors::of(work).export;
        let works: Vec<Work> = self.works.values().filter(ended).cloned().collect();
        works.iter().for_each(|work| self.release(work, finalizers::ENDPOINT_SLICE));
    }

    fn settle(&mut self) {
        for _ in 0..6 {
            for cluster in 0..CLUSTERS.len() {
                self.collect(cluster);
            }
            self.dispatch();
            self.import();
        }
    }

    fn step(&mut self, random: &mut StdRng) {
        let cluster = random.random_range(0..CLUSTERS.len());
        // Few names, so that clusters share some; several yield the same name of a copy.
        let name = ["web-a", "web-b", "4-web-a"][random.random_range(0..3)].to_owned();
        match random.random_range(0..12) {
            0..4 => drop(self.slices.insert((cluster, name), random.random_range(0..1000))),
            4 => drop(self.slices.remove(&(cluster, name))),
            5 => toggle(&mut self.exported, cluster),
            6 => self.range = None,
            7 => {
                let mut some = || (0..CLUSTERS.len()).filter(|_| random.random_range(0..2) == 0).collect();
                self.range = Some((some(), some()));
            }
            8 => toggle(&mut self.unready, cluster),
            9 => self.collect(cluster),
            10 => self.dispatch(),
            _ => self.import(),
        }
    }

    /// Provider, slice and version of each copy, by consumer.
    fn copies(&self) -> BTreeSet<(String, String, String)> {
        let copies = self.works.values().filter(|work| dispatched::service_of(work).is_some());
        let shown = copies.map(|work| {
            let manifest = multicluster::manifest(work).expect("JSON");
            let provider = &work.metadata.annotations["endpointslice.karmada.io/provision-cluster"];
            (work.metadata.namespace.clone(), provider.clone(), manifest["endpoints"].to_string())
        });
        shown.collect()
    }

    fn expected(&self) -> BTreeSet<(String, String, String)> {
        let mut found = BTreeSet::new();
        let Some((_, consumers)) = &self.range else { return found };
        for consumer in consumers {
            for ((provider, name), version) in &self.slices {
                if provider != consumer && self.is_provider(*provider) {
                    let namespace = ClusterName::from(CLUSTERS[*consumer]).execution_namespace();
                    let endpoints = slice(name, *version)["endpoints"].to_string();
                    found.insert((namespace, CLUSTERS[*provider].to_owned(), endpoints));
                }
            }
        }
        found
    }
}

fn toggle(set: &mut BTreeSet<usize>, member: usize) {
    if !set.remove(&member) {
        set.insert(member);
    }
}

#[test]
fn histories_end_exact_and_without_leaks() {
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::default();
        for _ in 0..random.random_range(1..80) {
            world.step(&mut random);
        }
        world.unready.clear();
        world.settle();
        assert_eq!(world.copies(), world.expected(), "seed {seed}");
        let names: BTreeSet<String> = world
            .works
            .values()
            .filter_map(|work| Some(format!("{} {}", work.metadata.namespace, dispatched::object_of(work)?)))
            .collect();
        assert_eq!(names.len(), world.works.len(), "seed {seed}: two Works have the same object in a member");
        let collected = world.works.values().filter(|work| dispatched::service_of(work).is_none()).count();
        let required =
            world.slices.keys().filter(|(at, _)| world.exported.contains(at) || world.is_provider(*at)).count();
        assert_eq!(collected, required, "seed {seed}");
        world.slices.clear();
        world.settle();
        assert!(world.works.is_empty(), "seed {seed}: {:?}", world.works.keys());
    }
}
