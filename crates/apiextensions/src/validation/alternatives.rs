//! The schemas of `anyOf` and `oneOf`: the one whose errors are reported.

use apimachinery::field::ErrorList;

/// The validation of a value by one schema of several.
pub(super) struct Attempt {
    pub errors: ErrorList,
    /// The number of checks that were made.
    pub checks: usize,
}

impl Attempt {
    pub fn succeeded(&self) -> bool {
        self.errors.is_empty()
    }

    /// The first that succeeded; otherwise the first with the most checks.
    pub fn decisive(tried: Vec<Self>) -> Option<Self> {
        let better = |best: Self, next: Self| match (best.succeeded(), next.succeeded()) {
            (false, true) => next,
            (false, false) if next.checks > best.checks => next,
            _ => best,
        };
        tried.into_iter().reduce(better)
    }
}
