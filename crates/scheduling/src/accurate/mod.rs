//! The accurate estimator: how much more fits a member, going by its nodes, its pods and its quotas. Pure: the state is
//! fed object by object, and every question is answered from it at once.

mod node;
mod pods;
mod quota;
mod state;

use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};

pub use node::Node;
pub use pods::{new_replica_set, unschedulable_pods};
pub use quota::Quota;
pub use state::State;

use self::node::Rooms;
use crate::estimate::UNLIMITED;

/// What is switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `ResourceQuotaEstimate`: quotas of the namespace count.
    pub quotas: bool,
    /// `SchedulingOvercommitProtection`: what is on its way takes room.
    pub assumed: bool,
}

/// A workload on its way to the member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssumedWorkload {
    pub namespace: String,
    pub components: Vec<Component>,
}

/// Told what has been done, so that who has a clock can time it.
pub trait Watch {
    /// A plugin has answered.
    fn answered(&self, _plugin: &'static str) {}

    /// A part of the work is done.
    fn done(&self, _part: &'static str) {}
}

/// Nobody wants to know.
impl Watch for () {}

/// As metrics name the plugins.
const NODES: &str = "NodeResourceEstimator";
const QUOTAS: &str = "ResourceQuotaEstimator";

/// How many more replicas fit. Without requirements only the number of pods limits them.
pub fn replicas(
    state: &State,
    requirements: Option<&ReplicaRequirements>,
    assumed: &[AssumedWorkload],
    switches: Switches,
    watch: &dyn Watch,
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
    let mut rooms = Rooms::of(state);
    assumed.iter().for_each(|workload| {
        rooms.place(&workload.components);
    });
    let on_nodes = rooms.fits(&component);
    watch.answered(NODES);
    let namespace = requirements.map_or("", |it| it.namespace.as_str());
    let by_quota = by_quota(state, namespace, std::slice::from_ref(&component), assumed, switches);
    watch.answered(QUOTAS);
    on_nodes.min(by_quota).clamp(0, UNLIMITED)
}

/// How many times all components fit together.
pub fn component_sets(
    state: &State,
    namespace: &str,
    components: &[Component],
    assumed: &[AssumedWorkload],
    switches: Switches,
    watch: &dyn Watch,
) -> i64 {
    if state.nodes().next().is_none() {
        return 0;
    }
    let assumed = if switches.assumed { assumed } else { &[] };
    // First, for sets beyond the quota need not be placed.
    let most = by_quota(state, namespace, components, assumed, switches);
    watch.answered(QUOTAS);
    if components.iter().all(|component| component.replicas <= 0) {
        return most;
    }
    let mut rooms = Rooms::of(state);
    assumed.iter().for_each(|workload| {
        rooms.place(&workload.components);
    });
    // First fit depends on the order; the largest first often fits where the given order does not.
    let mut by_size: Vec<&Component> = components.iter().collect();
    by_size.sort_by_key(|component| std::cmp::Reverse(node::size(component)));
    let given = rooms.clone().sets(&components.iter().collect::<Vec<_>>(), most);
    let best = given.max(rooms.sets(&by_size, most));
    watch.answered(NODES);
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
