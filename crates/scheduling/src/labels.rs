//! An index of the clusters' labels by key: a selector is evaluated once per value instead of once per cluster.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::selector::{Requirement, Selector};
use propagation::cluster::Affinity;
use smallvec::SmallVec;

use crate::snapshot::{Member, Snapshot};

/// A key gets a column when at least one cluster in this many has it, so a column is at most this many times as large
/// as its labels.
const SPARSEST: usize = 8;

/// The values of one label.
#[derive(Clone, Debug, Default)]
struct Column {
    values: Vec<String>,
    /// For each cluster the index of its value plus one; 0 without the label.
    of: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Labels(HashMap<String, Column>);

impl Labels {
    pub fn of(members: &[Arc<Member>]) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for key in members.iter().flat_map(|member| member.cluster().metadata.labels.keys()) {
            *counts.entry(key).or_default() += 1;
        }
        let frequent = counts.into_iter().filter(|(_, count)| count * SPARSEST >= members.len());
        Self(frequent.map(|(key, _)| (key.to_owned(), Column::of(key, members))).collect())
    }

    /// Which clusters of each column match; `None` when the selector uses a label without a column.
    fn tests(&self, selector: &Selector) -> Option<Tests<'_>> {
        let test = |requirement: &Requirement| {
            let column = self.0.get(requirement.key())?;
            let values = column.values.iter().map(|value| requirement.matches(Some(value)));
            Some((column.of.as_slice(), std::iter::once(requirement.matches(None)).chain(values).collect()))
        };
        // A selector that matches nothing has no requirements to evaluate.
        (!selector.requirements().is_empty()).then(|| selector.requirements().iter().map(test).collect())?
    }
}

impl Column {
    fn of(key: &str, members: &[Arc<Member>]) -> Self {
        let mut column = Self::default();
        let mut known: HashMap<&str, u32> = HashMap::new();
        for member in members {
            let place = member.cluster().metadata.labels.get(key).map_or(0, |value| {
                let next = u32::try_from(column.values.len() + 1).unwrap_or(u32::MAX);
                *known.entry(value.as_str()).or_insert_with(|| {
                    column.values.push(value.clone());
                    next
                })
            });
            column.of.push(place);
        }
        column
    }
}

/// For each requirement the column, and which of its values match.
type Tests<'a> = SmallVec<[(&'a [u32], SmallVec<[bool; 32]>); 2]>;

/// An affinity prepared for the clusters of a snapshot.
pub(crate) struct Matcher<'a> {
    affinity: Affinity<'a>,
    tests: Option<Tests<'a>>,
    /// The tests cover the whole affinity.
    labels_alone: bool,
}

impl<'a> Matcher<'a> {
    pub fn new(affinity: Affinity<'a>, snapshot: &'a Snapshot) -> Self {
        let tests = affinity.labels().and_then(|selector| snapshot.labels().tests(selector));
        let labels_alone = tests.is_some() && affinity.is_of_labels_alone();
        Self { affinity, tests, labels_alone }
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
        if let Some(tests) = self.tests.as_ref().filter(|_| self.labels_alone) {
            return tests.iter().all(passes);
        }
        let cluster = member.cluster();
        self.affinity.matches_with(cluster, |selector| match &self.tests {
            Some(tests) => tests.iter().all(passes),
            None => selector.matches(&cluster.metadata.labels),
        })
    }
}
