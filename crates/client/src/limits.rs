//! A token bucket for requests, and counters of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::{ApiResource, GroupVersionResource};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Limits requests to `rate` per second on average and `burst` at once. Waiters are served in the order of their
/// arrival.
#[derive(Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: Duration,
    /// The time at which the bucket is full again ("theoretical arrival time").
    full_at: Mutex<Option<Instant>>,
}

impl TokenBucket {
    /// A rate that is not positive means no limit, and returns `None`.
    pub fn new(rate: f64, burst: u32) -> Option<Self> {
        (rate > 0.0 && rate.is_finite()).then(|| {
            let interval = Duration::from_secs_f64(1.0 / rate.max(1e-6));
            Self { interval, burst: interval * burst.max(1), full_at: Mutex::new(None) }
        })
    }

    /// Takes one token, waiting until one is available.
    pub async fn acquire(&self) {
        let now = Instant::now();
        let start = {
            let mut full_at = self.full_at.lock();
            let next = full_at.unwrap_or(now).max(now) + self.interval;
            *full_at = Some(next);
            // Checked: `next` is at most one interval after an instant that may be the clock's minimum.
            next.checked_sub(self.burst).unwrap_or(now)
        };
        if start > now {
            tokio::time::sleep_until(start).await;
        }
    }
}

/// The number of requests of one verb for one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount {
    /// The verb.
    pub verb: &'static str,
    /// `deployments.apps`, or the path for raw requests.
    pub resource: String,
    /// The number of requests.
    pub count: u64,
}

type Verbs = BTreeMap<&'static str, u64>;

/// The requests by plural, group and verb.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<String, BTreeMap<String, Verbs>>>);

impl Counters {
    pub(crate) fn add(&self, verb: &'static str, resource: &ApiResource) {
        let mut counts = self.0.lock();
        if let Some(verbs) = counts.get_mut(&resource.plural).and_then(|groups| groups.get_mut(&resource.group)) {
            *verbs.entry(verb).or_default() += 1;
            return;
        }
        let groups = counts.entry(resource.plural.clone()).or_default();
        *groups.entry(resource.group.clone()).or_default().entry(verb).or_default() += 1;
    }

    pub(crate) fn read(&self) -> Vec<RequestCount> {
        let mut found = Vec::new();
        for (plural, groups) in &*self.0.lock() {
            for (group, verbs) in groups {
                let resource = GroupVersionResource::new(group, "", plural).group_resource();
                let row = |(verb, count): (&&'static str, &u64)| RequestCount {
                    verb,
                    resource: resource.clone(),
                    count: *count,
                };
                found.extend(verbs.iter().map(row));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_burst_is_immediate_and_then_the_rate_limits() {
        let bucket = TokenBucket::new(10.0, 3).expect("a limit");
        let start = Instant::now();
        for _ in 0..3 {
            bucket.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        bucket.acquire().await;
        assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
        assert!(TokenBucket::new(0.0, 1).is_none());
    }
}
