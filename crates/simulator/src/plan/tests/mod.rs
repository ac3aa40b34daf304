//! Deployments as tables: sets in, sizes and conditions out.

mod deployments;
