//! A cluster's free resources as it reports them, as numbers.

use apimachinery::quantity::Quantity;
use karmada_api::cluster::v1alpha1::{Cluster, ResourceSummary};
use karmada_api::kubernetes::ResourceList;
use smallvec::SmallVec;

use crate::fingerprint::Fingerprint;

const PODS: &str = "pods";
/// The pod limit of a node in a resource model.
pub(crate) const PODS_PER_NODE: i64 = 110;

/// The amount in the unit of estimates, rounded up: millicores of cpu, whole units of all other resources.
pub(crate) fn count(name: &str, amount: Quantity) -> i64 {
    if name == "cpu" { amount.milli_value() } else { amount.value() }
}

/// Whether nodes limit the resource. Nodes reject no pod for any other resource.
pub(crate) fn is_of_nodes(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || (name.contains('/') && !name.starts_with("requests."))
}

fn parsed(list: &ResourceList, name: &str) -> Quantity {
    list.get(name).and_then(|amount| amount.as_str().parse().ok()).unwrap_or_default()
}

/// The numbers that estimates need of a cluster; `None` inside when the cluster has not reported them.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    pub(crate) summary: Option<Summary>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// Pods that can still be added; negative when the cluster is overcommitted.
    pub pods: i64,
    /// The free amount of each resource of the cluster.
    pub left: Vec<(Box<str>, i64)>,
    pub models: Option<Models>,
}

impl Summary {
    pub fn left(&self, name: &str) -> Option<i64> {
        self.left.iter().find(|(known, _)| **known == *name).map(|(_, left)| *left)
    }
}

/// The number of nodes of each grade, the lowest grade first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    /// Nodes per grade.
    pub nodes: SmallVec<[i64; 9]>,
    pub grades: Grades,
    /// The fingerprint of the grades: most clusters have the same grades.
    pub alike: Fingerprint,
}

/// The least free resources of a node of each grade.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Grades {
    /// The resources of the grades.
    pub names: Vec<Box<str>>,
    /// For each grade, the amounts in the order of the names.
    pub amounts: Vec<Vec<i64>>,
}

/// The values that most estimates need, in one piece.
#[derive(Clone, Debug)]
pub(crate) struct Lean {
    pub pods: i64,
    pub alike: Fingerprint,
    pub nodes: SmallVec<[i64; 9]>,
}

impl Capacity {
    /// `None` without models: the estimate needs the summary.
    pub(crate) fn lean(&self) -> Option<Lean> {
        let summary = self.summary.as_ref()?;
        let models = summary.models.as_ref()?;
        Some(Lean { pods: summary.pods, alike: models.alike, nodes: models.nodes.clone() })
    }

    /// Parses the resource summary and the resource models of a cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let summary = cluster.status.resource_summary.as_ref().map(|summary| Summary {
            pods: left(summary, PODS),
            left: summary.allocatable.keys().map(|name| (name.as_str().into(), left(summary, name))).collect(),
            models: models(cluster, summary),
        });
        Self { summary }
    }
}

fn left(summary: &ResourceSummary, name: &str) -> i64 {
    let left =
        parsed(&summary.allocatable, name) - parsed(&summary.allocated, name) - parsed(&summary.allocating, name);
    count(name, left)
}

/// `None` when the models are absent or invalid: the summary counts instead.
fn models(cluster: &Cluster, summary: &ResourceSummary) -> Option<Models> {
    if summary.allocatable_modelings.is_empty() || cluster.spec.resource_models.is_empty() {
        return None;
    }
    let mut sorted: Vec<_> = cluster.spec.resource_models.iter().collect();
    sorted.sort_by_key(|model| model.grade);
    let mut grades = Grades::default();
    for range in sorted.iter().flat_map(|model| &model.ranges) {
        if !grades.names.iter().any(|known| **known == *range.name) {
            grades.names.push(range.name.as_str().into());
        }
    }
    let mut nodes = SmallVec::new();
    for model in sorted {
        let mut sum = 0_i64;
        for modeling in summary.allocatable_modelings.iter().filter(|modeling| modeling.grade == model.grade) {
            if modeling.count < 0 {
                return None;
            }
            sum = sum.saturating_add(modeling.count);
        }
        nodes.push(sum);
        let min = |name: &str| {
            let range = model.ranges.iter().find(|range| range.name == name)?;
            Some(count(name, range.min.as_str().parse().ok()?))
        };
        grades.amounts.push(grades.names.iter().map(|name| min(name).unwrap_or(0)).collect());
    }
    Some(Models { nodes, alike: Fingerprint::of(&grades), grades })
}
