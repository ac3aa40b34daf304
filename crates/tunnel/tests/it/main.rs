//! Both ends of a tunnel over a pipe.

mod broken;
mod member;
mod refused;
mod tunnels;
