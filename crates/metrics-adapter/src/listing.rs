//! The names of the members' metrics, for discovery: cached for a while, because API servers in front request them
//! every few seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_metrics::discovery::Listed;
use parking_lot::Mutex;

/// How long the names of a member are current.
const CURRENT: Duration = Duration::from_secs(30);

/// The names of one group.
#[derive(Default)]
pub(crate) struct Listing(Mutex<State>);

#[derive(Default)]
struct State {
    /// When they were read, in seconds since 1970.
    read: Option<i64>,
    by_cluster: BTreeMap<String, BTreeSet<Listed>>,
    is_complete: bool,
}

/// The metrics of a group over all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Their listed metrics.
    pub listed: BTreeSet<Listed>,
    /// Whether each member listed its metrics, now or before. Otherwise there may be more.
    pub is_complete: bool,
}

impl State {
    fn names(&self) -> Names {
        Names { listed: self.by_cluster.values().flatten().cloned().collect(), is_complete: self.is_complete }
    }
}

impl Listing {
    /// The names, if they are current.
    pub fn current(&self, now: i64) -> Option<Names> {
        let state = self.0.lock();
        let age = u64::try_from(now.saturating_sub(state.read?)).ok()?;
        (age < CURRENT.as_secs()).then(|| state.names())
    }

    /// Updates the names from the members' responses; members without a response (`None`) keep their previous names.
    pub fn read(&self, now: i64, answers: Vec<(String, Option<BTreeSet<Listed>>)>) -> Names {
        let mut state = self.0.lock();
        let mut before = std::mem::take(&mut state.by_cluster);
        state.is_complete = true;
        for (cluster, answer) in answers {
            match answer.or_else(|| before.remove(&cluster)) {
                Some(names) => drop(state.by_cluster.insert(cluster, names)),
                None => state.is_complete = false,
            }
        }
        state.read = Some(now);
        state.names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Option<BTreeSet<Listed>> {
        Some(names.iter().map(|it| ((*it).to_owned(), true)).collect())
    }

    fn names(of: &[&str], is_complete: bool) -> Names {
        Names { listed: listed(of).unwrap_or_default(), is_complete }
    }

    #[test]
    fn members_without_an_answer_keep_their_names() {
        let listing = Listing::default();
        assert_eq!(listing.current(0), None);
        let both = vec![("a".to_owned(), listed(&["pods/x"])), ("b".to_owned(), listed(&["pods/y"]))];
        assert_eq!(listing.read(100, both), names(&["pods/x", "pods/y"], true));
        assert_eq!(listing.current(129), Some(names(&["pods/x", "pods/y"], true)));
        assert_eq!(listing.current(130), None);
        let next = vec![("a".to_owned(), None), ("c".to_owned(), listed(&["pods/z"]))];
        assert_eq!(listing.read(130, next), names(&["pods/x", "pods/z"], true), "b has left");
        assert_eq!(listing.current(99), None, "the clock was set back");
        let unknown = vec![("a".to_owned(), listed(&[])), ("d".to_owned(), None)];
        assert_eq!(listing.read(140, unknown), names(&[], false), "d may have some");
    }
}
