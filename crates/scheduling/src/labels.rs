//! An index of the clusters' labels by key: a selector is evaluated once per value instead of once per cluster.

use std::collections::{BTreeMap, HashMap};

use apimachinery::selector::{Requirement, Selector};
use smallvec::SmallVec;

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
    /// The index of the labels of each cluster.
    pub fn of(clusters: &[&BTreeMap<String, String>]) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for key in clusters.iter().flat_map(|labels| labels.keys()) {
            *counts.entry(key).or_default() += 1;
        }
        let frequent = counts.into_iter().filter(|(_, count)| count * SPARSEST >= clusters.len());
        Self(frequent.map(|(key, _)| (key.to_owned(), Column::of(key, clusters))).collect())
    }

    /// Which clusters of each column match; `None` when the selector uses a label without a column.
    pub fn tests(&self, selector: &Selector) -> Option<Tests<'_>> {
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
    fn of(key: &str, clusters: &[&BTreeMap<String, String>]) -> Self {
        let mut column = Self::default();
        let mut known: HashMap<&str, u32> = HashMap::new();
        for labels in clusters {
            let place = labels.get(key).map_or(0, |value| {
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
pub(crate) type Tests<'a> = SmallVec<[(&'a [u32], SmallVec<[bool; 32]>); 2]>;
