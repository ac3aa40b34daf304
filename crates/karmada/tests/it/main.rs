//! The binary as its users see it.

mod bad_input;
mod cluster_proxy;
mod components;
mod crash;
mod explain;
mod explain_placement;
mod fleet;
mod journeys;
mod karmada_kinds;
mod karmadactl_get;
mod karmadactl_join;
mod kube_rs;
mod kube_rs_controller;
mod kubectl;
mod kubectl_matrix;
mod member;
mod metrics;
mod names;
mod plane;
mod process;
mod python;
mod reference;
mod scenarios;
mod search;
mod transcript;
mod webhook;
