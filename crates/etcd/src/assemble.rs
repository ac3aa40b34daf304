//! From etcd's watch responses to batches: whole revisions, each once, in order.

use storage::{Change, Error, KeyRange, Result, Revision, WatchBatch};

use crate::layout::Layout;
use crate::txn::{key_value, revision};
use crate::wire;

/// Whether changes have the values before. etcd reads them from its history for each watch, and sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Previous {
    Read,
    Omitted,
}

/// The state of one watch across its connections.
#[derive(Debug)]
pub(crate) struct Assembler {
    range: KeyRange,
    previous: Previous,
    /// Every change up to this revision has been delivered or does not concern the watch.
    position: Revision,
    /// The first responses of a fragmented one.
    fragments: Vec<wire::Event>,
}

/// The meaning of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is nothing to deliver.
    Nothing,
    Batch(Batch),
    /// etcd has ended the watch.
    Ended {
        compacted: Option<Revision>,
        reason: String,
    },
}

/// The contribution of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub revision: Revision,
    pub changes: Vec<(Revision, Change)>,
}

impl From<Batch> for WatchBatch {
    fn from(Batch { revision, changes }: Batch) -> Self {
        Self { revision, changes }
    }
}

impl Assembler {
    pub fn new(range: KeyRange, after: Revision, previous: Previous) -> Self {
        // Revision 1 is the empty store.
        Self { range, previous, position: after.max(1), fragments: Vec::new() }
    }

    pub fn previous(&self) -> Previous {
        self.previous
    }

    pub fn position(&self) -> Revision {
        self.position
    }

    /// Begins a new connection: etcd repeats unfinished revisions. The watch starts at the position itself, which etcd
    /// refuses if later changes may be compacted.
    pub fn begin(&mut self) -> i64 {
        self.fragments.clear();
        self.position.cast_signed()
    }

    /// # Errors
    /// [`Error::Compacted`] when a change arrives without the state before it: etcd has compacted it meanwhile.
    pub fn accept(&mut self, response: wire::WatchResponse, layout: &Layout) -> Result<Step> {
        let header = revision(response.header.as_ref());
        if response.canceled {
            let compacted = (response.compact_revision > 0).then_some(response.compact_revision.cast_unsigned());
            return Ok(Step::Ended { compacted, reason: response.cancel_reason });
        }
        if response.created {
            return Ok(Step::Nothing);
        }
        let mut events = std::mem::take(&mut self.fragments);
        events.extend(response.events);
        if response.fragment {
            self.fragments = events;
            return Ok(Step::Nothing);
        }
        // The revision of the header is the server's, and later changes may follow; only a response without changes
        // reports that there are none up to it.
        let last = events.iter().filter_map(|event| event.kv.as_ref()).map(|kv| kv.mod_revision.cast_unsigned()).max();
        let reached = last.unwrap_or(header);
        if reached <= self.position {
            return Ok(Step::Nothing);
        }
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            let Some(kv) = event.kv.as_ref() else { continue };
            let at = kv.mod_revision.cast_unsigned();
            if at > self.position
                && let Some(change) = self.change(event, layout)?
            {
                changes.push((at, change));
            }
        }
        // Within a revision by key, as every engine delivers them.
        changes.sort_by(|(a, one), (b, other)| (a, one.key()).cmp(&(b, other.key())));
        self.position = reached;
        Ok(Step::Batch(Batch { revision: reached, changes }))
    }

    /// `None` for a key outside the range.
    fn change(&self, event: wire::Event, layout: &Layout) -> Result<Option<Change>> {
        let deleted = event.r#type == wire::EVENT_DELETE;
        let Some(kv) = event.kv else { return Ok(None) };
        let at = kv.mod_revision;
        let created = !deleted && kv.create_revision == at;
        let Some(current) = key_value(kv, layout).filter(|kv| self.range.contains(&kv.key)) else { return Ok(None) };
        let previous = event.prev_kv.and_then(|kv| key_value(kv, layout));
        let omitted = self.previous == Previous::Omitted;
        match (previous, deleted) {
            (None, true) if omitted => Ok(Some(Change::Delete { previous: current })),
            (None, false) if omitted => Ok(Some(Change::Put { current, previous: None })),
            (Some(previous), true) => Ok(Some(Change::Delete { previous })),
            (previous, false) if created || previous.is_some() => Ok(Some(Change::Put { current, previous })),
            _ => Err(Error::Compacted { requested: self.position, oldest: at.cast_unsigned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &str, value: &str, created: i64, modified: i64) -> wire::KeyValue {
        wire::KeyValue {
            key: format!("/registry/karmada-rs/keys/{key}").into(),
            value: value.to_owned().into(),
            create_revision: created,
            mod_revision: modified,
            ..Default::default()
        }
    }

    fn put(key: &str, value: &str, at: i64) -> wire::Event {
        wire::Event { r#type: 0, kv: Some(kv(key, value, at, at)), prev_kv: None }
    }

    fn delete(key: &str, at: i64, previous: Option<wire::KeyValue>) -> wire::Event {
        let kv = wire::KeyValue { value: "".into(), ..kv(key, "", 0, at) };
        wire::Event { r#type: wire::EVENT_DELETE, kv: Some(kv), prev_kv: previous }
    }

    fn response(revision: i64, fragment: bool, events: Vec<wire::Event>) -> wire::WatchResponse {
        let header = Some(wire::ResponseHeader { revision, ..Default::default() });
        wire::WatchResponse { header, fragment, events, ..Default::default() }
    }

    fn steps(assembler: &mut Assembler, responses: Vec<wire::WatchResponse>) -> Vec<String> {
        let layout = Layout::new("/registry", []);
        let shown = |response| match assembler.accept(response, &layout) {
            Ok(Step::Nothing) => "-".to_owned(),
            Ok(Step::Batch(batch)) => {
                let keys = batch.changes.iter().map(|(at, change)| {
                    let sign = if matches!(change, Change::Put { .. }) { '+' } else { '-' };
                    format!("{at}{sign}{}", String::from_utf8_lossy(change.key()))
                });
                format!("{}: {}", batch.revision, keys.collect::<Vec<_>>().join(" "))
            }
            Ok(Step::Ended { compacted, reason }) => format!("ended {compacted:?} {reason}"),
            Err(error) => error.to_string(),
        };
        responses.into_iter().map(shown).collect()
    }

    fn watch(prefix: &'static str, after: Revision) -> Assembler {
        Assembler::new(KeyRange::prefix(prefix), after, Previous::Read)
    }

    #[test]
    fn fragments_are_delivered_whole() {
        let mut it = watch("/", 4);
        let responses = vec![
            response(9, true, vec![put("/b", "1", 5)]),
            response(9, true, vec![put("/a", "1", 5)]),
            response(9, false, vec![put("/c", "1", 6)]),
        ];
        assert_eq!(steps(&mut it, responses), ["-", "-", "6: 5+/a 5+/b 6+/c"], "not up to 9: 7 may follow");
        assert_eq!(it.position(), 6);
    }

    #[test]
    fn a_new_connection_neither_repeats_nor_omits() {
        let mut it = watch("/", 4);
        assert_eq!(it.begin(), 4);
        let cut_off = vec![response(9, false, vec![put("/a", "1", 5)]), response(9, true, vec![put("/b", "1", 6)])];
        assert_eq!(steps(&mut it, cut_off), ["5: 5+/a", "-"]);
        assert_eq!(it.begin(), 5);
        let again = vec![
            response(9, false, vec![put("/a", "1", 5)]),
            response(9, false, vec![put("/a", "1", 5), put("/b", "1", 6), put("/c", "1", 6)]),
        ];
        assert_eq!(steps(&mut it, again), ["-", "6: 6+/b 6+/c"]);
    }

    #[test]
    fn progress_is_a_response_without_changes() {
        let mut it = watch("/a/", 4);
        let responses = vec![
            response(4, false, vec![]),
            response(7, false, vec![]),
            response(6, false, vec![]),
            response(9, false, vec![put("/b/1", "1", 8)]),
        ];
        assert_eq!(steps(&mut it, responses), ["-", "7: ", "-", "8: "], "changes of others move it along");
    }

    #[test]
    fn a_missing_previous_value_is_a_compaction() {
        let known = kv("/a", "1", 2, 3);
        let mut it = watch("/", 4);
        assert_eq!(steps(&mut it, vec![response(5, false, vec![delete("/a", 5, Some(known))])]), ["5: 5-/a"]);
        for event in [delete("/a", 6, None), wire::Event { kv: Some(kv("/a", "2", 2, 6)), ..put("/a", "2", 6) }] {
            let found = steps(&mut it, vec![response(6, false, vec![event])]);
            assert!(found[0].contains("has been compacted"), "{found:?}");
        }
        let ended = wire::WatchResponse { canceled: true, compact_revision: 12, ..Default::default() };
        assert_eq!(steps(&mut it, vec![ended]), ["ended Some(12) "]);
    }

    #[test]
    fn values_before_can_be_omitted() {
        let mut it = Assembler::new(KeyRange::prefix("/"), 4, Previous::Omitted);
        let changed = wire::Event { kv: Some(kv("/a", "2", 2, 5)), ..put("/a", "2", 5) };
        let events = vec![response(5, false, vec![changed]), response(6, false, vec![delete("/a", 6, None)])];
        assert_eq!(steps(&mut it, events), ["5: 5+/a", "6: 6-/a"]);
    }
}
