//! How long admission takes, by plugin and in all, with kube-apiserver's names.

use metrics::{Histograms, Registry};
use tokio::time::Instant;

use super::Operation;
use crate::metrics::admission::{PLUGIN, STEP};

/// The two phases of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// May change the object.
    Admit,
    /// May only refuse.
    Validate,
}

/// The families of one server.
#[derive(Clone, Debug)]
pub struct Durations {
    plugins: Histograms,
    steps: Histograms,
}

impl Durations {
    /// Counts in a registry.
    pub fn new(registry: &Registry) -> Self {
        Self { plugins: registry.histograms(&PLUGIN), steps: registry.histograms(&STEP) }
    }

    /// Records the duration of a plugin since `began`.
    pub fn plugin(&self, name: &str, (phase, operation): (Phase, Operation), rejected: bool, began: Instant) {
        self.plugins.took(&[name, type_of(phase), verb(operation), text(rejected)], began.elapsed());
    }

    pub(super) fn step(&self, (phase, operation): (Phase, Operation), rejected: bool, began: Instant) {
        self.steps.took(&[type_of(phase), verb(operation), text(rejected)], began.elapsed());
    }
}

fn type_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Admit => "admit",
        Phase::Validate => "validate",
    }
}

fn verb(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

fn text(rejected: bool) -> &'static str {
    if rejected { "true" } else { "false" }
}
