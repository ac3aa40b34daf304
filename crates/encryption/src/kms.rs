//! The settings of a key management service.

use std::time::Duration;

/// A key management service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kms {
    /// The name, in the prefix of its values.
    pub name: String,
    /// The path of its socket.
    pub socket: String,
    /// The time-out of a call.
    pub timeout: Duration,
}
