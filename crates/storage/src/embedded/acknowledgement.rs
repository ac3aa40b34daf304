//! The steps between a commit and its acknowledgement: the counters, and the mark of durable commits.

use std::sync::atomic::Ordering::Relaxed;

use super::Inner;
use super::committer::{Ledger, Writer};
use super::mark::Acknowledged;
use super::{connection, database};
use crate::{Error, Result, Revision};

impl Inner {
    /// Runs after each commit, before it is acknowledged.
    pub(super) fn note_commit(
        &self,
        writer: &mut Writer,
        ledger: Ledger,
        revision: Revision,
        (revisions, bytes): (u64, u64),
    ) -> Result<()> {
        writer.ledger = ledger;
        // Even a small commit writes the inner pages above its rows.
        writer.unmoved_bytes += bytes + 16_384;
        writer.unsynced |= !writer.syncs;
        self.counters.batches.fetch_add(1, Relaxed);
        self.counters.syncs.fetch_add(u64::from(writer.syncs), Relaxed);
        self.counters.revisions.fetch_add(revisions, Relaxed);
        self.counters.bytes.fetch_add(bytes, Relaxed);
        self.counters.largest_batch.fetch_max(revisions, Relaxed);
        if writer.syncs { self.acknowledge(writer, revision) } else { Ok(()) }
    }

    /// Records durable commits as acknowledged. A sync of the record follows within a second.
    fn acknowledge(&self, writer: &mut Writer, revision: Revision) -> Result<()> {
        let Ledger { digest, asides, .. } = writer.ledger;
        let noted = writer.mark.acknowledge(Acknowledged { revision, digest, asides });
        self.mark_written(noted)?;
        if !self.mark_unsynced.swap(true, Relaxed) {
            self.housekeeping.notify_one();
        }
        Ok(())
    }

    /// A file system that copies on write may lack the space for a note. The commit itself is on the disk.
    fn mark_written(&self, written: std::io::Result<()>) -> Result<()> {
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                tracing::warn!(path = %self.path.display(), %error, "cannot note what was acknowledged");
                Ok(())
            }
            Err(error) => {
                let why = format!("{}: cannot note what was acknowledged: {error}", self.path.display());
                Err(Error::Failed(why.into()))
            }
        }
    }

    /// A failed commit leaves parts of itself in the log, after the last successful one. If a power failure tears a
    /// later commit, they look like acknowledged commits after damage. So the mark durably records their possible
    /// presence before that later commit. Without space for the record there is no space for a commit.
    pub(super) fn note_leftovers(&self, writer: &mut Writer) -> Result<()> {
        if !writer.leftovers || writer.mark.content().unsynced {
            return Ok(());
        }
        self.note_unsynced(writer)
    }

    fn note_unsynced(&self, writer: &mut Writer) -> Result<()> {
        self.counters.mark_syncs.fetch_add(1, Relaxed);
        match writer.mark.set_unsynced(true) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Err(Error::NoSpace),
            noted => self.mark_written(noted),
        }
    }

    /// The mark notes, durably, that the end of the log may be torn, before that can be so.
    pub(super) fn change_syncs(&self, writer: &mut Writer, wanted: bool) -> Result<()> {
        if !wanted {
            self.note_unsynced(writer)?;
        }
        connection::sync_commits(&writer.db, wanted, writer.unsynced).map_err(database::failed(&self.path))?;
        writer.syncs = wanted;
        if !wanted {
            return Ok(());
        }
        let wrote = std::mem::take(&mut writer.unsynced);
        self.counters.syncs.fetch_add(u64::from(wrote), Relaxed);
        if wrote || writer.mark.content().unsynced {
            let revision = self.shared.lock().revision;
            self.acknowledge(writer, revision)?;
            self.mark_written(writer.mark.set_unsynced(writer.leftovers))?;
            self.counters.mark_syncs.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
