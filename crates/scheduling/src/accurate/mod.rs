//! The accurate estimator: how many more replicas fit a member, computed from its nodes, pods and quotas. Pure: the
//! caller feeds the state object by object; each query is answered from the state.

mod node;
mod pods;
mod quota;
mod state;

use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};

pub use node::Node;
pub use pods::{new_replica_set, unschedulable_pods};
pub use quota::Quota;
pub use state::State;

use self::node::FreeNodes;
use crate::estimate::UNLIMITED;

/// The feature gates that change estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `ResourceQuotaEstimate`: ResourceQuotas of the namespace limit the estimate.
    pub quotas: bool,
    /// `SchedulingOvercommitProtection`: assumed workloads consume capacity.
    pub assumed: bool,
}

/// A workload that is scheduled to the member but not yet visible there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssumedWorkload {
    /// The namespace whose quotas apply.
    pub namespace: String,
    /// The components with their replicas.
    pub components: Vec<Component>,
}

/// Observes the progress of an estimate. The shell measures the time between calls.
pub trait Observer {
    /// A plugin finished.
    fn plugin_finished(&self, _plugin: &'static str) {}

    /// A step of the work finished.
    fn step_finished(&self, _part: &'static str) {}
}

/// Ignores all observations.
impl Observer for () {}

/// Plugin names as metrics show them.
const NODES: &str = "NodeResourceEstimator";
const QUOTAS: &str = "ResourceQuotaEstimator";

/// Returns how many more replicas fit. Without requirements only the number of pods limits them.
pub fn replicas(
    state: &State,
    requirements: Option<&ReplicaRequirements>,
    assumed: &[AssumedWorkload],
    switches: Switches,
    observer: &dyn Observer,
) -> i64 {
    if state.nodes().next().is_none() {
        return 0;
    }
    let assumed = if switches.assumed { assumed } else { &[] };
    let component = Component {
        name: String::new(),
        replicas: 1,
        replica_requirements: requirements.map(|it| karmada_api::work::v1alpha2::ComponentReplicaRequirements {
            node_claim: it.node_claim.clone(),
            priority_class_name: it.priority_class_name.clone(),
            resource_request: it.resource_request.clone(),
        }),
    };
    let mut free_nodes = FreeNodes::of(state);
    assumed.iter().for_each(|workload| {
        free_nodes.place(&workload.components);
    });
    let on_nodes = free_nodes.fits(&component);
    observer.plugin_finished(NODES);
    let namespace = requirements.map_or("", |it| it.namespace.as_str());
    let by_quota = by_quota(state, namespace, std::slice::from_ref(&component), assumed, switches);
    observer.plugin_finished(QUOTAS);
    on_nodes.min(by_quota).clamp(0, UNLIMITED)
}

/// Returns how many more complete sets of components fit.
pub fn component_sets(
    state: &State,
    namespace: &str,
    components: &[Component],
    assumed: &[AssumedWorkload],
    switches: Switches,
    observer: &dyn Observer,
) -> i64 {
    if state.nodes().next().is_none() {
        return 0;
    }
    let assumed = if switches.assumed { assumed } else { &[] };
    // Quotas first: sets beyond the quota need not be placed.
    let most = by_quota(state, namespace, components, assumed, switches);
    observer.plugin_finished(QUOTAS);
    if components.iter().all(|component| component.replicas <= 0) {
        return most;
    }
    let mut free_nodes = FreeNodes::of(state);
    assumed.iter().for_each(|workload| {
        free_nodes.place(&workload.components);
    });
    // First fit depends on the order. Placing the largest component first often succeeds where the given order fails.
    let mut by_size: Vec<&Component> = components.iter().collect();
    by_size.sort_by_key(|component| std::cmp::Reverse(node::size(component)));
    let in_order = free_nodes.clone().sets(&components.iter().collect::<Vec<_>>(), most);
    let best = in_order.max(free_nodes.sets(&by_size, most));
    observer.plugin_finished(NODES);
    best.clamp(0, UNLIMITED)
}

fn by_quota(
    state: &State,
    namespace: &str,
    components: &[Component],
    assumed: &[AssumedWorkload],
    switches: Switches,
) -> i64 {
    if !switches.quotas || namespace.is_empty() {
        return UNLIMITED;
    }
    let bounds = state.quotas(namespace).map(|quota| quota.bound(namespace, components, assumed));
    bounds.fold(UNLIMITED, i64::min)
}
