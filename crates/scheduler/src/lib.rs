//! The scheduler: a queue of bindings, a plan by the pure `scheduling` crate, one write per decision.
