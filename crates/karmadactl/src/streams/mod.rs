//! Streams of a member's pods through the cluster proxy: logs over HTTP, commands over WebSocket.

pub mod exec;
pub mod logs;
mod pods;
mod session;
mod starting;
mod terminal;
