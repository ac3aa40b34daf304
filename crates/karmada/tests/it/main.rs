//! The binary as its users see it.

mod karmada_kinds;
mod kubectl;
mod process;
