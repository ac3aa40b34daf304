//! Which clusters are feasible, and why the others are not.

use std::collections::BTreeMap;

use karmada_api::constants::taints;
use karmada_api::kubernetes::Taint;
use karmada_api::policy::v1alpha1::{Placement, SpreadField};
use karmada_api::work::v1alpha2::TargetCluster;
use propagation::cluster::Affinity;
use propagation::failover::by_taint::{self, Verdict};
use smallvec::SmallVec;

use crate::matcher::Matcher;
use crate::plugins::Plugin;
use crate::problem::{Gates, Problem, Step, Steps};
use crate::snapshot::{Glance, Member, Serving, Snapshot};

/// Why a plugin rejects a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejection {
    /// The binding is being evicted from it.
    Evicted,
    /// It does not serve the template's API.
    NotServed,
    /// By the taint at this index of the cluster's list.
    Tainted(u32),
    /// The affinity does not select it.
    NoAffinity,
    /// The cluster lacks the property of a spread constraint.
    Lacks(SpreadField),
    /// The cluster lacks the label of the spread constraint at this index.
    LacksLabel(u32),
    /// Workloads of the same affinity group are elsewhere.
    NotTogether,
    /// The cluster has a workload of the same anti-affinity group.
    NotApart,
}

impl Rejection {
    /// The plugin that rejects for this reason.
    pub fn plugin(self) -> Plugin {
        match self {
            Self::Evicted => Plugin::ClusterEviction,
            Self::NotServed => Plugin::ApiEnablement,
            Self::Tainted(_) => Plugin::TaintToleration,
            Self::NoAffinity => Plugin::ClusterAffinity,
            Self::Lacks(_) | Self::LacksLabel(_) => Plugin::SpreadConstraint,
            Self::NotTogether => Plugin::WorkloadAffinity,
            Self::NotApart => Plugin::WorkloadAntiAffinity,
        }
    }

    /// The message, which tools match.
    pub fn reason(self, member: &Member) -> String {
        match self {
            Self::Evicted => "cluster(s) is in the process of eviction",
            Self::NotServed => "cluster(s) did not have the API resource",
            Self::Tainted(place) => {
                let taint = member.cluster().spec.taints.get(place as usize).cloned().unwrap_or_default();
                let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
                return format!("cluster(s) had untolerated taint {{{}{value}:{}}}", taint.key, taint.effect);
            }
            Self::NoAffinity => "cluster(s) did not match the placement cluster affinity constraint",
            Self::Lacks(SpreadField::Provider) => "cluster(s) did not have provider property",
            Self::Lacks(SpreadField::Region) => "cluster(s) did not have region property",
            Self::Lacks(_) => "cluster(s) did not have zones property",
            Self::LacksLabel(_) => "cluster(s) did not have the label to spread by",
            Self::NotTogether => "ResourceBinding with the same affinity group does not target this cluster",
            Self::NotApart => "cluster already has workload with the same anti-affinity group",
        }
        .to_owned()
    }

    /// The field of the cluster or of the binding that would have to change.
    pub fn field(self) -> String {
        match self {
            Self::Evicted => "binding: spec.gracefulEvictionTasks".to_owned(),
            Self::NotServed => "cluster: status.apiEnablements".to_owned(),
            Self::Tainted(place) => format!("cluster: spec.taints[{place}]"),
            Self::NoAffinity => "binding: spec.placement.clusterAffinity".to_owned(),
            Self::Lacks(SpreadField::Provider) => "cluster: spec.provider".to_owned(),
            Self::Lacks(SpreadField::Region) => "cluster: spec.region".to_owned(),
            Self::Lacks(_) => "cluster: spec.zones".to_owned(),
            Self::LacksLabel(place) => {
                format!("binding: spec.placement.spreadConstraints[{place}].spreadByLabel")
            }
            Self::NotTogether => "binding: spec.workloadAffinityGroups.affinityGroup".to_owned(),
            Self::NotApart => "binding: spec.workloadAffinityGroups.antiAffinityGroup".to_owned(),
        }
    }
}

/// The current result of a binding, by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Previous {
    /// In the order of the result; the first entry of a cluster counts.
    pub ordered: Vec<(u32, i64)>,
    sorted: Vec<(u32, i64)>,
}

impl Previous {
    pub fn of(targets: &[TargetCluster], snapshot: &Snapshot) -> Self {
        let place = |target: &TargetCluster| u32::try_from(snapshot.place_of(&target.name)?).ok();
        Self::new(targets.iter().filter_map(|it| Some((place(it)?, i64::from(it.replicas)))).collect())
    }

    pub fn new(mut ordered: Vec<(u32, i64)>) -> Self {
        let mut sorted = ordered.clone();
        sorted.sort_by_key(|(place, _)| *place);
        sorted.dedup_by_key(|(place, _)| *place);
        if sorted.len() < ordered.len() {
            let mut seen = std::collections::HashSet::new();
            ordered.retain(|(place, _)| seen.insert(*place));
        }
        Self { ordered, sorted }
    }

    /// The replicas at a place; `None` if the binding is not assigned to it.
    pub fn at(&self, place: u32) -> Option<i64> {
        let found = self.sorted.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.sorted.get(found).map(|(_, replicas)| *replicas)
    }
}

/// The applied affinity: the placement's own, or a term with its overflow tiers. Without tiers every cluster passes.
pub(crate) struct Tiers<'a> {
    tiers: SmallVec<[Matcher<'a>; 2]>,
    /// Replicas are divided tier by tier.
    pub overflow: bool,
}

impl<'a> Tiers<'a> {
    pub fn of(placement: &'a Placement, affinity_name: &str, workload: bool, snapshot: &'a Snapshot) -> Self {
        let matcher = |affinity| Matcher::new(affinity, snapshot);
        if let Some(affinity) = &placement.cluster_affinity {
            return Self { tiers: SmallVec::from_iter([matcher(Affinity::from(affinity))]), overflow: false };
        }
        let Some(term) = placement.cluster_affinities.iter().find(|term| term.affinity_name == affinity_name) else {
            return Self { tiers: SmallVec::new(), overflow: false };
        };
        let overflow = term.overflow_affinities.iter().filter(|_| workload).map(Affinity::from);
        Self {
            tiers: std::iter::once(Affinity::from(term)).chain(overflow).map(matcher).collect(),
            overflow: !affinity_name.is_empty() && !term.overflow_affinities.is_empty(),
        }
    }

    /// The first tier of a cluster.
    pub fn tier(&self, place: u32, member: &Member) -> Option<u32> {
        if self.tiers.is_empty() {
            return Some(0);
        }
        let found = (0_u32..).zip(&self.tiers).find(|(_, affinity)| affinity.matches(place, member));
        found.map(|(tier, _)| tier)
    }

    /// The places of the only clusters that can be in a tier; `None` when any cluster can.
    pub fn places(&self, snapshot: &Snapshot) -> Option<Vec<u32>> {
        if self.tiers.is_empty() {
            return None;
        }
        let lists: Option<Vec<&[&str]>> = self.tiers.iter().map(Matcher::listed).collect();
        let place = |name: &&str| u32::try_from(snapshot.place_of(name)?).ok();
        let mut places: Vec<u32> = lists?.into_iter().flatten().filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        Some(places)
    }
}

/// The tier of clusters outside all tiers.
const NO_TIER: u32 = 1000;

pub(crate) struct Filter<'a, 'b> {
    problem: &'a Problem<'a>,
    gates: &'a Gates,
    snapshot: &'a Snapshot,
    serving: Serving<'a>,
    tiers: &'a Tiers<'b>,
    previous: &'a Previous,
    observer: Option<&'a dyn Steps>,
}

impl<'a, 'b> Filter<'a, 'b> {
    pub fn new(
        problem: &'a Problem<'a>,
        snapshot: &'a Snapshot,
        gates: &'a Gates,
        tiers: &'a Tiers<'b>,
        previous: &'a Previous,
    ) -> Self {
        let resource = &problem.spec.resource;
        let serving = snapshot.serving(&resource.api_version, &resource.kind);
        Self { problem, gates, snapshot, serving, tiers, previous, observer: problem.observer() }
    }

    /// The tier of a cluster that passes.
    pub fn check(&self, place: u32, member: &Member) -> Result<u32, Rejection> {
        let stays = self.previous.at(place).is_some();
        self.observer.iter().for_each(|steps| steps.next_cluster());
        let glance = self.snapshot.glances().get(place as usize);
        let evicted = || self.problem.spec.graceful_eviction_tasks.iter().any(|it| it.from_cluster == member.name());
        self.run(Plugin::ClusterEviction, || if evicted() { Err(Rejection::Evicted) } else { Ok(()) })?;
        let served = || stays || self.serving.at(place as usize);
        self.run(Plugin::ApiEnablement, || if served() { Ok(()) } else { Err(Rejection::NotServed) })?;
        self.run(Plugin::TaintToleration, || {
            let welcomes = stays || glance.is_some_and(|glance| !glance.repels);
            if welcomes { Ok(()) } else { self.taints(member) }
        })?;
        let mut tier = None;
        let on = self.run(Plugin::ClusterAffinity, || {
            tier = self.tiers.tier(place, member);
            tier.map(|_| ()).ok_or(Rejection::NoAffinity)
        })?;
        if !on {
            tier = self.tiers.tier(place, member);
        }
        self.run(Plugin::SpreadConstraint, || self.properties(place, glance, member))?;
        if self.gates.workload_affinity {
            self.run(Plugin::WorkloadAffinity, || if stays { Ok(()) } else { self.together(member) })?;
            self.run(Plugin::WorkloadAntiAffinity, || if stays { Ok(()) } else { self.apart(member) })?;
        }
        Ok(tier.unwrap_or(NO_TIER))
    }

    /// Runs a plugin if it is enabled; returns false if it is not.
    fn run(&self, plugin: Plugin, check: impl FnOnce() -> Result<(), Rejection>) -> Result<bool, Rejection> {
        if !self.gates.plugins.has(plugin) {
            return Ok(false);
        }
        let answer = check();
        if let Some(steps) = self.observer {
            steps.plugin_finished(plugin, Step::Filter, answer.is_ok());
        }
        answer.map(|()| true)
    }

    fn taints(&self, member: &Member) -> Result<(), Rejection> {
        let tolerations = &self.problem.placement.cluster_tolerations;
        let since = self.problem.since.filter(|_| self.gates.tolerations_expire);
        let is_tolerated = |taint: &Taint| match since {
            Some(since) if taint.effect == taints::NO_EXECUTE => {
                let taints = std::slice::from_ref(taint);
                !matches!(by_taint::verdict(taints, tolerations, since), Verdict::Leaves(_))
            }
            _ => tolerations.iter().any(|it| it.tolerates(taint)),
        };
        let mut untolerated = member.repelling().filter(|(_, taint)| !is_tolerated(taint));
        untolerated.next().map_or(Ok(()), |(place, _)| Err(Rejection::Tainted(place)))
    }

    fn properties(&self, place: u32, glance: Option<&Glance>, member: &Member) -> Result<(), Rejection> {
        for (constraint, at) in self.problem.placement.spread_constraints.iter().zip(0_u32..) {
            let label = &constraint.spread_by_label;
            if self.gates.spread_by_all
                && !label.is_empty()
                && member.cluster().metadata.labels.get(label).is_none_or(String::is_empty)
            {
                return Err(Rejection::LacksLabel(at));
            }
            let Some(field) = constraint.spread_by_field else { continue };
            let lacks_field = match field {
                SpreadField::Cluster => false,
                SpreadField::Provider => glance.is_none_or(|glance| !glance.has_provider),
                SpreadField::Region => self.snapshot.region(place as usize) == 0,
                SpreadField::Zone => glance.is_none_or(|glance| !glance.has_zones),
            };
            if lacks_field {
                return Err(Rejection::Lacks(field));
            }
        }
        Ok(())
    }

    fn together(&self, member: &Member) -> Result<(), Rejection> {
        let is_elsewhere = |it: &&[TargetCluster]| !it.is_empty() && !goes_to(it, member);
        let refuses = self.problem.peers.is_some_and(|peers| peers.together.iter().any(is_elsewhere));
        if refuses { Err(Rejection::NotTogether) } else { Ok(()) }
    }

    fn apart(&self, member: &Member) -> Result<(), Rejection> {
        let refuses = self.problem.peers.is_some_and(|peers| peers.apart.iter().any(|it| goes_to(it, member)));
        if refuses { Err(Rejection::NotApart) } else { Ok(()) }
    }
}

fn goes_to(targets: &[TargetCluster], member: &Member) -> bool {
    targets.iter().any(|target| target.name == member.name())
}

/// The number of clusters per reason, as the condition shows it.
pub(crate) fn diagnosis<'a>(refused: impl Iterator<Item = (Rejection, &'a Member)>) -> String {
    // A message is built once per reason, except for taints, which differ between clusters.
    let mut alike: BTreeMap<Rejection, (String, usize)> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (rejection, member) in refused {
        match rejection {
            Rejection::Tainted(_) => *counts.entry(rejection.reason(member)).or_default() += 1,
            _ => alike.entry(rejection).or_insert_with(|| (rejection.reason(member), 0)).1 += 1,
        }
    }
    counts.extend(alike.into_values());
    if counts.is_empty() {
        return "no cluster exists".to_owned();
    }
    let mut items: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    items.sort();
    items.join(", ")
}
