//! The forms of requests and responses: bodies, media types, tables and metadata lists, compression.

pub(crate) mod body;
pub(crate) mod finish;
pub(crate) mod negotiate;
pub mod respond;
pub(crate) mod rows;
pub(crate) mod shape;
pub(crate) mod splice;
pub mod warnings;
