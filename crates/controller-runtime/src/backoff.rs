//! Growing pauses with jitter between attempts at one thing.

use std::time::Duration;

use world::World;

/// Doubles from `base` up to `max`; each pause is extended by up to half, so that clients of a failed server do not
/// reconnect simultaneously.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: 0 }
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The pause after one more failure.
    pub fn next(&mut self, world: &World) -> Duration {
        let pause = exponential(self.base, self.max, self.failures);
        self.failures = self.failures.saturating_add(1);
        pause.mul_f64(1.0 + world.random_fraction() / 2.0)
    }
}

/// `base * 2^failures`, at most `max`.
pub(crate) fn exponential(base: Duration, max: Duration, failures: u32) -> Duration {
    base.checked_mul(2u32.saturating_pow(failures)).unwrap_or(max).min(max)
}
