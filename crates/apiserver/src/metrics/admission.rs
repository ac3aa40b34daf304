//! The durations of admission, with kube-apiserver's names.

use metrics::{Buckets, Description};

const BUCKETS: Buckets = Buckets::Listed(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5]);

/// By plugin.
pub const PLUGIN: Description = Description::histogram(
    "apiserver_admission_controller_admission_duration_seconds",
    &["name", "type", "operation", "rejected"],
    BUCKETS,
    "How long admission plugins took, by plugin; type is admit or validate.",
);
/// The duration of all plugins together.
pub const STEP: Description = Description::histogram(
    "apiserver_admission_step_admission_duration_seconds",
    &["type", "operation", "rejected"],
    BUCKETS,
    "How long all admission plugins together took; type is admit or validate.",
);
