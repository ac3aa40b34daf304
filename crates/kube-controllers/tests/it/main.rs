//! One binary for all integration tests: an API server with these controllers, on virtual time.

mod accounts;
mod certificates;
mod gc;
mod harness;
mod namespaces;
mod policy_types;
mod roles_and_jobs;
mod tokens_and_quotas;
mod volumes;
