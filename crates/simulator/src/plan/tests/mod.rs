//! Tables for Deployments: sets in, sizes and conditions out.

mod deployments;
