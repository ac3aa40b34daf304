//! The controllers against real API servers in this process: one control plane, two members, virtual time.

mod clusters;
mod dependencies;
mod harness;
mod journey;
mod network;
mod simulation;
mod webhooks;
