//! Upgraded connections: the client's and the other server's are joined until either ends.

use std::sync::Arc;

use apimachinery::{Status, StatusReason};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use transport::Response;

/// The limit of the HTTP server does not cover upgraded connections. One costs two sockets and two
/// buffers of 8 KiB: 1,000 stay below 2,048 file descriptors and 32 MiB.
const MAX_JOINED: usize = 1_000;

/// Permits to join connections, of one proxy.
#[derive(Clone, Debug)]
pub struct Joins(Arc<Semaphore>);

impl Default for Joins {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_JOINED)))
    }
}

impl Joins {
    /// # Errors
    /// 429 when all permits are taken.
    pub fn take(&self) -> Result<OwnedSemaphorePermit, Status> {
        let full = || {
            let message = format!("{MAX_JOINED} upgraded connections are open already, try again later");
            Status::failure(StatusReason::TooManyRequests, message)
        };
        self.0.clone().try_acquire_owned().map_err(|_| full())
    }
}

/// Joins the client's and the other server's connection once `response` has been sent. `server` is the name in logs.
pub fn join(server: &str, caller: OnUpgrade, response: &mut Response, permit: OwnedSemaphorePermit) {
    let other = hyper::upgrade::on(response);
    let server = server.to_owned();
    tokio::spawn(async move {
        let _permit = permit;
        let (caller, other) = match tokio::try_join!(caller, other) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%server, err = %error, "Connection cannot be upgraded"),
        };
        let (mut caller, mut other) = (TokioIo::new(caller), TokioIo::new(other));
        if let Err(error) = tokio::io::copy_bidirectional(&mut caller, &mut other).await {
            tracing::debug!(%server, err = %error, "Upgraded connection broke");
        }
    });
}
