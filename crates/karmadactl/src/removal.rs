//! Waiting for the end of a deletion.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use tokio::time::Instant;

use crate::error::Error;

/// How often an object with finalizers is read.
pub const POLL: Duration = Duration::from_secs(1);

/// Reads an object every `poll` until it is gone, at most until `deadline`. Returns whether it is gone. `waiting` runs
/// before each pause.
///
/// # Errors
/// If the object cannot be read.
pub async fn is_gone_by(
    control: &Client,
    resource: &ApiResource,
    key: &ObjectKey,
    (poll, deadline): (Duration, Instant),
    waiting: impl Fn() + Send,
) -> Result<bool, Error> {
    loop {
        let found = control.get_opt(resource, key).await;
        if found.map_err(Error::client(format!("get {} {key}", resource.kind.to_lowercase())))?.is_none() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        waiting();
        tokio::time::sleep(poll).await;
    }
}
