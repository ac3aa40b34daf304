//! The general estimator: how many more replicas fit a cluster, from the cluster's own report.

use apimachinery::quantity::Quantity;
use karmada_api::kubernetes::ResourceList;
use karmada_api::work::v1alpha2::{Component, ComponentReplicaRequirements, ReplicaRequirements, ResourceBindingSpec};
use smallvec::SmallVec;

use crate::capacity::{Capacity, Grades, Lean, Models, PODS_PER_NODE, Summary, count, is_of_nodes};
use crate::fingerprint::Fingerprint;
use crate::nodes::Nodes;

/// The estimate without a limit.
pub const UNLIMITED: i64 = i32::MAX as i64;

/// The positive requests of one replica, in the units of estimates.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    amounts: SmallVec<[(&'a str, i64); 4]>,
}

impl<'a> Request<'a> {
    /// The requests in a resource list.
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

/// The input of an estimate.
#[derive(Clone, Debug)]
pub enum Demand<'a> {
    /// The workload uses no capacity.
    Nothing,
    /// Replicas with these requests; without requests only the number of pods counts.
    Replicas(Option<Request<'a>>),
    /// Complete sets of components with their replicas.
    Sets(&'a [Component]),
}

impl<'a> Demand<'a> {
    /// The demand of replicas with these requirements.
    pub fn replicas(requirements: Option<&'a ReplicaRequirements>) -> Self {
        Self::Replicas(requirements.map(|it| Request::of(&it.resource_request)))
    }
}

/// Replicas added to a workload with one template, as estimates subtract them.
pub fn added(spec: &ResourceBindingSpec, replicas: i32) -> Vec<Component> {
    if replicas <= 0 {
        return Vec::new();
    }
    let replica_requirements = spec.replica_requirements.as_ref().map(|requirements| ComponentReplicaRequirements {
        node_claim: requirements.node_claim.clone(),
        priority_class_name: requirements.priority_class_name.clone(),
        resource_request: requirements.resource_request.clone(),
    });
    vec![Component { name: spec.resource.name.clone(), replica_requirements, replicas }]
}

/// Workloads assigned to a cluster whose report may not include them yet, each with its components.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assumed<'a>(pub &'a [Vec<Component>]);

impl<'a> Assumed<'a> {
    fn components(self) -> impl Iterator<Item = &'a Component> {
        self.0.iter().flatten().filter(|component| component.replicas > 0)
    }

    fn pods(self) -> i64 {
        self.components().map(|component| i64::from(component.replicas)).sum()
    }

    fn amount(self, name: &str) -> i64 {
        let amounts = self.components().filter_map(|component| {
            let amount: Quantity =
                component.replica_requirements.as_ref()?.resource_request.get(name)?.as_str().parse().ok()?;
            Some(count(name, amount).saturating_mul(component.replicas.into()))
        });
        amounts.fold(0, i64::saturating_add)
    }
}

/// How many replicas fit a node of each grade, cached for one list of grades.
type OnNodes = Option<(Fingerprint, SmallVec<[i64; 9]>)>;

/// Estimates one demand, cluster by cluster.
#[derive(Debug)]
pub struct Estimator<'a> {
    demand: Demand<'a>,
    /// Resource models count where a cluster has them.
    models: bool,
    /// Assumed workloads count in the summary too, not only on the nodes.
    in_sums: bool,
    /// The result for the most recent grades.
    on_nodes: OnNodes,
}

impl<'a> Estimator<'a> {
    /// An estimator of one demand; `models` enables resource models (`CustomizedClusterResourceModeling`).
    pub fn new(demand: Demand<'a>, models: bool) -> Self {
        Self { demand, models, in_sums: true, on_nodes: None }
    }

    /// As upstream without `SchedulingOvercommitProtection`: assumed workloads fill the nodes of models with either
    /// value of the gate.
    #[must_use]
    pub(crate) fn assuming_only_on_nodes(self) -> Self {
        Self { in_sums: false, ..self }
    }

    /// [`Self::estimate`] for a cluster with the most recent grades and no assumed workloads; `None` for others.
    pub(crate) fn at_a_glance(&self, capacity: &Lean) -> Option<i64> {
        let (alike, on_nodes) = self.on_nodes.as_ref()?;
        let fits = self.models && *alike == capacity.alike && matches!(self.demand, Demand::Replicas(Some(_)));
        fits.then(|| capacity.pods.min(on_all(&capacity.nodes, on_nodes)).clamp(0, UNLIMITED))
    }

    /// Returns how many more replicas fit a cluster: 0 to [`UNLIMITED`].
    pub fn estimate(&mut self, capacity: &Capacity, assumed: Assumed<'_>) -> i64 {
        if matches!(self.demand, Demand::Nothing) {
            return UNLIMITED;
        }
        let Some(summary) = &capacity.summary else { return 0 };
        let models = summary.models.as_ref().filter(|_| self.models);
        let in_sums = if self.in_sums { assumed } else { Assumed::default() };
        let pods = summary.pods.saturating_sub(in_sums.pods());
        let capacity = ClusterCapacity { summary, models, assumed, in_sums };
        match (&self.demand, models) {
            _ if pods <= 0 => 0,
            (Demand::Nothing | Demand::Replicas(None), _) => pods,
            (Demand::Replicas(Some(request)), Some(models)) if assumed.0.is_empty() => {
                pods.min(by_grade(&mut self.on_nodes, models, request))
            }
            (Demand::Replicas(Some(request)), _) => capacity.replicas(pods, request),
            (Demand::Sets(components), _) => capacity.sets(pods, components),
        }
        .clamp(0, UNLIMITED)
    }
}

/// Each node fits as many replicas as the minimum of its grade allows. The same result as [`Nodes::fits`], without
/// nodes.
fn by_grade(met: &mut OnNodes, models: &Models, request: &Request<'_>) -> i64 {
    let known = met.take().filter(|(alike, _)| *alike == models.alike);
    let (_, on_nodes) = met.insert(known.unwrap_or_else(|| (models.alike, on_nodes(&models.grades, request))));
    on_all(&models.nodes, on_nodes)
}

fn on_all(nodes: &[i64], on_nodes: &[i64]) -> i64 {
    let grades = nodes.iter().zip(on_nodes);
    grades.fold(0, |sum, (nodes, on_node)| sum.saturating_add(nodes.saturating_mul(*on_node)))
}

fn on_nodes(grades: &Grades, request: &Request<'_>) -> SmallVec<[i64; 9]> {
    let place = |name: &str| grades.names.iter().position(|known| **known == *name);
    let of_nodes = request.amounts().iter().filter(|(name, _)| is_of_nodes(name));
    let amounts = of_nodes.map(|(name, amount)| Some((place(name)?, *amount)));
    let Some(needs) = amounts.collect::<Option<SmallVec<[(usize, i64); 4]>>>() else { return SmallVec::new() };
    let on_node = |amounts: &Vec<i64>| {
        let fitting = needs.iter().map(|(place, amount)| amounts.get(*place).map_or(0, |has| has / amount));
        fitting.fold(PODS_PER_NODE, i64::min)
    };
    grades.amounts.iter().map(on_node).collect()
}

struct ClusterCapacity<'a> {
    summary: &'a Summary,
    models: Option<&'a Models>,
    assumed: Assumed<'a>,
    in_sums: Assumed<'a>,
}

impl ClusterCapacity<'_> {
    /// How many times the amount fits the free resources of the summary.
    fn fits(&self, name: &str, amount: i64) -> i64 {
        let left = self.summary.left(name).unwrap_or(0);
        let left = if self.in_sums.0.is_empty() { left } else { left.saturating_sub(self.in_sums.amount(name)) };
        left.max(0) / amount.max(1)
    }

    fn replicas(&self, pods: i64, request: &Request<'_>) -> i64 {
        let Some(models) = self.models else {
            return request.amounts().iter().map(|(name, amount)| self.fits(name, *amount)).fold(pods, i64::min);
        };
        let mut nodes = Nodes::empty(models);
        for workload in self.assumed.0 {
            nodes.place(workload);
        }
        pods.min(nodes.fits(request.amounts()))
    }

    fn sets(&self, pods: i64, components: &[Component]) -> i64 {
        let pods_per_set: i64 = components.iter().map(|component| i64::from(component.replicas.max(0))).sum();
        if pods_per_set == 0 {
            return pods;
        }
        let amounts = of_all(components);
        let fitting = amounts.iter().map(|(name, amount)| self.fits(name, count(name, *amount)));
        let bound = fitting.fold(pods / pods_per_set, i64::min);
        let Some(models) = self.models else { return bound };
        let mut nodes = Nodes::empty(models);
        for workload in self.assumed.0 {
            nodes.place(workload);
        }
        nodes.sets(components, bound)
    }
}

/// The sum of one set's requests.
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
