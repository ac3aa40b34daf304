//! Verifies the whole file in the background: each row against its checksum, the index of keys against the digest, and
//! the pages by SQLite's own check. Damage is recorded for `/readyz` and the metrics.
//!
//! Rows are read a few hundred at a time. The checks of the index and of the pages each hold one snapshot, during which
//! the log file is not emptied.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::database;
use super::{Inner, schema};
use crate::{Damage, Error, Result};

/// The first time: a start has other things to do.
const FIRST: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(24 * 3600);
/// Rows verified at once: a few milliseconds.
const ROWS: usize = 256;
/// Damaged places that are remembered; a disk that fails may have millions.
const REMEMBERED: usize = 1000;

/// The damage found since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Found {
    places: Mutex<BTreeSet<Damage>>,
    changed: Notify,
    closed: AtomicBool,
}

impl Found {
    pub fn note(&self, damage: &Damage) {
        let mut places = self.places.lock();
        if places.len() < REMEMBERED && places.insert(damage.clone()) {
            tracing::error!(%damage, "the store is damaged; restore it from a backup");
            self.changed.notify_waiters();
        }
    }

    pub fn all(&self) -> Vec<Damage> {
        self.places.lock().iter().cloned().collect()
    }

    pub fn count(&self) -> u64 {
        self.places.lock().len() as u64
    }

    /// Waits until there is some; false when the store was closed before.
    pub async fn some(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            if self.count() > 0 || self.closed.load(Relaxed) {
                return self.count() > 0;
            }
            changed.await;
        }
    }

    /// Ends the scrub.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
        self.changed.notify_waiters();
    }
}

pub(super) async fn run(store: Weak<Inner>, ended: Arc<Notify>) {
    let mut due = Instant::now() + FIRST;
    loop {
        tokio::select! {
            biased;
            () = ended.notified() => return,
            () = sleep_until(due) => {}
        }
        let Some(store) = store.upgrade().filter(|store| !store.closed.load(Relaxed)) else { return };
        match scrub(&store).await {
            Ok(()) => tracing::debug!(path = %store.path.display(), "every row of the store is as it was written"),
            Err(Error::Closed) => return,
            Err(error) => tracing::error!(path = %store.path.display(), %error, "the store is damaged"),
        }
        due = Instant::now() + AGAIN;
    }
}

/// Verifies everything; notes all damage and answers the first.
pub(super) async fn scrub(store: &Arc<Inner>) -> Result<()> {
    let (mut position, mut first) = (Some(i64::MIN), None);
    while let Some(after) = position {
        let (next, damaged) = store.read(move |store| store.scan(|db| database::verify_rows(db, after, ROWS))).await?;
        damaged.iter().for_each(|damage| store.found.note(damage));
        first = first.or(damaged.into_iter().next());
        position = next;
    }
    for check in [|db: &rusqlite::Connection| schema::prove(db).map(drop), database::check_pages] {
        store.read(move |store| store.scan(check)).await?;
    }
    first.map_or(Ok(()), |damage| Err(Error::Damaged(damage)))
}
