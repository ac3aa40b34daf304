//! Truncation of large events: first they lose their objects, then they are dropped.

use crate::Event;

/// Added to an event that has lost its objects.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// Limits in bytes of encoded events (`--audit-*-truncate-*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The limit of one event.
    pub event: usize,
    /// The limit of the events in a batch.
    pub batch: usize,
}

impl Default for Limits {
    /// Upstream's: 100 KiB and 10 MiB.
    fn default() -> Self {
        Self { event: 102_400, batch: 10_485_760 }
    }
}

impl Limits {
    /// The encoded event, without its objects if it is too large with them; `None` if it is too large nevertheless.
    pub fn encode(self, event: &Event, encode: fn(&Event) -> String) -> Option<String> {
        let whole = encode(event);
        if whole.len() <= self.event {
            return Some(whole);
        }
        let mut rest = event.clone();
        (rest.request_object, rest.response_object) = (None, None);
        rest.annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
        Some(encode(&rest)).filter(|text| text.len() <= self.event)
    }

    /// Splits encoded events into batches that are not too large.
    pub fn batches(self, events: Vec<String>) -> Vec<Vec<String>> {
        let (mut batches, mut size) = (Vec::<Vec<String>>::new(), 0);
        for event in events {
            match batches.last_mut().filter(|_| size + event.len() <= self.batch) {
                Some(batch) => {
                    size += event.len();
                    batch.push(event);
                }
                None => {
                    size = event.len();
                    batches.push(vec![event]);
                }
            }
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::Level;

    #[test]
    fn a_large_event_loses_its_objects_and_a_larger_one_is_left_out() {
        let mut event = Event::new(Level::RequestResponse, "a".to_owned(), Timestamp::UNIX_EPOCH);
        event.request_object = Some(json!("x".repeat(1_000)));
        let encode = |limit: usize| Limits { event: limit, batch: 0 }.encode(&event, Event::to_json);
        assert!(encode(2_000).is_some_and(|text| text.contains("xxx") && !text.contains(TRUNCATED)));
        assert!(encode(500).is_some_and(|text| !text.contains("xxx") && text.contains(TRUNCATED)));
        assert_eq!(encode(100), None);
    }

    #[test]
    fn batches_stay_below_the_limit() {
        let limits = Limits { event: 10, batch: 10 };
        let sizes = |sizes: &[usize]| -> Vec<Vec<usize>> {
            let batches = limits.batches(sizes.iter().map(|size| "x".repeat(*size)).collect());
            batches.iter().map(|batch| batch.iter().map(String::len).collect()).collect()
        };
        assert_eq!(sizes(&[4, 6, 1, 9, 5, 10]), [vec![4, 6], vec![1, 9], vec![5], vec![10]]);
        assert_eq!(sizes(&[]), Vec::<Vec<usize>>::new());
    }
}
