//! Project tasks as a library: what `cargo xtask` runs and what its tests check.

pub mod advisories;
pub mod bench;
pub mod cases;
pub mod circles;
pub mod fuzz;
pub mod layers;
pub mod problems;
pub mod promises;
pub mod solve;
pub mod third_party;
pub mod tidy;
pub mod words;
