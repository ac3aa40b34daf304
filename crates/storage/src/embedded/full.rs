//! When a store without space logs it.

use std::time::Duration;

use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(60);

/// When it was last logged. Small writes may still succeed, so no write ends the report.
#[derive(Debug, Default)]
pub(super) struct Full(Option<Instant>);

impl Full {
    /// Whether a write without space at `now` is logged.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|logged| now.duration_since(logged) >= INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_logged_at_once_and_then_once_a_minute() {
        let (mut full, start) = (Full::default(), Instant::now());
        let due = |seconds: u64| full.is_due(start + Duration::from_secs(seconds));
        assert_eq!([0, 1, 59, 60, 61, 119, 121].map(due), [true, false, false, true, false, false, true]);
    }
}
