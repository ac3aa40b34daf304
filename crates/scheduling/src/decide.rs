//! One decision, from the binding and the clusters to the result: filter, score, select, assign.

use karmada_api::policy::v1alpha1::Placement;
use karmada_api::work::v1alpha2::{ResourceBindingSpec, TargetCluster, TargetComponent};
use propagation::cluster::Affinity;
use propagation::division::Ties;

use crate::assign::{Assignment, Share, assign};
use crate::candidate::Candidate;
use crate::error::{AssignError, Class, ScheduleError};
use crate::estimate::{Assumed, Demand, Estimator, UNLIMITED};
use crate::filter::{Filter, Previous, Tiers, diagnosis};
use crate::matcher::Matcher;
use crate::plugins::Plugin;
use crate::problem::{Gates, Problem, Step, Strategy, ignores_constraints, places_sets};
use crate::select::select;
use crate::selection::Selection;
use crate::snapshot::Snapshot;
use crate::trace::Trace;

/// The score of a cluster that already runs the workload.
const HOSTING: i64 = 100;

/// A term of `clusterAffinities` that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermFailure {
    /// Its index in `clusterAffinities`.
    pub index: usize,
    /// Its `affinityName`.
    pub name: String,
    /// Why it failed.
    pub error: ScheduleError,
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The new `spec.clusters`, or the first error.
    pub clusters: Result<Vec<TargetCluster>, ScheduleError>,
    /// The term of `clusterAffinities` that applies from now on. `None` without terms and after a failure; the status
    /// then keeps the previous name.
    pub affinity_term: Option<String>,
    /// Each failure gets a warning event; see [`crate::outcome::term_failure_event`].
    pub failures: Vec<TermFailure>,
}

impl Decision {
    /// The value to write into `spec.clusters`: the result, an empty list when no cluster fits, and `None` to leave the
    /// field unchanged after any other error.
    pub fn result(&self) -> Option<&[TargetCluster]> {
        match &self.clusters {
            Ok(clusters) => Some(clusters),
            Err(error) => (error.class() == Class::NoFit).then_some(&[]),
        }
    }

    /// The error, if the decision failed.
    pub fn error(&self) -> Option<&ScheduleError> {
        self.clusters.as_ref().err()
    }
}

/// Schedules a binding.
pub fn decide(problem: &Problem<'_>, snapshot: &Snapshot, gates: &Gates) -> Decision {
    decide_traced(problem, snapshot, gates, None)
}

/// Tries the terms of `clusterAffinities` in order until one succeeds. It starts with the applied term, or with the
/// first one when a reschedule is requested.
pub(crate) fn decide_traced(
    problem: &Problem<'_>,
    snapshot: &Snapshot,
    gates: &Gates,
    mut trace: Option<&mut Trace>,
) -> Decision {
    let terms = &problem.placement.cluster_affinities;
    if terms.is_empty() {
        let clusters = run(problem, snapshot, gates, trace);
        return Decision { clusters, affinity_term: None, failures: Vec::new() };
    }
    let in_force = terms.iter().position(|term| term.affinity_name == problem.affinity_name);
    let start = if problem.is_fresh() { 0 } else { in_force.unwrap_or(0) };
    let mut failures = Vec::new();
    for (index, term) in terms.iter().enumerate().skip(start) {
        let trial = Problem { affinity_name: &term.affinity_name, ..*problem };
        match run(&trial, snapshot, gates, trace.as_deref_mut()) {
            Ok(clusters) => {
                return Decision { clusters: Ok(clusters), affinity_term: Some(term.affinity_name.clone()), failures };
            }
            Err(error) => failures.push(TermFailure { index, name: term.affinity_name.clone(), error }),
        }
    }
    let first = failures.first().map(|failure| failure.error.clone());
    Decision { clusters: Err(first.unwrap_or(AssignError::NoClusters.into())), affinity_term: None, failures }
}

/// One attempt with the affinity that is set in `problem`.
fn run(
    problem: &Problem<'_>,
    snapshot: &Snapshot,
    gates: &Gates,
    mut trace: Option<&mut Trace>,
) -> Result<Vec<TargetCluster>, ScheduleError> {
    trace.iter_mut().for_each(|trace| trace.start());
    let previous = Previous::of(&problem.spec.clusters, snapshot);
    let tiers = Tiers::of(problem.placement, problem.affinity_name, problem.is_workload(), snapshot);
    let filter = Filter::new(problem, snapshot, gates, &tiers, &previous);
    // Clusters outside every affinity cannot pass; only an explanation needs the reason.
    let named = gates.plugins.has(Plugin::ClusterAffinity) && trace.is_none();
    let places = if named { tiers.places(snapshot) } else { None };
    let mut candidates = Vec::with_capacity(places.as_ref().map_or(snapshot.len(), Vec::len));
    let observer = problem.observer().filter(|_| gates.plugins.has(Plugin::ClusterLocality));
    let mut look = |place: u32| {
        if snapshot.glances().get(place as usize).is_none_or(|glance| glance.deleting) {
            return;
        }
        let Some(member) = snapshot.members().get(place as usize) else { return };
        match filter.check(place, member) {
            Ok(tier) => {
                candidates.push(candidate(snapshot, &previous, gates, place, tier));
                observer.iter().for_each(|steps| steps.plugin_finished(Plugin::ClusterLocality, Step::Score, true));
            }
            Err(rejection) => trace.iter_mut().for_each(|trace| trace.reject(place, rejection)),
        }
    };
    match places {
        Some(places) => places.into_iter().for_each(&mut look),
        None => (0_u32..).take(snapshot.len()).for_each(&mut look),
    }
    problem.ended(Step::Filter, !candidates.is_empty());
    if candidates.is_empty() {
        return Err(no_fit(snapshot, &filter));
    }
    // Scores are part of the candidates: they cost one comparison each.
    problem.ended(Step::Score, true);
    let sets = places_sets(problem.spec, problem.placement, gates);
    // Static weights depend neither on capacity nor on the order of the candidates.
    if trace.is_some() || tiers.overflow || !is_static(problem.placement) {
        measure(problem, snapshot, gates, sets, &mut candidates);
    }
    trace.iter_mut().for_each(|trace| trace.measured(&candidates));
    let replicas = i64::from(problem.spec.replicas);
    let selection = Selection::of(problem.placement, replicas, sets, gates, &mut candidates, snapshot);
    let selection = Selection { ordered: order_matters(problem, gates), ..selection };
    let selected = select(&selection, candidates);
    problem.ended(Step::Select, selected.is_ok());
    let selected = selected?;
    if selected.is_empty() {
        return Err(AssignError::NoClusters.into());
    }
    trace.iter_mut().for_each(|trace| trace.selected(&selected));
    let targets = targets(problem, snapshot, gates, &selected, &previous, tiers.overflow);
    problem.ended(Step::AssignReplicas, targets.is_ok());
    Ok(in_known_order(targets?, &problem.spec.clusters))
}

fn candidate(snapshot: &Snapshot, previous: &Previous, gates: &Gates, place: u32, tier: u32) -> Candidate {
    let current = previous.at(place);
    let scores = current.is_some() && gates.plugins.has(Plugin::ClusterLocality);
    Candidate {
        place,
        group: snapshot.region(place as usize),
        tier,
        score: if scores { HOSTING } else { 0 },
        allocatable: 0,
        previous: current.unwrap_or(0),
    }
}

fn no_fit(snapshot: &Snapshot, filter: &Filter<'_, '_>) -> ScheduleError {
    let standing = (0_u32..).zip(snapshot.members()).filter(|(_, member)| !member.is_deleting());
    let refused = standing.filter_map(|(place, member)| Some((filter.check(place, member).err()?, &**member)));
    ScheduleError::NoFit { total: snapshot.len(), reasons: diagnosis(refused) }
}

fn is_static(placement: &Placement) -> bool {
    Strategy::of(placement) == Strategy::StaticWeight && ignores_constraints(placement)
}

/// Static weights give the same shares in any order, and the shares are sorted by name.
fn order_matters(problem: &Problem<'_>, gates: &Gates) -> bool {
    let weighted = matches!(Strategy::of(problem.placement), Strategy::DynamicWeight | Strategy::StaticWeight);
    !weighted || gates.empty_workload || !divides(problem.spec)
}

/// Whether replicas are divided; otherwise each selected cluster receives all of them.
fn divides(spec: &ResourceBindingSpec) -> bool {
    (spec.replicas > 0 || spec.replica_requirements.is_some()) && spec.components.len() <= 1
}

/// The input of the estimators for a binding.
pub fn demand<'a>(problem: &Problem<'a>, gates: &Gates) -> Demand<'a> {
    let spec = problem.spec;
    if spec.replicas == 0 && spec.components.is_empty() {
        Demand::Nothing
    } else if places_sets(spec, problem.placement, gates) {
        Demand::Sets(&spec.components)
    } else {
        Demand::replicas(spec.replica_requirements.as_ref())
    }
}

/// Returns the clusters that pass the filters of any term that may be tried, sorted by name: the estimators' estimates
/// of these matter. Empty where capacity does not matter.
pub fn clusters_to_estimate(problem: &Problem<'_>, snapshot: &Snapshot, gates: &Gates) -> Vec<String> {
    let terms = &problem.placement.cluster_affinities;
    let overflows = terms.iter().any(|term| !term.overflow_affinities.is_empty());
    if is_static(problem.placement) && !overflows {
        return Vec::new();
    }
    let names: Vec<&str> = match terms.as_slice() {
        [] => vec![problem.affinity_name],
        terms => terms.iter().map(|term| term.affinity_name.as_str()).collect(),
    };
    let previous = Previous::of(&problem.spec.clusters, snapshot);
    let mut passed = vec![false; snapshot.len()];
    for affinity_name in names {
        let trial = Problem { affinity_name, ..*problem };
        let tiers = Tiers::of(trial.placement, affinity_name, trial.is_workload(), snapshot);
        let filter = Filter::new(&trial, snapshot, gates, &tiers, &previous);
        for ((place, member), passed) in (0_u32..).zip(snapshot.members()).zip(&mut passed) {
            *passed |= !member.is_deleting() && filter.check(place, member).is_ok();
        }
    }
    let names = snapshot.members().iter().zip(passed).filter(|(_, passed)| *passed);
    names.map(|(member, _)| member.name().to_owned()).collect()
}

/// Sets the allocatable replicas of each candidate.
fn measure(problem: &Problem<'_>, snapshot: &Snapshot, gates: &Gates, sets: bool, candidates: &mut [Candidate]) {
    let demand = demand(problem, gates);
    debug_assert_eq!(sets, matches!(demand, Demand::Sets(_)));
    let has_demand = !matches!(demand, Demand::Nothing);
    // Without a limit, the cluster can take all replicas, and has that weight.
    let everything = i64::from(problem.spec.replicas);
    let stands_for_all = |capacity: i64| has_demand && !sets && capacity == UNLIMITED;
    let mut estimator = Estimator::new(demand, gates.resource_models);
    let without_estimates = problem.estimates.is_empty();
    for candidate in candidates {
        let place = candidate.place as usize;
        let lean = snapshot.glances().get(place).and_then(|glance| glance.lean.as_ref()).filter(|_| without_estimates);
        if let Some(capacity) = lean.and_then(|lean| estimator.at_a_glance(lean)) {
            candidate.allocatable = if stands_for_all(capacity) { everything } else { capacity };
            continue;
        }
        let Some(member) = snapshot.members().get(place) else { continue };
        let assumed = Assumed(problem.estimates.assumed(member.name()));
        let general = estimator.estimate(member.capacity(), assumed);
        let accurate = has_demand.then(|| problem.estimates.at_most(member.name())).flatten();
        let capacity = accurate.map_or(general, |at_most| general.min(at_most));
        candidate.allocatable = if stands_for_all(capacity) { everything } else { capacity };
    }
}

/// The selected clusters with their replicas.
pub(crate) fn targets(
    problem: &Problem<'_>,
    snapshot: &Snapshot,
    gates: &Gates,
    selected: &[Candidate],
    previous: &Previous,
    overflow: bool,
) -> Result<Vec<TargetCluster>, AssignError> {
    let spec = problem.spec;
    let name = |place: u32| snapshot.members().get(place as usize).map_or("", |member| member.name()).to_owned();
    if !divides(spec) {
        let components = components(problem, gates);
        let target =
            |it: &Candidate| TargetCluster { name: name(it.place), components: components.clone(), replicas: 0 };
        return Ok(selected.iter().map(target).collect());
    }
    let assignment = Assignment {
        strategy: Strategy::of(problem.placement),
        replicas: i64::from(spec.replicas),
        fresh: problem.is_fresh(),
        overflow,
        ties: Ties::of_uid(&spec.resource.uid),
        previous: &previous.ordered,
    };
    let weights = weights(problem.placement, snapshot);
    let mut shares = assign(&assignment, selected, |place| weight(&weights, snapshot, place))?;
    if gates.empty_workload {
        append_empty(&mut shares, selected);
    }
    let target = |(place, replicas): Share| TargetCluster {
        name: name(place),
        components: Vec::new(),
        replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
    };
    Ok(shares.into_iter().map(target).collect())
}

/// Appends selected clusters without replicas in the order of selection.
fn append_empty(shares: &mut Vec<Share>, selected: &[Candidate]) {
    let mut present: Vec<u32> = shares.iter().map(|(place, _)| *place).collect();
    present.sort_unstable();
    let missing = selected.iter().map(|it| it.place).filter(|place| present.binary_search(place).is_err());
    shares.extend(missing.map(|place| (place, 0)));
}

fn components(problem: &Problem<'_>, gates: &Gates) -> Vec<TargetComponent> {
    let components = &problem.spec.components;
    if components.len() <= 1 || !places_sets(problem.spec, problem.placement, gates) {
        return Vec::new();
    }
    components.iter().map(|it| TargetComponent { name: it.name.clone(), replicas: it.replicas }).collect()
}

fn weights<'a>(placement: &'a Placement, snapshot: &'a Snapshot) -> Vec<(Matcher<'a>, i64)> {
    let preference = placement.replica_scheduling.as_ref().and_then(|scheduling| scheduling.weight_preference.as_ref());
    let list = preference.map_or(&[][..], |preference| &preference.static_weight_list);
    list.iter().map(|entry| (Matcher::new(Affinity::from(&entry.target_cluster), snapshot), entry.weight)).collect()
}

/// The greatest weight of the matching entries.
fn weight(weights: &[(Matcher<'_>, i64)], snapshot: &Snapshot, place: u32) -> i64 {
    let Some(member) = snapshot.members().get(place as usize) else { return 0 };
    let matching = weights.iter().filter(|(affinity, _)| affinity.matches(place, member));
    matching.map(|(_, weight)| *weight).max().unwrap_or(0)
}

/// Keeps the previous order if the content is unchanged, so that no write is needed.
fn in_known_order(targets: Vec<TargetCluster>, last: &[TargetCluster]) -> Vec<TargetCluster> {
    if targets.len() != last.len() || targets == last {
        return targets;
    }
    let sorted = |targets: &[TargetCluster]| {
        let mut sorted: Vec<(usize, String)> = targets.iter().map(|it| it.name.clone()).enumerate().collect();
        sorted.sort_by(|left, right| left.1.cmp(&right.1));
        sorted.into_iter().map(|(index, _)| index).collect::<Vec<_>>()
    };
    let same = sorted(&targets).into_iter().zip(sorted(last)).all(|(new, old)| targets.get(new) == last.get(old));
    if same { last.to_vec() } else { targets }
}
