//! Bounds of reads from members.

use std::time::Duration;

use tokio::sync::Semaphore;

/// Members that are read at once, over all requests: with the time limit this is a bound on waiting tasks.
const AT_ONCE: usize = 64;
/// The time limit of one member: metrics adapters answer from memory, so a slower one is overloaded or unreachable.
const LIMIT: Duration = Duration::from_secs(10);

/// Limits the time of a read, and the reads at once.
pub struct Bounds {
    slots: Semaphore,
    limit: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self::within(LIMIT)
    }
}

impl Bounds {
    /// With a custom time limit.
    pub fn within(limit: Duration) -> Self {
        Self { slots: Semaphore::new(AT_ONCE), limit }
    }

    /// Runs a read of one member, once there is a slot. The limit counts from then.
    ///
    /// # Errors
    /// Those of the read, and that it took too long.
    pub async fn run<T, E: From<String>>(&self, read: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        match self.slots.acquire().await {
            Ok(_slot) => match tokio::time::timeout(self.limit, read).await {
                Ok(answer) => answer,
                Err(_) => Err(E::from(format!("no answer within {} s", self.limit.as_secs()))),
            },
            Err(_) => Err(E::from("the readings have ended".to_owned())),
        }
    }
}
