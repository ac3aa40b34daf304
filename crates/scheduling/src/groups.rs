//! Groups of clusters to spread over.

use std::collections::BTreeSet;

use karmada_api::policy::v1alpha1::{Placement, SpreadField};

use crate::candidate::Candidate;
use crate::problem::Bounds;
use crate::snapshot::{Member, Snapshot};

/// A property that groups clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy<'a> {
    Region,
    Provider,
    /// The first zone of a cluster: a cluster is in one group.
    Zone,
    /// A label of the cluster.
    Label(&'a str),
}

impl<'a> GroupBy<'a> {
    fn of_field(field: SpreadField) -> Option<Self> {
        match field {
            SpreadField::Cluster => None,
            SpreadField::Region => Some(Self::Region),
            SpreadField::Provider => Some(Self::Provider),
            SpreadField::Zone => Some(Self::Zone),
        }
    }

    /// The group of a cluster; empty if it has none.
    pub fn value(self, member: &'a Member) -> &'a str {
        let cluster = member.cluster();
        match self {
            Self::Region => &cluster.spec.region,
            Self::Provider => &cluster.spec.provider,
            Self::Zone => cluster.spec.zones.first().map_or("", String::as_str),
            Self::Label(key) => cluster.metadata.labels.get(key).map_or("", String::as_str),
        }
    }

    /// The name in error messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Provider => "provider",
            Self::Zone => "zone",
            Self::Label(_) => "label",
        }
    }
}

/// The spread constraints by group of a placement, the primary one first: region, provider, zone, then labels in the
/// order of the list. The last constraint by a property counts.
pub(crate) fn constraints<'a>(placement: &'a Placement, all: bool) -> Vec<(GroupBy<'a>, Bounds)> {
    let fields = [SpreadField::Region, SpreadField::Provider, SpreadField::Zone];
    let fields = if all { &fields[..] } else { &fields[..1] };
    let by_field = |field: &SpreadField| Some((GroupBy::of_field(*field)?, Bounds::of(placement, *field)?));
    let mut found: Vec<(GroupBy<'a>, Bounds)> = fields.iter().filter_map(by_field).collect();
    let labels = placement.spread_constraints.iter().filter(|it| all && !it.spread_by_label.is_empty());
    for constraint in labels {
        let (by, bounds) = (GroupBy::Label(&constraint.spread_by_label), Bounds::of_constraint(constraint));
        match found.iter_mut().find(|(known, _)| *known == by) {
            Some((_, known)) => *known = bounds,
            None => found.push((by, bounds)),
        }
    }
    found
}

/// Group numbers: for each candidate the index of its group's name, from 1 on; 0 without a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    pub what: &'static str,
    pub bounds: Bounds,
    /// Place and group of each candidate, sorted by place.
    of: Vec<(u32, u32)>,
}

impl Grouping {
    pub fn new(by: GroupBy<'_>, bounds: Bounds, candidates: &[Candidate], snapshot: &Snapshot) -> Self {
        let value =
            |place: u32| snapshot.members().get(place as usize).map_or("", |member| by.value(member)).to_owned();
        let values: Vec<(u32, String)> = candidates.iter().map(|it| (it.place, value(it.place))).collect();
        let names: BTreeSet<&str> = values.iter().map(|(_, name)| name.as_str()).filter(|it| !it.is_empty()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let number = |name: &str| {
            let found = names.binary_search(&name).ok();
            found.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
        };
        let mut of: Vec<(u32, u32)> = values.iter().map(|(place, name)| (*place, number(name))).collect();
        of.sort_unstable();
        Self { what: by.name(), bounds, of }
    }

    pub fn at(&self, place: u32) -> u32 {
        let found = self.of.binary_search_by_key(&place, |(place, _)| *place).ok();
        found.and_then(|index| self.of.get(index)).map_or(0, |(_, group)| *group)
    }
}
