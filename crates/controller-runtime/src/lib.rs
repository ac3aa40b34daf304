//! What every reconciler stands on: shared caches, keyed queues with back-off, events, leader election.
