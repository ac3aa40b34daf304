//! Matches affinities with clusters.

use propagation::cluster::Affinity;
use smallvec::SmallVec;

use crate::labels::Tests;
use crate::snapshot::{Member, Snapshot};

/// An affinity prepared for the clusters of a snapshot.
pub(crate) struct Matcher<'a> {
    affinity: Affinity<'a>,
    tests: Option<Tests<'a>>,
    /// The tests cover the whole affinity.
    labels_only: bool,
}

impl<'a> Matcher<'a> {
    pub fn new(affinity: Affinity<'a>, snapshot: &'a Snapshot) -> Self {
        let tests = affinity.labels().and_then(|selector| snapshot.labels().tests(selector));
        let labels_only = tests.is_some() && affinity.uses_only_labels();
        Self { affinity, tests, labels_only }
    }

    /// The only clusters that can match; `None` when any cluster can.
    pub fn listed(&self) -> Option<&[&'a str]> {
        self.affinity.listed()
    }

    pub fn matches(&self, place: u32, member: &Member) -> bool {
        let passes = |(column, pass): &(&[u32], SmallVec<[bool; 32]>)| {
            let value = column.get(place as usize).copied().unwrap_or_default();
            pass.get(value as usize).copied().unwrap_or(false)
        };
        if let Some(tests) = self.tests.as_ref().filter(|_| self.labels_only) {
            return tests.iter().all(passes);
        }
        let cluster = member.cluster();
        self.affinity.matches_with(cluster, |selector| match &self.tests {
            Some(tests) => tests.iter().all(passes),
            None => selector.matches(&cluster.metadata.labels),
        })
    }
}
