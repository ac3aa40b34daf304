//! The API server's parts as their callers see them.

mod authn;
mod authz;
mod crds;
mod objects;
mod reviews;
mod serve;
