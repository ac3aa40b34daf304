//! Project tasks as a library: what `cargo xtask` runs and what its tests check.

pub mod bench;
pub mod cases;
pub mod fuzz;
pub mod layers;
pub mod problems;
pub mod solve;
pub mod tidy;
