//! Recently written events, and how much each object has been reported; pure.
//!
//! Contents are remembered by their hashes: 64 bits under a key of this process. Of 4,096 remembered events a new one
//! is taken for a repeat once in 10^15 times.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use apimachinery::ObjectKey;
use tokio::time::Instant;
use transport::{EventDraft, EventPart};

use super::content::{combined, content, subject};

/// Events remembered for counting repeats (client-go's cache has 4096).
const REMEMBERED: usize = 4096;

/// Per object and component, as client-go's spam filter: 25 at once, then one every five minutes.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_REFILL: Duration = Duration::from_secs(300);

/// Events that differ only in their messages are combined from so many messages on, unless there was none of them for
/// this time (client-go's aggregation).
const SIMILAR: usize = 10;
const SIMILAR_FOR: Duration = Duration::from_secs(600);

/// The content of an event without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest(u64);

/// An object and a component that reports on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source(u64);

pub(super) struct Seen {
    pub key: ObjectKey,
    pub count: u64,
    pub last: jiff::Timestamp,
    /// The last message, of an event that combines others.
    pub message: Option<String>,
    unwritten: bool,
}

/// An event that waits to be written.
pub(super) struct Pending {
    pub draft: EventDraft,
    /// Whether it reverses the last outcome of its attempt.
    pub is_turn: bool,
}

/// An event, or the one in its place that combines it with similar ones.
pub(super) struct Correlated {
    pub event: EventDraft,
    pub digest: Digest,
    is_combined: bool,
    is_turn: bool,
}

/// The messages of similar events, by their hashes.
struct Similar {
    messages: Vec<u64>,
    last: jiff::Timestamp,
}

#[derive(Default)]
pub(super) struct Memory {
    hasher: RandomState,
    seen: HashMap<Digest, Seen>,
    order: VecDeque<Digest>,
    /// By the digest of the combining event.
    similar: HashMap<Digest, Similar>,
    /// In the order of their first events.
    similar_order: VecDeque<Digest>,
    /// Repeats that reverse the last outcome of their attempt.
    turns: Vec<Digest>,
    tokens: HashMap<Source, (f64, Instant)>,
    /// So many buckets are worth looking for full ones.
    sweep_at: usize,
}

impl Memory {
    fn digest(&self, event: &EventDraft) -> Digest {
        Digest(self.hasher.hash_one(content(event)))
    }

    /// Combines an event with similar ones if there are many.
    pub fn correlate(&mut self, pending: Pending) -> Correlated {
        let Pending { draft: event, is_turn } = pending;
        let combining = Digest(self.hasher.hash_one(subject(&event)));
        let message = self.hasher.hash_one(event.text(EventPart::Message));
        if !self.similar.contains_key(&combining) {
            if self.similar_order.len() >= REMEMBERED
                && let Some(oldest) = self.similar_order.pop_front()
            {
                self.similar.remove(&oldest);
            }
            self.similar_order.push_back(combining);
        }
        let similar = self.similar.entry(combining).or_insert(Similar { messages: Vec::new(), last: event.at });
        if event.at.duration_since(similar.last).unsigned_abs() > SIMILAR_FOR {
            similar.messages.clear();
        }
        similar.last = event.at;
        let is_known = similar.messages.contains(&message);
        if is_known || similar.messages.len() + 1 < SIMILAR {
            similar.messages.extend((!is_known).then_some(message));
            let digest = self.digest(&event);
            return Correlated { event, digest, is_combined: false, is_turn };
        }
        Correlated { event: combined(&event), digest: combining, is_combined: true, is_turn }
    }

    pub fn source(&self, event: &EventDraft) -> Source {
        Source(self.hasher.hash_one((event.text(EventPart::Uid), &*event.component)))
    }

    /// Whether the event is a repeat, which is then counted.
    pub fn repeat(&mut self, correlated: &Correlated) -> bool {
        let Correlated { event, digest, is_combined, is_turn } = correlated;
        let Some(seen) = self.seen.get_mut(digest) else { return false };
        seen.count += 1;
        seen.last = event.at;
        seen.unwritten = true;
        if *is_combined {
            seen.message = Some(event.text(EventPart::Message).to_owned());
        }
        self.turns.extend(is_turn.then_some(*digest));
        true
    }

    pub fn remember(&mut self, digest: Digest, at: jiff::Timestamp, key: ObjectKey) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.order.push_back(digest);
        self.seen.insert(digest, Seen { key, count: 1, last: at, message: None, unwritten: false });
    }

    /// Events that were repeated since the last call.
    pub fn unwritten(&mut self) -> impl Iterator<Item = &Seen> {
        self.seen.values_mut().filter_map(|seen| std::mem::take(&mut seen.unwritten).then_some(&*seen))
    }

    /// Those of the unwritten events whose outcome readers expect to be the last one.
    pub fn turned(&mut self) -> Vec<&Seen> {
        for digest in &self.turns {
            if let Some(seen) = self.seen.get_mut(digest) {
                seen.unwritten = false;
            }
        }
        let turned: HashSet<Digest> = self.turns.drain(..).collect();
        turned.iter().filter_map(|digest| self.seen.get(digest)).collect()
    }

    /// Takes a token of the object's bucket.
    pub fn allow(&mut self, source: Source, now: Instant) -> bool {
        // Looking through all of them costs a share of each event only: next time there are twice as many as are left.
        // 100 events a second leave 30,000 within the five minutes it takes to refill one.
        if self.tokens.len() >= self.sweep_at.max(REMEMBERED) {
            self.tokens.retain(|_, (tokens, at)| refilled(*tokens, *at, now) < OBJECT_BURST);
            self.sweep_at = 2 * self.tokens.len();
        }
        let bucket = self.tokens.entry(source).or_insert((OBJECT_BURST, now));
        let tokens = refilled(bucket.0, bucket.1, now);
        let allowed = tokens >= 1.0;
        *bucket = (if allowed { tokens - 1.0 } else { tokens }, now);
        allowed
    }
}

fn refilled(tokens: f64, at: Instant, now: Instant) -> f64 {
    let more = now.saturating_duration_since(at).as_secs_f64() / OBJECT_REFILL.as_secs_f64();
    (tokens + more).min(OBJECT_BURST)
}

#[cfg(test)]
mod tests {
    use super::super::{EventSubject as _, EventType, Involved, draft};
    use super::*;

    fn waiting(draft: EventDraft) -> Pending {
        Pending { draft, is_turn: false }
    }

    fn involved() -> Involved {
        Involved { uid: "u".into(), name: "n".into(), ..Involved::default() }
    }

    fn event(
        involved: &Involved,
        type_: EventType,
        reason: &'static str,
        message: &str,
        component: &str,
    ) -> EventDraft {
        draft(involved.identity(), type_, reason, message, component.into(), jiff::Timestamp::UNIX_EPOCH)
    }

    fn simple(message: &str) -> EventDraft {
        event(&involved(), EventType::Normal, "R", message, "c")
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_events_are_counted_and_bursts_are_dropped() {
        let mut memory = Memory::default();
        let at = jiff::Timestamp::UNIX_EPOCH;
        let (a, b) = (memory.correlate(waiting(simple("a"))), memory.correlate(waiting(simple("b"))));
        assert!(!memory.repeat(&a));
        memory.remember(a.digest, at, ObjectKey::cluster("n.1"));
        assert_eq!(memory.unwritten().count(), 0, "it was written with its first count");
        let newer = event(&Involved { resource_version: "9".into(), ..involved() }, EventType::Normal, "R", "a", "c");
        let newer = memory.correlate(waiting(newer));
        assert!(memory.repeat(&newer) && !memory.repeat(&b));
        assert_eq!(
            memory.unwritten().map(|seen| (seen.key.to_string(), seen.count)).collect::<Vec<_>>(),
            [("n.1".to_owned(), 2)]
        );
        assert_eq!(memory.unwritten().count(), 0, "once");
        let source = memory.source(&simple("x"));
        let allowed = (0..40).filter(|_| memory.allow(source, Instant::now())).count();
        assert_eq!(allowed, 25);
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(memory.allow(source, Instant::now()) && !memory.allow(source, Instant::now()));
    }

    #[test]
    fn a_repeat_that_reverses_the_outcome_is_urgent() {
        let mut memory = Memory::default();
        let mut turned = |is_turn: bool| {
            let event = memory.correlate(Pending { draft: simple("m"), is_turn });
            if !memory.repeat(&event) {
                memory.remember(event.digest, jiff::Timestamp::UNIX_EPOCH, ObjectKey::cluster("n.1"));
            }
            (memory.turned().len(), memory.unwritten().count())
        };
        assert_eq!([turned(true), turned(true), turned(false)], [(0, 0), (1, 0), (0, 1)]);
    }

    #[test]
    fn events_differ_in_all_but_time_and_version() {
        let memory = Memory::default();
        let of = |change: fn(&mut Involved)| {
            let mut involved = involved();
            change(&mut involved);
            memory.digest(&event(&involved, EventType::Normal, "R", "m", "c"))
        };
        let same = of(|_| ());
        assert_eq!(of(|it| it.resource_version = "2".into()), same);
        let others = [
            of(|it| it.api_version = "v1".into()),
            of(|it| it.kind = "v1".into()),
            of(|it| it.namespace = "ns".into()),
            of(|it| it.name = "o".into()),
            of(|it| it.uid = "v".into()),
            // The same text in other parts.
            of(|it| (it.name, it.uid) = ("nu".into(), String::new())),
            memory.digest(&event(&involved(), EventType::Warning, "R", "m", "c")),
            memory.digest(&event(&involved(), EventType::Normal, "S", "m", "c")),
            memory.digest(&event(&involved(), EventType::Normal, "R", "n", "c")),
            memory.digest(&event(&involved(), EventType::Normal, "R", "m", "d")),
        ];
        let distinct: std::collections::HashSet<_> = others.iter().chain([&same]).collect();
        assert_eq!(distinct.len(), others.len() + 1);
    }

    #[test]
    fn events_with_many_messages_are_combined() {
        let mut memory = Memory::default();
        let at = |second: i64, message: &str| {
            let at = jiff::Timestamp::from_second(second).expect("a time");
            draft(involved().identity(), EventType::Normal, "R", message, "c".into(), at)
        };
        for n in 0..9 {
            let one = memory.correlate(waiting(at(n, &format!("m{n}"))));
            assert_eq!((one.is_combined, one.event.text(EventPart::Message)), (false, &*format!("m{n}")));
        }
        assert!(!memory.correlate(waiting(at(9, "m3"))).is_combined, "a repeat is no new message");
        let first = memory.correlate(waiting(at(10, "m9")));
        assert_eq!(
            (first.is_combined, first.event.text(EventPart::Message)),
            (true, "(combined from similar events): m9")
        );
        assert!(!memory.repeat(&first));
        memory.remember(first.digest, first.event.at, ObjectKey::cluster("n.1"));
        let second = memory.correlate(waiting(at(11, "m10")));
        assert!(second.digest == first.digest && memory.repeat(&second));
        let written: Vec<_> = memory.unwritten().map(|seen| (seen.count, seen.message.clone())).collect();
        assert_eq!(written, [(2, Some("(combined from similar events): m10".to_owned()))]);
        let other = event(&involved(), EventType::Warning, "R", "m11", "c");
        assert!(!memory.correlate(waiting(other)).is_combined, "of another type");
        assert!(memory.correlate(waiting(at(611, "m12"))).is_combined);
        assert!(!memory.correlate(waiting(at(1212, "m13"))).is_combined, "after ten minutes without one");
        for n in 0..2 * REMEMBERED {
            let involved = Involved { uid: n.to_string(), ..involved() };
            memory.correlate(waiting(event(&involved, EventType::Normal, "R", "m", "c")));
        }
        assert_eq!((memory.similar.len(), memory.similar_order.len()), (REMEMBERED, REMEMBERED));
    }

    #[test]
    fn the_oldest_events_are_forgotten() {
        let mut memory = Memory::default();
        let at = jiff::Timestamp::UNIX_EPOCH;
        let digests: Vec<_> = (0..=REMEMBERED).map(|n| memory.digest(&simple(&n.to_string()))).collect();
        for (n, digest) in digests.iter().enumerate() {
            memory.remember(*digest, at, ObjectKey::cluster(format!("e{n}")));
        }
        let event = |n: usize| Correlated { event: simple(""), digest: digests[n], is_combined: false, is_turn: false };
        assert!(!memory.repeat(&event(0)) && memory.repeat(&event(1)));
        assert_eq!((memory.seen.len(), memory.order.len()), (REMEMBERED, REMEMBERED));
    }
}
