//! What accurate estimators say, and what is on its way, as one.

use std::collections::BTreeMap;

use estimator::{Answer, Ask, Connections};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::Component;
use scheduling::estimate::Demand;
use scheduling::{Estimates, Gates, Problem, Snapshot};

use crate::assumptions::Others;
use crate::peers::Neighbours;
use crate::writes;

/// The room in each cluster whose estimator answered. All others are judged by their own summaries.
#[derive(Debug, Default)]
pub(crate) struct Answers(BTreeMap<String, i64>);

impl Answers {
    /// Asks about the clusters whose room matters to a binding that has to be scheduled.
    pub async fn of(
        estimators: &Connections,
        binding: &Binding,
        neighbours: &Neighbours,
        snapshot: &Snapshot,
        gates: &Gates,
    ) -> Self {
        let Some((clusters, ask)) = question(binding, neighbours, snapshot, gates) else { return Self::default() };
        let mut known = BTreeMap::new();
        for (cluster, answer) in estimators.ask(&clusters, &ask).await {
            match answer {
                Answer::Known(room) => drop(known.insert(cluster, room)),
                Answer::Unknown(why) => tracing::debug!(cluster, why, "an estimate is missing"),
            }
        }
        Self(known)
    }
}

/// Which clusters are asked what; none when room plays no part.
fn question(
    binding: &Binding,
    neighbours: &Neighbours,
    snapshot: &Snapshot,
    gates: &Gates,
) -> Option<(Vec<String>, Ask)> {
    if scheduling::needed(binding, snapshot, gates).is_none() && !writes::failed(binding) {
        return None;
    }
    let peers = neighbours.peers();
    let problem = Problem { peers: Some(&peers), ..Problem::of(binding)? };
    let ask = match scheduling::demand(&problem, gates) {
        Demand::Nothing => return None,
        Demand::Sets(components) => Ask::Sets {
            namespace: binding.spec.resource.namespace.clone(),
            components: components.to_vec(),
            assumed: Vec::new(),
        },
        Demand::Replicas(_) => {
            Ask::Replicas { requirements: binding.spec.replica_requirements.clone(), assumed: Vec::new() }
        }
    };
    let clusters = scheduling::roomy(&problem, snapshot, gates);
    (!clusters.is_empty()).then_some((clusters, ask))
}

/// Both together, as a decision wants them.
pub(crate) struct Known<'a> {
    pub answers: &'a Answers,
    pub others: Option<Others>,
}

impl Estimates for Known<'_> {
    fn at_most(&self, cluster: &str) -> Option<i64> {
        self.answers.0.get(cluster).copied()
    }

    fn assumed(&self, cluster: &str) -> &[Vec<Component>] {
        self.others.as_ref().map_or(&[], |others| others.assumed(cluster))
    }
}
