//! The scheduler on a control plane of its own.
