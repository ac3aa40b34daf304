//! The history that this process's caches are of. The newest change that it has seen is the evidence that a reconnected etcd
//! has the same one.
//!
//! A restored snapshot lacks the end of the history. Its revision alone does not show that, once other clients have written
//! or the restore has raised it, and its cluster has the former identifier if its members have the former URLs.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch::{Receiver, Sender};

use crate::wire;

/// What is known of etcd's history.
#[derive(Debug, Default)]
pub(crate) struct History {
    newest: Mutex<Option<Anchor>>,
    /// Why etcd's history is another one than before.
    broken: Sender<Option<Arc<str>>>,
}

/// A value of a key, and the revision of its write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub key: Bytes,
    pub value: Bytes,
    pub revision: i64,
}

impl History {
    /// Remembers a change, unless a newer one is known.
    pub fn note(&self, seen: Anchor) {
        let mut newest = self.newest.lock();
        if newest.as_ref().is_none_or(|known| known.revision < seen.revision) {
            *newest = Some(seen);
        }
    }

    pub fn newest(&self) -> Option<Anchor> {
        self.newest.lock().clone()
    }

    pub fn broken(&self) -> Option<Arc<str>> {
        self.broken.borrow().clone()
    }

    pub fn breaks(&self) -> Receiver<Option<Arc<str>>> {
        self.broken.subscribe()
    }

    /// Records permanently that etcd has another history, and returns the message of the first such record.
    pub fn break_off(&self, reason: &str) -> Arc<str> {
        let mut message: Arc<str> = format!(
            "{reason}: an older state was restored; restart this server, and restore with `etcdutl snapshot restore \
             --bump-revision --mark-compacted`"
        )
        .into();
        let is_first = self.broken.send_if_modified(|broken| {
            let is_first = broken.is_none();
            message = Arc::clone(broken.get_or_insert(Arc::clone(&message)));
            is_first
        });
        if is_first {
            tracing::error!(err = %message, "etcd lacks changes that this server has seen; no request is sent to it any more");
        }
        message
    }
}

/// The answer to a read of the key, at the anchor's revision or later.
#[derive(Debug)]
pub(crate) enum Found {
    AtRevision(Option<wire::KeyValue>),
    /// etcd has not reached the revision.
    Future,
    /// The revision is compacted; this is the present state.
    Now(Option<wire::KeyValue>),
}

impl Anchor {
    /// The last value of a watch's response.
    pub fn of(response: &wire::WatchResponse) -> Option<Self> {
        let puts = response.events.iter().rev().filter(|event| event.r#type != wire::EVENT_DELETE);
        let last = puts.filter_map(|event| event.kv.as_ref()).next()?;
        Some(Self { key: last.key.clone(), value: last.value.clone(), revision: last.mod_revision })
    }

    /// Whether the history goes on from here. A compacted history with the key absent proves nothing; it counts as another
    /// one, because a restart is safe and deletions in members are not.
    pub fn continues(&self, found: &Found) -> bool {
        let is_this = |kv: &wire::KeyValue| kv.mod_revision == self.revision && kv.value == self.value;
        match found {
            Found::Future => false,
            Found::AtRevision(found) => found.as_ref().is_some_and(is_this),
            Found::Now(found) => found.as_ref().is_some_and(|kv| kv.mod_revision > self.revision || is_this(kv)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(value: &'static str, mod_revision: i64) -> wire::KeyValue {
        wire::KeyValue { key: "a".into(), value: value.into(), mod_revision, ..Default::default() }
    }

    #[test]
    fn a_history_continues_if_it_has_the_newest_change() {
        let anchor = Anchor { key: "a".into(), value: "1".into(), revision: 7 };
        for (what, found, continues) in [
            ("the same change", Found::AtRevision(Some(kv("1", 7))), true),
            ("the key was not written at it", Found::AtRevision(Some(kv("1", 5))), false),
            ("another value was written at it", Found::AtRevision(Some(kv("2", 7))), false),
            ("the key was not there", Found::AtRevision(None), false),
            ("it was never reached", Found::Future, false),
            ("compacted, unchanged", Found::Now(Some(kv("1", 7))), true),
            ("compacted, written since", Found::Now(Some(kv("2", 9))), true),
            ("compacted, with an older state", Found::Now(Some(kv("0", 4))), false),
            ("compacted, and absent", Found::Now(None), false),
        ] {
            assert_eq!(anchor.continues(&found), continues, "{what}");
        }
    }

    #[test]
    fn the_last_value_of_a_response_is_the_anchor() {
        let event = |r#type, at| wire::Event { r#type, kv: Some(kv("1", at)), prev_kv: None };
        let events = vec![event(0, 5), event(0, 6), event(wire::EVENT_DELETE, 7)];
        let response = wire::WatchResponse { events, ..Default::default() };
        assert_eq!(Anchor::of(&response).map(|it| it.revision), Some(6));
        assert_eq!(Anchor::of(&wire::WatchResponse::default()), None);
    }
}
