//! The controllers against real API servers in this process: one control plane, two members, virtual time.

mod by_hand;
mod claims;
mod clusters;
mod contest;
mod copies;
mod definitions;
mod dependencies;
mod evictions;
mod failover;
mod failures;
mod harness;
mod identities;
mod journey;
mod log;
mod network;
mod order;
mod proxy_rights;
mod quotas;
mod rebalancer;
mod reinterpreting;
mod restored;
mod scaling;
mod scaling_load;
mod services;
mod simulation;
mod stale;
mod tokens;
mod webhooks;

/// The binary's, so that the processor time of `failover::leaving` is that of users.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
