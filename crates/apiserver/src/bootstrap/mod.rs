//! The objects that every server has from its first start.

pub mod objects;
pub mod policy;
