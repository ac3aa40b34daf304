//! The responses of accurate estimators, combined with assumed replicas.

use std::collections::BTreeMap;

use estimator::{Answer, Estimators, Query, Target};
use karmada_api::cluster::v1alpha1::SyncMode;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::Component;
use scheduling::estimate::Demand;
use scheduling::{Estimates, Gates, Problem, Snapshot};

use crate::assumptions::OtherAssumptions;
use crate::metrics::Counted;
use crate::peers::Neighbours;
use crate::writes;

/// The capacity of each cluster whose estimator responded. For all others their own summaries count.
#[derive(Debug, Default)]
pub(crate) struct Answers(BTreeMap<String, i64>);

/// The estimators and their options.
pub(crate) struct Source<'a> {
    pub estimators: &'a Estimators,
    /// `--disable-scheduler-estimator-in-pull-mode`.
    pub spare_pull: bool,
    pub counted: &'a Counted,
}

impl Source<'_> {
    /// Requests estimates of the clusters whose capacity matters to a binding that must be scheduled.
    pub async fn about(
        self,
        binding: &Binding,
        neighbours: &Neighbours,
        others: &OtherAssumptions,
        snapshot: &Snapshot,
        gates: &Gates,
    ) -> Answers {
        let Some((mut clusters, query)) = query_of(binding, neighbours, snapshot, gates) else {
            return Answers::default();
        };
        if self.spare_pull {
            clusters.retain(|name| snapshot.get(name).is_none_or(|it| it.cluster().spec.sync_mode != SyncMode::Pull));
        }
        let about = |cluster: String| {
            let target = Target { assumed: others.workloads(&cluster), cluster, ..Target::default() };
            let resource = &binding.spec.resource;
            target.about(&resource.kind, &resource.namespace, &resource.name)
        };
        let mut known = BTreeMap::new();
        for (cluster, answer) in self.estimators.query(clusters.into_iter().map(about).collect(), &query).await {
            match answer {
                Answer::Known(replicas) => drop(known.insert(cluster, replicas)),
                Answer::Unknown(why) => {
                    self.counted.unanswered();
                    tracing::debug!(cluster, reason = why, "Estimate is missing; the summary of the cluster is used");
                }
            }
        }
        Answers(known)
    }
}

/// The request for each cluster; `None` if capacity is irrelevant.
fn query_of(
    binding: &Binding,
    neighbours: &Neighbours,
    snapshot: &Snapshot,
    gates: &Gates,
) -> Option<(Vec<String>, Query)> {
    if scheduling::needed(binding, snapshot, gates).is_none() && !writes::failed(binding) {
        return None;
    }
    let peers = neighbours.peers();
    let problem = Problem { peers: Some(&peers), ..Problem::of(binding)? };
    let query = match scheduling::demand(&problem, gates) {
        Demand::Nothing => return None,
        Demand::Sets(components) => {
            Query::Sets { namespace: binding.spec.resource.namespace.clone(), components: components.to_vec() }
        }
        Demand::Replicas(_) => Query::Replicas { requirements: binding.spec.replica_requirements.clone() },
    };
    let clusters = scheduling::clusters_to_estimate(&problem, snapshot, gates);
    (!clusters.is_empty()).then_some((clusters, query))
}

/// Both kinds of estimates, as input of a decision.
pub(crate) struct Known<'a> {
    pub answers: &'a Answers,
    pub others: Option<OtherAssumptions>,
}

impl Estimates for Known<'_> {
    fn at_most(&self, cluster: &str) -> Option<i64> {
        self.answers.0.get(cluster).copied()
    }

    fn assumed(&self, cluster: &str) -> &[Vec<Component>] {
        self.others.as_ref().map_or(&[], |others| others.assumed(cluster))
    }

    fn is_empty(&self) -> bool {
        self.answers.0.is_empty() && self.others.is_none()
    }
}
