//! A circuit breaker for estimators that do not respond. The caller passes the time.

use std::time::Duration;

/// Consecutive failures that open it.
const FAILURES: u32 = 3;
/// How long it stays open at first; doubles with each failed attempt.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    until: Option<Duration>,
}

impl Breaker {
    /// Whether to call now. After the pause one call is allowed; others wait for its result.
    pub fn allows(&mut self, now: Duration) -> bool {
        match self.until {
            Some(until) if now < until => false,
            Some(_) => {
                self.until = Some(now + FIRST);
                true
            }
            None => true,
        }
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    pub fn failed(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        if let Some(beyond) = self.failures.checked_sub(FAILURES) {
            let pause = FIRST.checked_mul(2_u32.saturating_pow(beyond)).unwrap_or(LONGEST).min(LONGEST);
            self.until = Some(now + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_breaker_opens_waits_and_probes_again() {
        let at = Duration::from_secs;
        let mut breaker = Breaker::default();
        for second in 0..3 {
            assert!(breaker.allows(at(second)));
            breaker.failed(at(second));
        }
        assert!(!breaker.allows(at(6)));
        assert!(breaker.allows(at(7)), "one trial after the pause");
        assert!(!breaker.allows(at(7)), "and no more than one");
        breaker.failed(at(8));
        assert!(!breaker.allows(at(17)));
        assert!(breaker.allows(at(18)), "the second pause is twice as long");
        breaker.succeeded();
        assert_eq!(breaker, Breaker::default());
    }
}
