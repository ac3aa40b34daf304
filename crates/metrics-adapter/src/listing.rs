//! The names of the members' metrics, for discovery: kept for a while, since API servers in front request them every few seconds.

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
}

impl Listing {
    /// The names, if they are current.
    pub fn current(&self, now: i64) -> Option<BTreeSet<Listed>> {
        let state = self.0.lock();
        let age = u64::try_from(now.saturating_sub(state.read?)).ok()?;
        (age < CURRENT.as_secs()).then(|| union(&state.by_cluster))
    }

    /// Takes in what members answered; those without an answer (`None`) keep the names that they listed before.
    pub fn read(&self, now: i64, answers: Vec<(String, Option<BTreeSet<Listed>>)>) -> BTreeSet<Listed> {
        let mut state = self.0.lock();
        let mut before = std::mem::take(&mut state.by_cluster);
        for (cluster, answer) in answers {
            if let Some(names) = answer.or_else(|| before.remove(&cluster)) {
                state.by_cluster.insert(cluster, names);
            }
        }
        state.read = Some(now);
        union(&state.by_cluster)
    }
}

fn union(by_cluster: &BTreeMap<String, BTreeSet<Listed>>) -> BTreeSet<Listed> {
    by_cluster.values().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Option<BTreeSet<Listed>> {
        Some(names.iter().map(|it| ((*it).to_owned(), true)).collect())
    }

    #[test]
    fn members_without_an_answer_keep_their_names() {
        let listing = Listing::default();
        assert_eq!(listing.current(0), None);
        let both = vec![("a".to_owned(), names(&["pods/x"])), ("b".to_owned(), names(&["pods/y"]))];
        assert_eq!(listing.read(100, both), names(&["pods/x", "pods/y"]).unwrap_or_default());
        assert_eq!(listing.current(129), names(&["pods/x", "pods/y"]));
        assert_eq!(listing.current(130), None);
        let next = vec![("a".to_owned(), None), ("c".to_owned(), names(&["pods/z"]))];
        assert_eq!(Some(listing.read(130, next)), names(&["pods/x", "pods/z"]), "b has left");
        assert_eq!(listing.current(99), None, "the clock was set back");
    }
}
