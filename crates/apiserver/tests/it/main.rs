//! The API server's parts as their callers see them.

mod authz;
mod serve;
