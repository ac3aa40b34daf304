//! The general estimator: how much more fits a cluster, going by what the cluster reports about itself.

use apimachinery::quantity::Quantity;
use karmada_api::kubernetes::ResourceList;
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use smallvec::SmallVec;

use crate::capacity::{Capacity, Models, PODS_PER_NODE, Summary, count};

/// The answer when nothing limits the number.
pub const UNLIMITED: i64 = i32::MAX as i64;

/// What one replica needs, in the units of estimates. Only what is more than nothing.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    amounts: SmallVec<[(&'a str, i64); 4]>,
}

impl<'a> Request<'a> {
    pub fn of(list: &'a ResourceList) -> Self {
        let amounts = list.iter().filter_map(|(name, amount)| {
            let amount: Quantity = amount.as_str().parse().ok()?;
            (amount.value() > 0).then(|| (name.as_str(), count(name, amount)))
        });
        Self { amounts: amounts.collect() }
    }

    pub(crate) fn amounts(&self) -> &[(&'a str, i64)] {
        &self.amounts
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Demand<'a> {
    /// Nothing that takes room.
    Nothing,
    /// Replicas with these requests; pods alone count when there are none.
    Replicas(Option<Request<'a>>),
    /// All components together, with their replicas.
    Sets(&'a [Component]),
}

impl<'a> Demand<'a> {
    pub fn replicas(requirements: Option<&'a ReplicaRequirements>) -> Self {
        Self::Replicas(requirements.map(|it| Request::of(&it.resource_request)))
    }
}

/// How much more fits, never below zero and at most [`UNLIMITED`].
pub fn estimate(capacity: &Capacity, demand: &Demand<'_>, models: bool) -> i64 {
    let Some(summary) = &capacity.summary else {
        return if matches!(demand, Demand::Nothing) { UNLIMITED } else { 0 };
    };
    match demand {
        Demand::Nothing => UNLIMITED,
        Demand::Replicas(request) => replicas(summary, request.as_ref(), models),
        Demand::Sets(components) => sets(summary, components),
    }
    .clamp(0, UNLIMITED)
}

fn replicas(summary: &Summary, request: Option<&Request<'_>>, models: bool) -> i64 {
    if summary.pods <= 0 {
        return 0;
    }
    let Some(request) = request else { return summary.pods };
    if models && let Some(models) = &summary.models {
        return summary.pods.min(by_grade(models, request));
    }
    let fitting = request.amounts.iter().map(|(name, amount)| match summary.left(name) {
        Some(left) if left > 0 => left / amount,
        _ => 0,
    });
    fitting.fold(summary.pods, i64::min)
}

/// Each node of a grade takes what fits the least the grade promises.
fn by_grade(models: &Models, request: &Request<'_>) -> i64 {
    let mut places: SmallVec<[(usize, i64); 4]> = SmallVec::new();
    for (name, amount) in request.amounts() {
        let Some(place) = models.names.iter().position(|known| **known == **name) else { return 0 };
        places.push((place, *amount));
    }
    let on_node = |amounts: &[i64]| {
        let fitting = places.iter().map(|(place, amount)| amounts.get(*place).map_or(0, |has| has / amount));
        fitting.fold(PODS_PER_NODE, i64::min)
    };
    models.grades.iter().fold(0, |sum, grade| sum.saturating_add(grade.nodes.saturating_mul(on_node(&grade.amounts))))
}

fn sets(summary: &Summary, components: &[Component]) -> i64 {
    if summary.pods <= 0 {
        return 0;
    }
    let pods_per_set: i64 = components.iter().map(|component| i64::from(component.replicas.max(0))).sum();
    if pods_per_set == 0 {
        return summary.pods;
    }
    let bound = summary.pods / pods_per_set;
    of_all(components).iter().fold(bound, |bound, (name, amount)| match summary.left(name) {
        Some(left) if left > 0 => bound.min(left / count(name, *amount).max(1)),
        _ => 0,
    })
}

/// What one set needs in all.
fn of_all(components: &[Component]) -> Vec<(&str, Quantity)> {
    let mut total: Vec<(&str, Quantity)> = Vec::new();
    for component in components {
        let Some(requirements) = &component.replica_requirements else { continue };
        for (name, amount) in &requirements.resource_request {
            let Ok(amount) = amount.as_str().parse::<Quantity>() else { continue };
            let amount = amount.times(i64::from(component.replicas.max(0)));
            match total.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum = *sum + amount,
                None => total.push((name, amount)),
            }
        }
    }
    total.retain(|(_, amount)| !amount.is_zero() && !amount.is_negative());
    total
}
