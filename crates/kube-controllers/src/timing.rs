//! Waits until a time of the API.

use std::time::Duration;

use apimachinery::meta::Time;

/// The time until then; `None` if it is past.
pub(crate) fn wait(at: Time, now: Time) -> Option<Duration> {
    Duration::try_from(at.timestamp().duration_since(now.timestamp())).ok().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_the_past_need_no_wait() {
        let at = |text: &str| Time::new(text.parse().expect("a time"));
        let now = at("2026-11-21T00:00:00Z");
        assert_eq!(wait(at("2026-11-21T00:00:01Z"), now), Some(Duration::from_secs(1)));
        assert_eq!(wait(now, now), None);
        assert_eq!(wait(at("2026-11-20T23:59:59Z"), now), None);
    }
}
