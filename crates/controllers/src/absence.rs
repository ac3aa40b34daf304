//! Reads of objects whose absence has consequences.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::Client;

use crate::error::{During, Result};

/// The server's state of an object; `None` only if the server returned that this object does not exist. A 404 of an
/// intermediary, such as a load balancer without a backend, is an error.
pub(crate) async fn certain(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Arc<Object>>> {
    match client.get(resource, key).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_absence_of(key.name()) => Ok(None),
        Err(error) => Err(error).during(|| format!("reading {} {key}", resource.kind)),
    }
}
