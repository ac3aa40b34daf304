//! Explains a decision cluster by cluster.

use std::collections::HashMap;

use karmada_api::work::v1alpha2::TargetCluster;

use crate::decide::{Decision, decide_traced};
use crate::problem::{Gates, Problem};
use crate::snapshot::{Member, Snapshot};
use crate::trace::Trace;

/// The result for a cluster in the last term that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The cluster's name.
    pub cluster: String,
    /// The cluster is in the result.
    pub chosen: bool,
    /// Replicas in the result.
    pub replicas: i64,
    /// The cluster passed the spread constraints.
    pub selected: bool,
    /// `None` for clusters that passed the filters, and for clusters that are being deleted, which no filter examines.
    pub rejected_by: Option<RejectedBy>,
    /// Only for clusters that passed the filters.
    pub numbers: Option<Numbers>,
}

/// The filter that rejected a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedBy {
    /// The plugin's name.
    pub plugin: &'static str,
    /// The message of the condition.
    pub reason: String,
    /// The field that would have to change.
    pub field: String,
}

/// The numbers by which feasible clusters are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The sum of the score plugins.
    pub score: i64,
    /// How many more replicas fit.
    pub allocatable: i64,
    /// Allocatable and assigned replicas together.
    pub available: i64,
    /// 0 for the affinity itself, then the index of its overflow affinity.
    pub overflow_order: u32,
}

/// Makes the decision of [`crate::decide`] and reports the outcome for each cluster, sorted by name.
pub fn explain(problem: &Problem<'_>, snapshot: &Snapshot, gates: &Gates) -> (Decision, Vec<Verdict>) {
    let mut trace = Trace::default();
    let decision = decide_traced(problem, snapshot, gates, Some(&mut trace));
    let members = (0_u32..).zip(snapshot.members());
    let targets = decision.clusters.as_deref().unwrap_or_default();
    let targets = targets.iter().map(|target| (target.name.as_str(), target)).collect();
    let verdicts = members.map(|(place, member)| verdict(&trace, place, member, &targets)).collect();
    (decision, verdicts)
}

fn verdict(trace: &Trace, place: u32, member: &Member, targets: &HashMap<&str, &TargetCluster>) -> Verdict {
    let target = targets.get(member.name());
    // Both lists are sorted by place.
    let rejection = trace.rejected.binary_search_by_key(&place, |(rejected, _)| *rejected);
    let rejection = rejection.ok().and_then(|index| trace.rejected.get(index));
    let candidate = trace.candidates.binary_search_by_key(&place, |candidate| candidate.place);
    let candidate = candidate.ok().and_then(|index| trace.candidates.get(index));
    Verdict {
        cluster: member.name().to_owned(),
        chosen: target.is_some(),
        replicas: target.map_or(0, |target| target.replicas.into()),
        selected: trace.selected.binary_search(&place).is_ok(),
        rejected_by: rejection.map(|(_, rejection)| RejectedBy {
            plugin: rejection.plugin().name(),
            reason: rejection.reason(member),
            field: rejection.field(),
        }),
        numbers: candidate.map(|it| Numbers {
            score: it.score,
            allocatable: it.allocatable,
            available: it.available(),
            overflow_order: it.tier,
        }),
    }
}
