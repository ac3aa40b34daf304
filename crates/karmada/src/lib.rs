//! The one binary as a library: assembling components into processes. `main.rs` only starts it.

pub mod access;
pub mod admission;
pub mod apiserver;
pub mod audit;
pub mod backups;
pub mod bootstrap;
pub mod certificates;
mod cli;
mod cluster_admission;
mod cluster_ids;
mod components;
pub mod data_dir;
pub mod demo;
pub mod engine;
pub mod flags;
mod logging;
pub mod member;
mod member_tokens;
pub mod metrics;
pub mod outage;
pub mod probes;
pub mod reach;
mod registration;
mod rights;
pub mod rules;
pub mod service_accounts;
pub mod serving;
pub mod simulated;
pub mod sockets;
pub mod up;
pub mod webhook;

pub use cli::run;
