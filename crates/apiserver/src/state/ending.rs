//! The end of the watches of a server that shuts down: all at once, or spread over a period, so that their clients do
//! not all turn to the next server at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apimachinery::{Status, StatusReason};
use http::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use tokio_util::sync::CancellationToken;
use transport::{Request, Response};
use world::World;

use crate::limits::budget::Wire;
use crate::request::RequestInfo;
use crate::wire::respond;

/// Cancelled when watches have to end, with the period over which they do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    token: CancellationToken,
    /// Milliseconds.
    period: Arc<AtomicU64>,
}

impl Ending {
    /// Cancelled when watches have to end.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Ends watches within the period. Once they end, the period no longer changes for them.
    pub fn begin(&self, period: Duration) {
        self.period.store(u64::try_from(period.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
        self.token.cancel();
    }

    /// The moment of one watch within the period.
    pub fn share(&self, world: &World) -> Option<Share> {
        Some(Share { fraction: world.random_fraction(), period: Arc::clone(&self.period) })
    }
}

/// When a watch ends within the period.
pub(crate) struct Share {
    fraction: f64,
    period: Arc<AtomicU64>,
}

impl Share {
    /// The remaining duration of the watch.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.period.load(Ordering::Acquire)).mul_f64(self.fraction)
    }
}

/// The answer to a request over a socket while the server shuts down; `None` for health checks and callers in this
/// process.
pub(crate) fn refusal(info: &RequestInfo, request: &Request) -> Option<Response> {
    let health = ["/healthz", "/livez", "/readyz"].iter().any(|path| info.path.starts_with(path));
    if health || request.extensions().get::<Wire>().is_none() {
        return None;
    }
    let mut response = respond::failure(&Status::failure(
        StatusReason::TooManyRequests,
        "The apiserver is shutting down, please try again later.",
    ));
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    if request.version() < http::Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_end_within_the_period() {
        let world = World::system();
        let ending = Ending::default();
        let shares: Vec<Share> = (0..100).filter_map(|_| ending.share(&world)).collect();
        assert!(shares.iter().all(|share| share.wait().is_zero()), "nothing was announced");
        ending.begin(Duration::from_secs(10));
        assert!(ending.token().is_cancelled());
        let waits: Vec<Duration> = shares.iter().map(Share::wait).collect();
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(10)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait > Duration::from_secs(5)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait < Duration::from_secs(5)), "{waits:?}");
    }
}
