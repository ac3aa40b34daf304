//! The fence of a leader: its writes are sent only while no other process can have taken its Lease.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

/// A time until which writes are allowed; clones share it. It is compared with the monotonic clock at each write, so a
/// process that stood still for longer sends none when it continues, whichever of its tasks runs first.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Instant,
    /// Microseconds after `origin`; 0 when the fence is closed.
    until: AtomicU64,
}

impl Fence {
    /// Writes are allowed until then.
    pub fn until(end: Instant) -> Self {
        let fence = Self(Arc::new(Inner { origin: Instant::now(), until: AtomicU64::new(0) }));
        fence.extend(end);
        fence
    }

    /// Allows writes for longer.
    pub fn extend(&self, end: Instant) {
        let micros = end.saturating_duration_since(self.0.origin).as_micros();
        self.0.until.store(u64::try_from(micros).unwrap_or(u64::MAX), SeqCst);
    }

    /// Allows no more writes.
    pub fn close(&self) {
        self.0.until.store(0, SeqCst);
    }

    /// Whether writes are allowed now.
    pub fn is_open(&self) -> bool {
        Instant::now() < self.end()
    }

    fn end(&self) -> Instant {
        self.0.origin + Duration::from_micros(self.0.until.load(SeqCst))
    }

    /// The result of a write, or `None` if writes ceased to be allowed before. A write in flight is cancelled; the fence is
    /// compared before each of its steps.
    pub(crate) async fn around<T>(&self, write: impl Future<Output = T>) -> Option<T> {
        let (mut write, mut end) = (pin!(write), pin!(tokio::time::sleep_until(self.end())));
        std::future::poll_fn(|context| {
            loop {
                if !self.is_open() {
                    return Poll::Ready(None);
                }
                if let Poll::Ready(done) = write.as_mut().poll(context) {
                    return Poll::Ready(Some(done));
                }
                if end.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                // It was extended meanwhile, or has ended.
                end.as_mut().reset(self.end());
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_ends_at_its_time_and_is_extended() {
        let second = Duration::from_secs(1);
        let fence = Fence::until(Instant::now() + second);
        assert!(fence.is_open());
        tokio::time::advance(second).await;
        assert!(!fence.is_open(), "the end is excluded");
        fence.extend(Instant::now() + second);
        assert!(fence.is_open());
        fence.close();
        assert!(!fence.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_in_flight_ends_with_the_fence() {
        let (second, begin) = (Duration::from_secs(1), Instant::now());
        let fence = Fence::until(begin + second);
        assert_eq!(fence.around(std::future::pending::<()>()).await, None);
        assert_eq!(begin.elapsed(), second);
        // Extended while the write is in flight.
        fence.extend(Instant::now() + second);
        let (extended, longer) = (fence.clone(), tokio::time::sleep(2 * second));
        tokio::spawn(async move {
            tokio::time::sleep(second / 2).await;
            extended.extend(Instant::now() + 5 * second);
        });
        assert_eq!(fence.around(longer).await, Some(()));
    }

    /// The process stands still while a write waits: the write would be ready when it continues.
    #[tokio::test(start_paused = true)]
    async fn a_write_makes_no_step_after_a_pause_that_outlasts_the_fence() {
        let second = Duration::from_secs(1);
        let fence = Fence::until(Instant::now() + second);
        let (sender, answer) = tokio::sync::oneshot::channel();
        let mut write = Box::pin(fence.around(answer));
        assert!(write.as_mut().now_or_never().is_none());
        sender.send(()).expect("the write waits");
        tokio::time::advance(2 * second).await;
        assert_eq!(write.as_mut().now_or_never(), Some(None));
    }
}
