//! What the server publishes about itself: discovery, OpenAPI, its version.

pub mod discovery;
pub mod openapi;
pub mod version;
