//! The base of every reconciler: shared caches, keyed queues with back-off, events.
//!
//! The crate is independent of Karmada. Time is tokio's, randomness and wall time the [`world::World`]'s.

mod backoff;
mod cache;
mod events;
mod failures;
mod informer;
mod informer_set;
mod keys;
mod leader;
pub mod metrics;
mod overlay;
mod queue;
mod reach;
mod short_polls;
mod worker;

pub use backoff::Backoff;
pub use cache::Cache;
pub use events::{EventRecorder, EventSubject, EventType, Involved};
pub use failures::Failures;
pub use informer::{Event, Informer, Selection};
pub use informer_set::InformerSet;
pub use leader::{LeaderElection, Leading};
pub use overlay::{Acknowledged, Origin, Overlay};
pub use queue::{Backlog, Priority, QueueMetrics, WorkQueue};
pub use reach::{Caller, Reach};
pub use short_polls::ShortPolls;
pub use worker::{Controller, Next, Subject, run_workers};
