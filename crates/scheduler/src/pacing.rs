//! Pauses between failed passes; the time is an argument.

use std::time::Duration;

/// Time since some origin that all calls share.
pub type Moment = Duration;

/// The first pause doubles with each further failure of the same key, up to the longest. A bucket, if there is one,
/// holds failures of all keys together down.
#[derive(Clone, Debug, PartialEq)]
pub struct Pacing {
    pub first: Duration,
    pub longest: Duration,
    pub bucket: Option<Bucket>,
}

/// So many failures a second may be tried again, and so many at once after a quiet time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    since: Moment,
}

impl Default for Pacing {
    /// The defaults of upstream's priority queue.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(10), bucket: None }
    }
}

impl Pacing {
    /// The pause before a key may be processed again, even if it changes.
    pub fn pause(&self, attempts: u32) -> Duration {
        let doublings = 2_u32.saturating_pow(attempts.saturating_sub(1));
        self.first.checked_mul(doublings).unwrap_or(self.longest).min(self.longest)
    }

    /// The pause before a key is tried again.
    pub fn retry(&mut self, attempts: u32, now: Moment) -> Duration {
        let pause = self.pause(attempts);
        self.bucket.as_mut().map_or(pause, |bucket| bucket.take(now).max(pause))
    }
}

impl Bucket {
    /// `None` without a limit: a rate of zero.
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        let burst = f64::from(burst.max(1));
        (per_second > 0).then(|| Self { per_second: per_second.into(), burst, tokens: burst, since: Moment::ZERO })
    }

    /// Takes a token that may only be there later; answers how much later.
    fn take(&mut self, now: Moment) -> Duration {
        let passed = now.saturating_sub(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst) - 1.0;
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double() {
        let seconds = |attempts| Pacing::default().pause(attempts).as_secs();
        assert_eq!([0, 1, 2, 3, 4, 5, 99].map(seconds), [1, 1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_bucket_delays_simultaneous_failures() {
        let first = Duration::from_millis(5);
        let mut pacing = Pacing { first, longest: Duration::from_secs(1000), bucket: Bucket::new(10, 2) };
        let mut millis = |attempts, now| pacing.retry(attempts, Duration::from_millis(now)).as_millis();
        assert_eq!([millis(1, 0), millis(1, 0)], [5, 5], "the burst");
        assert_eq!([millis(1, 0), millis(1, 0)], [100, 200], "then ten a second");
        assert_eq!(millis(1, 300), 5, "the deficit is paid back");
        assert_eq!(millis(20, 10_000), 1_000_000, "long pauses stay");
        assert_eq!(Bucket::new(0, 100), None);
    }
}
