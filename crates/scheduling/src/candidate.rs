//! A cluster that may be chosen, and the order of preference.

/// A cluster that passed the filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// In the snapshot, which is in the order of names.
    pub place: u32,
    /// By the property clusters are spread over first; 0 for none. See [`crate::Snapshot::region`].
    pub group: u32,
    /// 0 for the affinity itself, then its overflow affinities.
    pub tier: u32,
    pub score: i64,
    /// How many more replicas fit.
    pub allocatable: i64,
    /// Replicas there now.
    pub previous: i64,
}

impl Candidate {
    /// Replicas the cluster can have in all.
    pub fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.previous)
    }
}

/// Best first: tier, score, room, name.
pub fn rank(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|left, right| {
        let key = |it: &Candidate| (it.tier, std::cmp::Reverse(it.score), std::cmp::Reverse(it.available()), it.place);
        key(left).cmp(&key(right))
    });
}

/// Sums do not overflow: hostile numbers saturate.
pub(crate) fn total(candidates: &[Candidate]) -> i64 {
    candidates.iter().fold(0, |sum, it| sum.saturating_add(it.available()))
}
