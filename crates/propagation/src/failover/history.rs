//! The record of completed moves: the workload, the cluster it left, its current clusters, the reason and time, and the
//! transferred state.
//!
//! Moves are stored in a ring of segments, each of which is one object of the control plane. When all segments are
//! full, the oldest is replaced. Moves in progress are not part of it: they are the eviction tasks of the bindings.

use std::collections::BTreeMap;

use apimachinery::meta::Time;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::GracefulEvictionTask;
use serde::{Deserialize, Serialize};

use super::clusters_of;

/// Segments of the ring: the newest 20,000 moves, fewer if their messages or their state are long.
pub const SEGMENTS: usize = 20;
/// Moves of a segment.
const MOVES: usize = 1_000;
/// Bytes of a segment; an object of the API is at most 1 MiB.
const BYTES: usize = 512 << 10;
/// Bytes of a batch. One move has at most 10 KiB.
const BATCH: usize = 64 << 10;

/// A move that has ended, or is in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Move {
    /// The workload's apiVersion.
    pub api_version: String,
    /// The workload's kind.
    pub kind: String,
    /// The workload's namespace; empty for objects without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The workload's name.
    pub name: String,
    /// The cluster it leaves.
    pub from: String,
    /// The clusters of the workload after the move.
    pub to: Vec<String>,
    /// The reason of the eviction task.
    pub reason: String,
    /// The message of the eviction task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The purge mode of the eviction task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub purge_mode: String,
    /// When the eviction began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// `Replaced`, `Overdue` or `Confirmed`; empty while it is in progress.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ending: String,
    /// Labels that the new copy got.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, String>,
}

/// The move that an eviction task of a binding records.
pub fn of_task(binding: &Binding, task: &GracefulEvictionTask) -> Move {
    let resource = &binding.spec.resource;
    Move {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        from: task.from_cluster.clone(),
        to: clusters_of(&binding.spec),
        reason: task.reason.clone(),
        message: task.message.clone(),
        purge_mode: task.purge_mode.map(|mode| format!("{mode:?}")).unwrap_or_default(),
        started: task.creation_timestamp,
        state: task.preserved_label_state.clone(),
        ..Move::default()
    }
}

/// As many moves as one write takes, as lines of JSON; how many those are.
pub fn batch<'a>(moves: impl IntoIterator<Item = &'a Move>) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    for one in moves.into_iter().take(MOVES) {
        let Ok(line) = serde_json::to_string(one) else { continue };
        if count > 0 && text.len() + line.len() >= BATCH {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        count += 1;
    }
    (text, count)
}

/// The moves of a batch; malformed lines are skipped.
pub fn read(text: &str) -> impl Iterator<Item = Move> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The end of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    segment: usize,
    /// The number of the next batch.
    next: u64,
    moves: usize,
    bytes: usize,
}

/// The position of a stored batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the segment.
    pub segment: usize,
    /// The key of the batch in the segment. Later batches have greater keys.
    pub key: String,
    /// Whether the batch replaces the content of the segment.
    pub replaces: bool,
}

impl Ring {
    /// Continues after the stored batches, by segment.
    pub fn after(segments: &BTreeMap<usize, BTreeMap<String, String>>) -> Self {
        let number = |key: &String| key.split('-').next().and_then(|number| number.parse::<u64>().ok());
        let newest = |batches: &BTreeMap<String, String>| batches.keys().filter_map(number).max();
        let last = segments.iter().filter_map(|(segment, batches)| Some((newest(batches)?, *segment, batches))).max();
        let Some((newest, segment, batches)) = last else { return Self::default() };
        Self {
            segment: segment % SEGMENTS,
            next: newest.saturating_add(1),
            moves: batches.values().map(|text| text.lines().count()).sum(),
            bytes: batches.values().map(String::len).sum(),
        }
    }

    /// Selects the position of the next batch. `writer` separates two processes that write concurrently.
    pub fn place(&mut self, text: &str, moves: usize, writer: &str) -> Place {
        let is_full = self.moves + moves > MOVES || self.bytes + text.len() > BYTES;
        let is_first = self.moves == 0;
        if is_full && !is_first {
            self.segment = (self.segment + 1) % SEGMENTS;
            (self.moves, self.bytes) = (0, 0);
        }
        let place =
            Place { segment: self.segment, key: format!("{:012}-{writer}", self.next), replaces: is_first || is_full };
        self.next = self.next.saturating_add(1);
        self.moves += moves;
        self.bytes += text.len();
        place
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::binding;
    use super::*;

    fn named(name: &str) -> Move {
        Move { name: name.to_owned(), ..Move::default() }
    }

    #[test]
    fn an_ended_task_is_recorded_as_a_move() {
        let task = json!({"fromCluster": "m1", "reason": "TaintUntolerated", "purgeMode": "Gracefully", "message": "why",
            "creationTimestamp": "2026-01-01T00:00:00Z", "preservedLabelState": {"kept": "3"}});
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"});
        let binding = binding(
            json!({"clusters": [{"name": "m2"}], "resource": resource, "gracefulEvictionTasks": [task]}),
            json!({}),
        );
        let found = of_task(&binding, &binding.spec.graceful_eviction_tasks[0]);
        let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "from": "m1",
            "to": ["m2"], "reason": "TaintUntolerated", "message": "why", "purgeMode": "Gracefully",
            "started": "2026-01-01T00:00:00Z", "state": {"kept": "3"}});
        assert_eq!(serde_json::to_value(&found).unwrap(), expected);
        let (text, count) = batch([&found, &named("other")]);
        assert_eq!((read(&format!("{text}nonsense\n")).collect::<Vec<_>>(), count), (vec![found, named("other")], 2));
    }

    #[test]
    fn a_batch_is_bounded() {
        let long = Move { message: "m".repeat(1024), ..Move::default() };
        for (one, many, expected) in [(named("a"), 3, 3), (named("a"), 5_000, 949), (long, 5_000, 59)] {
            let moves = vec![one.clone(); many];
            let (text, count) = batch(&moves);
            assert!(count == expected && text.len() <= BATCH, "{count} moves, {} bytes", text.len());
        }
    }

    #[test]
    fn the_ring_is_bounded_and_continues_after_a_restart() {
        let mut ring = Ring::default();
        let mut stored: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
        for n in 0..30_000 {
            if n % 7_001 == 0 {
                // Another process.
                ring = Ring::after(&stored);
            }
            let (text, count) = batch([&named(&n.to_string())]);
            let place = ring.place(&text, count, "w");
            let segment = stored.entry(place.segment).or_default();
            if place.replaces {
                segment.clear();
            }
            assert!(segment.insert(place.key, text).is_none());
        }
        let mut kept: Vec<u32> = stored
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(|text| read(text))
            .map(|it| it.name.parse().unwrap())
            .collect();
        kept.sort_unstable();
        assert!((19_000..=20_000).contains(&kept.len()), "{}", kept.len());
        assert_eq!(
            (kept.last(), kept[kept.len() - 1] - kept[0] + 1),
            (Some(&29_999), u32::try_from(kept.len()).unwrap())
        );
        assert!(
            stored.len() <= SEGMENTS && stored.values().all(|it| it.values().map(String::len).sum::<usize>() <= BYTES)
        );
        assert_eq!(Ring::after(&stored), ring);
        assert_eq!(Ring::after(&BTreeMap::new()), Ring::default());
    }
}
