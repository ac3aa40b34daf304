//! Observations of the clusters during a decision, for its explanation.

use crate::candidate::Candidate;
use crate::filter::Rejection;

/// Observations of one attempt; each attempt starts with empty ones.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// By place.
    pub rejected: Vec<(u32, Rejection)>,
    /// By place.
    pub candidates: Vec<Candidate>,
    /// The places, sorted.
    pub selected: Vec<u32>,
}

impl Trace {
    pub fn start(&mut self) {
        *self = Self::default();
    }

    pub fn reject(&mut self, place: u32, rejection: Rejection) {
        self.rejected.push((place, rejection));
    }

    pub fn measured(&mut self, candidates: &[Candidate]) {
        self.candidates = candidates.to_vec();
    }

    pub fn selected(&mut self, selected: &[Candidate]) {
        self.selected = selected.iter().map(|it| it.place).collect();
        self.selected.sort_unstable();
    }
}
