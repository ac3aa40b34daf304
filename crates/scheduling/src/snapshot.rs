//! The clusters as decisions read them: parsed once and shared by all decisions until a cluster changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use karmada_api::cluster::v1alpha1::{ApiEnablement, ApiEnablementStatus, Cluster};
use karmada_api::constants::taints;
use karmada_api::kubernetes::Taint;

use crate::capacity::{Capacity, Lean};
use crate::fingerprint::Fingerprint;
use crate::labels::Labels;

/// A parsed cluster. Snapshots share it while the cluster does not change.
#[derive(Clone, Debug)]
pub struct Member {
    cluster: Arc<Cluster>,
    capacity: Capacity,
    /// The fingerprint of the served APIs.
    served: Fingerprint,
    /// The indices of the taints that exclude workloads.
    repelling: Vec<u32>,
}

impl Member {
    /// Parses a cluster.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        let capacity = Capacity::of(&cluster);
        let repels = |taint: &Taint| taint.effect == taints::NO_SCHEDULE || taint.effect == taints::NO_EXECUTE;
        let repelling =
            (0_u32..).zip(&cluster.spec.taints).filter(|(_, taint)| repels(taint)).map(|(place, _)| place).collect();
        Self { served: served(&cluster), cluster, capacity, repelling }
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.cluster.metadata.name
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Its free resources.
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.cluster.metadata.deletion_timestamp.is_some()
    }

    /// The taints that exclude workloads, with their indices.
    pub(crate) fn repelling(&self) -> impl Iterator<Item = (u32, &Taint)> {
        self.repelling.iter().filter_map(|place| Some((*place, self.cluster.spec.taints.get(*place as usize)?)))
    }
}

fn served(cluster: &Cluster) -> Fingerprint {
    let resources = |list: &ApiEnablement| list.resources.iter().map(|it| it.kind.clone()).collect::<Vec<_>>();
    let lists = cluster.status.api_enablements.iter();
    Fingerprint::of(&lists.map(|list| (list.group_version.as_str(), resources(list))).collect::<Vec<_>>())
}

/// The values of a cluster that every decision reads, side by side: the cluster itself is several cache misses away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Glance {
    pub deleting: bool,
    /// It has taints that exclude workloads.
    pub repels: bool,
    pub has_provider: bool,
    pub has_zones: bool,
    pub lean: Option<Lean>,
}

impl Glance {
    fn of(member: &Member) -> Self {
        Self {
            deleting: member.is_deleting(),
            repels: !member.repelling.is_empty(),
            has_provider: !member.cluster.spec.provider.is_empty(),
            has_zones: !member.cluster.spec.zones.is_empty(),
            lean: member.capacity.lean(),
        }
    }
}

/// All clusters, sorted by name. A place is an index into this order.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    members: Vec<Arc<Member>>,
    /// The index in `served` of each member: most clusters of a fleet serve the same APIs.
    served_by: Vec<u32>,
    served: Vec<Arc<Member>>,
    /// Region numbers in the order of the names; 0 for clusters without a region.
    region_of: Vec<u32>,
    glances: Vec<Glance>,
    /// Built by the first selector that needs it.
    labels: OnceLock<Labels>,
}

impl Snapshot {
    /// Of two members with the same name, the first is used.
    pub fn new(members: impl IntoIterator<Item = Arc<Member>>) -> Self {
        let mut members: Vec<Arc<Member>> = members.into_iter().collect();
        members.sort_by(|left, right| left.name().cmp(right.name()));
        members.dedup_by(|later, first| later.name() == first.name());
        let mut snapshot = Self::default();
        snapshot.group_served(&members);
        snapshot.group_regions(&members);
        snapshot.glances = members.iter().map(|member| Glance::of(member)).collect();
        snapshot.members = members;
        snapshot
    }

    /// A snapshot of clusters that are parsed now.
    pub fn of_clusters(clusters: impl IntoIterator<Item = Arc<Cluster>>) -> Self {
        Self::new(clusters.into_iter().map(|cluster| Arc::new(Member::new(cluster))))
    }

    fn group_served(&mut self, members: &[Arc<Member>]) {
        let mut groups: HashMap<Fingerprint, u32> = HashMap::new();
        for member in members {
            let next = u32::try_from(self.served.len()).unwrap_or(u32::MAX);
            let group = *groups.entry(member.served).or_insert(next);
            if group == next {
                self.served.push(member.clone());
            }
            self.served_by.push(group);
        }
    }

    fn group_regions(&mut self, members: &[Arc<Member>]) {
        let regions = || members.iter().map(|member| member.cluster.spec.region.as_str());
        let names: BTreeSet<&str> = regions().chain([""]).collect();
        let numbers: HashMap<&str, u32> = names.into_iter().zip(0..).collect();
        self.region_of = regions().map(|region| numbers.get(region).copied().unwrap_or(0)).collect();
    }

    /// The number of clusters.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no clusters.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The clusters, sorted by name.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }

    pub(crate) fn glances(&self) -> &[Glance] {
        &self.glances
    }

    /// The index of a cluster.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.members.binary_search_by(|member| member.name().cmp(name)).ok()
    }

    /// The cluster of this name.
    pub fn get(&self, name: &str) -> Option<&Member> {
        self.place_of(name).map(|place| &*self.members[place])
    }

    /// Whether each group of members that serve the same APIs serves this kind.
    pub(crate) fn serving(&self, api_version: &str, kind: &str) -> Serving<'_> {
        let enabled =
            |member: &Arc<Member>| member.cluster.api_enablement(api_version, kind) == ApiEnablementStatus::Enabled;
        Serving { snapshot: self, by_group: self.served.iter().map(enabled).collect() }
    }

    pub(crate) fn labels(&self) -> &Labels {
        self.labels.get_or_init(|| {
            let labels: Vec<_> = self.members.iter().map(|member| &member.cluster.metadata.labels).collect();
            Labels::of(&labels)
        })
    }

    /// The number of a member's region, 0 without a region. Regions are numbered in the order of their names.
    pub fn region(&self, place: usize) -> u32 {
        self.region_of.get(place).copied().unwrap_or_default()
    }
}

/// Which members serve a kind.
pub(crate) struct Serving<'a> {
    snapshot: &'a Snapshot,
    by_group: Vec<bool>,
}

impl Serving<'_> {
    pub fn at(&self, place: usize) -> bool {
        let group = self.snapshot.served_by.get(place).map_or(usize::MAX, |group| *group as usize);
        self.by_group.get(group).copied().unwrap_or(false)
    }
}
