//! The workloads in members, and their reports.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Patch, PatchOptions};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::time::Instant;

use super::steps::HealthBehavior;
use crate::simulation::kinds::Kind;
use crate::simulation::read::{all, name};

/// A report reaches the control plane and takes effect within this time.
const ON_ITS_WAY: Duration = Duration::from_secs(120);

/// A Deployment in a member.
#[derive(Default)]
struct Copy {
    ready: i64,
    /// Recent reports.
    reports: VecDeque<(Option<Instant>, i64)>,
}

#[derive(Default)]
struct State {
    behaviors: BTreeMap<&'static str, HealthBehavior>,
    copies: BTreeMap<(&'static str, String), Copy>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    members: Arc<BTreeMap<&'static str, Client>>,
    state: Arc<Mutex<State>>,
}

impl Fleet {
    pub fn new(members: BTreeMap<&'static str, Client>) -> Self {
        Self { members: Arc::new(members), state: Arc::default() }
    }

    pub fn behaves(&self, member: &'static str, behavior: HealthBehavior) {
        let mut state = self.state.lock();
        state.behaviors.insert(member, behavior);
        if matches!(behavior, HealthBehavior::Sick | HealthBehavior::Misreporting) {
            let State { copies, .. } = &mut *state;
            copies.iter_mut().filter(|((of, _), _)| *of == member).for_each(|(_, copy)| copy.ready = 0);
        }
    }

    /// Replicas of a workload that are actually ready, over all members.
    pub fn ready(&self, workload: &str) -> i64 {
        let state = self.state.lock();
        state.copies.iter().filter(|((_, name), _)| name == workload).map(|(_, copy)| copy.ready).sum()
    }

    /// Replicas of a workload that the control plane may count outside of a cluster: those that are ready, and those
    /// that a member reported recently.
    pub fn reported_beside(&self, workload: &str, cluster: &str) -> i64 {
        let (state, now) = (self.state.lock(), Instant::now());
        let others = state.copies.iter().filter(|((member, name), _)| name == workload && *member != cluster);
        let best = |copy: &Copy| {
            let lately = copy.reports.iter().filter(|(until, _)| until.is_none_or(|until| now - until < ON_ITS_WAY));
            lately.map(|(_, ready)| *ready).max().unwrap_or_default().max(copy.ready)
        };
        others.map(|(_, copy)| best(copy)).sum()
    }

    /// Advances once a second, for as long as it is awaited.
    pub async fn live(self, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5eed);
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for (member, client) in &*self.members {
                self.turn(&mut rng, member, client).await;
            }
        }
    }

    async fn turn(&self, rng: &mut StdRng, member: &'static str, client: &Client) {
        let kind = Kind::Deployment;
        let found = all(client, &kind.resource(), kind.namespace()).await;
        {
            let mut state = self.state.lock();
            state.copies.retain(|(of, copy), _| *of != member || found.iter().any(|object| name(object) == copy));
        }
        for object in &found {
            let desired = object["spec"]["replicas"].as_i64().unwrap_or(1);
            let reported = {
                let mut state = self.state.lock();
                let behavior = state.behaviors.get(member).copied().unwrap_or(HealthBehavior::Truthful);
                let copy = state.copies.entry((member, name(object).to_owned())).or_default();
                copy.ready = match behavior {
                    HealthBehavior::Truthful => copy.ready + i64::from(copy.ready < desired),
                    HealthBehavior::Varying => rng.random_range(0..=desired),
                    HealthBehavior::Sick | HealthBehavior::Misreporting => 0,
                };
                copy.ready = copy.ready.min(desired);
                let reported = if behavior == HealthBehavior::Misreporting { desired } else { copy.ready };
                copy.report(reported);
                reported
            };
            let status = json!({"observedGeneration": object["metadata"]["generation"], "replicas": desired,
                "updatedReplicas": desired, "readyReplicas": reported, "availableReplicas": reported});
            if object["status"] != status {
                let patch = Patch::Merge(json!({"status": status}));
                let key = kind.key(name(object));
                drop(client.patch(&kind.resource(), &key, &patch, &PatchOptions::status()).await);
            }
        }
    }
}

impl Copy {
    fn report(&mut self, ready: i64) {
        let now = Instant::now();
        if self.reports.back().is_none_or(|(_, last)| *last != ready) {
            if let Some((until, _)) = self.reports.back_mut() {
                *until = Some(now);
            }
            self.reports.push_back((None, ready));
        }
        self.reports.retain(|(until, _)| until.is_none_or(|until| now - until < ON_ITS_WAY));
    }
}
