//! The API server's parts as their callers see them.

mod authn;
mod authz;
mod reviews;
mod serve;
mod objects;
