//! Replaces the credentials of a connection while it is in use.

use std::sync::Arc;

use parking_lot::RwLock;
use tower::ServiceExt as _;
use transport::Request;

use super::Service;
use crate::{Client, Transport};

/// Replaces the connection of a client. Requests in flight, including watches, continue on the previous connection.
#[derive(Clone)]
pub struct Switch(Arc<RwLock<Service>>);

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Switch(..)")
    }
}

impl Client {
    /// The same connection with a switch; `None` for a server in this process.
    pub fn switchable(&self) -> Option<(Self, Switch)> {
        let Transport::Remote(service) = &self.0.transport else { return None };
        let switch = Switch(Arc::new(RwLock::new(service.clone())));
        let current = Arc::clone(&switch.0);
        let service = tower::service_fn(move |request: Request| current.read().clone().oneshot(request));
        Some((self.changed(|inner| inner.transport = Transport::Remote(Service::new(service))), switch))
    }
}

impl Switch {
    /// Sends further requests over the connection of `other`, which reaches the same server.
    pub fn to(&self, other: &Client) {
        if let Transport::Remote(service) = &other.0.transport {
            *self.0.write() = service.clone();
        }
    }
}
