//! The binary as its users see it.

mod kubectl;
mod process;
