//! Project tasks as a library: the commands of `cargo xtask` and the checks of its tests.

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
