//! The server's published documents: discovery, OpenAPI, its version.

pub mod discovery;
pub mod openapi;
pub mod version;
