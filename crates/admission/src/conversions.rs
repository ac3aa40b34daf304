//! Calls conversion webhooks of custom resources for the API server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apimachinery::{ObjectKey, Status};
use apiserver::Shared;
use apiserver::conversion::Caller;
use bytes::Bytes;
use client::webhooks::{ClientConfig, Webhooks};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::call::Line;

const AGENT: &str = "kube-apiserver";
/// Upstream's time-out; it cannot be configured.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends ConversionReviews over reused connections.
pub struct ConversionCalls {
    webhooks: Webhooks,
    /// For the Services that configurations name.
    server: Weak<Shared>,
}

impl ConversionCalls {
    /// `webhooks` opens the connections.
    pub fn new(webhooks: Webhooks, server: &Arc<Shared>) -> Self {
        Self { webhooks, server: Arc::downgrade(server) }
    }

    fn service(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        let Some(server) = self.server.upgrade() else { return Ok(None) };
        let found = server.cache.resource("core/services").get(&ObjectKey::namespaced(namespace, name))?;
        found.map(|service| service.to_value()).transpose().map_err(Status::internal)
    }
}

impl Caller for ConversionCalls {
    fn call<'a>(&'a self, config: &'a Value, review: Vec<u8>, limit: usize) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let config = ClientConfig::of(config);
            let line = Line::to(&config, &self.webhooks, |namespace, name| self.service(namespace, name))?;
            line.post((AGENT, review), TIMEOUT, limit).await
        })
    }
}
