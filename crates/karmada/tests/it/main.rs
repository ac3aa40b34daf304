//! The binary as its users see it.

mod cluster_proxy;
mod fleet;
mod crash;
mod journeys;
mod karmada_kinds;
mod kubectl;
mod plane;
mod process;
