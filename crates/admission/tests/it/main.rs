//! The plugin on an API server, with webhooks on a TLS server of the loopback interface.

mod audit;
mod conversions;
mod harness;
mod matrix;
mod mutating_policies;
mod objects;
mod policies;
mod replies;
mod rights;
mod sockets;
mod spans;
