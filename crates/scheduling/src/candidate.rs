//! Candidate clusters and their order of preference.

/// A cluster that passed the filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its index in the snapshot, which is sorted by name.
    pub place: u32,
    /// The group by the first spread property; 0 without a group. See [`crate::Snapshot::region`].
    pub group: u32,
    /// 0 for the affinity itself, then the index of its overflow affinity.
    pub tier: u32,
    pub score: i64,
    /// How many more replicas fit.
    pub allocatable: i64,
    /// Replicas in the previous result.
    pub previous: i64,
}

impl Candidate {
    /// Allocatable and previous replicas together.
    pub fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.previous)
    }
}

/// Sorts by tier, score, available replicas and name; the best is first.
pub fn rank(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|left, right| {
        let key = |it: &Candidate| (it.tier, std::cmp::Reverse(it.score), std::cmp::Reverse(it.available()), it.place);
        key(left).cmp(&key(right))
    });
}

/// Saturates: a hostile spec must not overflow the sum.
pub(crate) fn total(candidates: &[Candidate]) -> i64 {
    candidates.iter().fold(0, |sum, it| sum.saturating_add(it.available()))
}
