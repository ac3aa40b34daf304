//! Opening of a store: the checks of its files before the first read is answered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::time::Instant;

use super::breaks::{self, Break, BreakKind, SKIPPED};
use super::committer::{Ledger, Queue, Writer};
use super::connection::{self, Role};
use super::database::{self, Kind, Recovered};
use super::directory::{self, Files};
use super::mark::{Acknowledged, Content, Found, Mark};
use super::opened::Opened;
use super::recent::Recent;
use super::wal::{self, Broken, Log};
use super::{Counters, FEED, Inner, Options, Shared, schema, scrub, upgrade};
use crate::feed::Feed;
use crate::lease::Leases;
use crate::{Error, Result};

impl Inner {
    pub(super) fn open(dir: &Path, mut options: Options) -> Result<Self> {
        options.max_txn_bytes = options.max_txn_bytes.min(crate::DEFAULT_MAX_TXN_BYTES);
        let claim = directory::claim(dir)?;
        let files = Files::new(dir);
        let path = files.database();
        directory::refuse_links(&files)?;
        let marked = directory::read_mark(&files)?;
        let new = directory::may_create(&files, &marked, options.must_exist)?;
        let log = wal::read(&files.log())
            .map_err(|error| Error::Failed(format!("cannot read {}: {error}", files.log().display()).into()))?;
        if !files.loss_is_accepted() {
            check_log(&files, &marked, log.as_ref())?;
        }
        connection::create_file(&path)?;
        let mut db = connection::connect(&path, Role::Writer, options.quota_bytes)?;
        let (found, mut mark) = recover(&mut db, &files, (&marked, log.as_ref()), new, options.now)?;
        let emptied = connection::check_length(&db, &path)?;
        let leftovers = !emptied && (mark.content().unsynced || log.is_some_and(|log| log.broken.is_some()));
        if emptied && mark.content().unsynced {
            forget_unsynced(&files, &mut mark)?;
        }
        let checkpointer = connection::connect(&path, Role::Checkpointer, options.quota_bytes)?;
        let mut leases = Leases::after(found.last_lease);
        // The remaining time of a lease is not stored: as with etcd, a restart restores its full time.
        found.leases.iter().for_each(|(id, ttl)| leases.insert(*id, *ttl, Instant::now()));
        found.leased.into_iter().for_each(|(key, lease)| leases.attach(key, lease));
        let handle = mark.handle().map_err(cannot_write(&files))?;
        let ledger =
            Ledger { digest: found.digest, removed: found.removed, leases: found.leases_digest, asides: found.asides };
        Ok(Self {
            options,
            queue: Mutex::new(Queue::default()),
            writer: Mutex::new(Some(Writer {
                db,
                recent: Recent::default(),
                ledger,
                mark,
                swept: found.swept,
                sweep_failed: None,
                unmoved_bytes: 0,
                syncs: true,
                unsynced: false,
                leftovers,
            })),
            readers: Mutex::default(),
            checkpointer: Mutex::new(Some(checkpointer)),
            shared: Mutex::new(Shared {
                revision: found.revision,
                oldest: found.oldest,
                leases,
                holds: BTreeMap::new(),
            }),
            feed: Arc::new(Feed::new(found.revision, FEED)),
            counters: Counters::default(),
            housekeeping: Arc::default(),
            scrubbing: Arc::default(),
            checkpoint_wanted: AtomicBool::new(false),
            checkpointed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            mark_unsynced: AtomicBool::new(false),
            mark: Mutex::new(Some(handle)),
            opened: Opened::note(&files),
            found: Arc::new(scrub::Found::default()),
            claim: Mutex::new(Some(claim)),
            store: found.store,
            breaks: found.breaks,
            path,
        })
    }
}

/// The log is empty: once that is durable, it has no torn content any more.
fn forget_unsynced(files: &Files, mark: &mut Mark) -> Result<()> {
    let log = files.log();
    File::open(&log)
        .and_then(|file| file.sync_all())
        .map_err(|error| Error::Failed(format!("cannot sync {}: {error}", log.display()).into()))?;
    match mark.set_unsynced(false).map_err(cannot_write(files)) {
        // The next start tries again.
        Err(Error::NoSpace) => Ok(()),
        other => other,
    }
}

fn cannot_write(files: &Files) -> impl Fn(io::Error) -> Error {
    let path = files.mark();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull => Error::NoSpace,
        _ => Error::Failed(format!("cannot write {}: {error}", path.display()).into()),
    }
}

/// Refuses a log in which acknowledged commits lie behind damage, before SQLite reads it and takes the damage for the end.
pub(super) fn check_log(files: &Files, marked: &Found, log: Option<&Log>) -> Result<()> {
    // Unsynced commits may be torn in any order; none of them was acknowledged.
    let unsynced = matches!(marked, Found::Readable(content) if content.unsynced || content.creating);
    match log {
        Some(Log { broken: Some(broken), acknowledged_beyond: true, .. }) if !unsynced => {
            let place = place_in_log(files, broken);
            let why = format!("{place}, and commits that were acknowledged follow it: {}", files.how_to_accept_loss());
            Err(Error::Failed(why.into()))
        }
        _ => Ok(()),
    }
}

fn place_in_log(files: &Files, broken: &Broken) -> String {
    let what = if broken.frame == 0 { "the header".to_owned() } else { format!("frame {}", broken.frame) };
    format!("{}: {what} (at byte {}) is damaged", files.log().display(), broken.offset)
}

/// Creates the tables of a new store, upgrades those of an old one, verifies those of any other, and compares them with
/// the acknowledged state.
fn recover(
    db: &mut Connection,
    files: &Files,
    (marked, log): (&Found, Option<&Log>),
    new: bool,
    now: Option<SystemTime>,
) -> Result<(Recovered, Mark)> {
    let path = files.database();
    let kind = database::kind(db).map_err(database::failed(&path))?;
    let accepted = files.loss_is_accepted();
    let mut mark = match kind {
        Kind::Present => None,
        Kind::Empty if !new => {
            let why = format!("{}: the file has no tables: {}", path.display(), files.how_to_accept_loss());
            return Err(Error::Failed(why.into()));
        }
        Kind::Empty | Kind::Old => Some(make(db, files, kind)?),
    };
    let mut found = schema::prove(db).map_err(|fault| refused(files, log, database::failed(&path)(fault)))?;
    if mark.is_none() && !accepted {
        check_mark(files, marked, log, &found)?;
    }
    if accepted {
        skip_revisions(db, marked, &mut found, now).map_err(database::failed(&path))?;
        tracing::warn!(path = %path.display(), revision = found.revision, "the store opens with what is left, as requested");
        files.forget_acceptance().map_err(cannot_write(files))?;
    }
    // As long as the log is not empty, it may be torn as it was.
    let before = mark.as_ref().map(Mark::content).or(marked.content());
    let content = Content {
        store: found.store,
        acknowledged: Acknowledged { revision: found.revision, digest: found.digest, asides: found.asides },
        unsynced: before.is_some_and(|content| content.unsynced),
        creating: false,
    };
    if mark.is_none() {
        mark = Some(Mark::write(&files.mark(), content).map_err(cannot_write(files))?);
    }
    let mut mark = mark.ok_or(Error::Closed)?;
    if mark.content() != content {
        mark.acknowledge(content.acknowledged).and_then(|()| mark.created()).map_err(cannot_write(files))?;
    }
    Ok((found, mark))
}

/// Adds the place where the log stops to why a store is refused, and the next step.
fn refused(files: &Files, log: Option<&Log>, error: Error) -> Error {
    let why = match &error {
        Error::Failed(why) => why.to_string(),
        Error::Damaged(damage) => damage.to_string(),
        _ => return error,
    };
    let log = match log.and_then(|log| log.broken.as_ref()) {
        Some(broken) => format!("; {}", place_in_log(files, broken)),
        None => String::new(),
    };
    Error::Failed(format!("{why}{log}: restore {} from a backup", files.directory().display()).into())
}

/// Converts a new or an old store to the current format. The mark is written first: a store of this format without a
/// mark has lost it.
fn make(db: &mut Connection, files: &Files, kind: Kind) -> Result<Mark> {
    let path = files.database();
    let failed = database::failed(&path);
    let store = database::random_identifier(db).map_err(&failed)?;
    // No commit is acknowledged with it yet: an old store has no digest before it is upgraded.
    let content = Content {
        store,
        acknowledged: Acknowledged { revision: 1, ..Acknowledged::default() },
        // The log of a failed upgrade was not acknowledged.
        unsynced: kind == Kind::Old,
        creating: kind == Kind::Empty,
    };
    let mark = Mark::write(&files.mark(), content).map_err(cannot_write(files))?;
    match kind {
        Kind::Old => {
            tracing::info!(path = %files.database().display(), "upgrading the store to the format with checksums");
            upgrade::run(db, store)
        }
        Kind::Empty | Kind::Present => database::create(db, store),
    }
    .map_err(&failed)?;
    Ok(mark)
}

/// Refuses a store that lacks acknowledged commits.
pub(super) fn check_mark(files: &Files, marked: &Found, log: Option<&Log>, found: &Recovered) -> Result<()> {
    let (mark, database) = (files.mark(), files.database());
    let why = match marked {
        Found::Missing => Some(format!("{} is missing: which writes were acknowledged is unknown", mark.display())),
        Found::Unreadable => Some(format!("{} is damaged: which writes were acknowledged is unknown", mark.display())),
        Found::Readable(content) => differs(content, found).map(|why| format!("{}: {why}", database.display())),
    };
    let Some(why) = why else { return Ok(()) };
    let log = match log {
        Some(Log { broken: Some(broken), .. }) => format!("; {}", place_in_log(files, broken)),
        Some(log) => format!("; {} ends after frame {}", files.log().display(), log.committed),
        None => format!("; {} is missing or empty", files.log().display()),
    };
    Err(Error::Failed(format!("{why}{log}: {}", files.how_to_accept_loss()).into()))
}

/// The difference between the recovered and the acknowledged state, if any.
fn differs(content: &Content, found: &Recovered) -> Option<String> {
    let Acknowledged { revision, digest, asides } = content.acknowledged;
    if content.store != found.store {
        Some("the file belongs to another store than store.mark beside it".into())
    } else if found.revision < revision {
        Some(format!(
            "writes up to revision {revision} were acknowledged, and the newest that is left is {}",
            found.revision
        ))
    } else if found.revision == revision && digest != found.digest {
        Some(format!("the changes up to revision {revision} are not the ones that were acknowledged"))
    } else if found.asides < asides {
        Some(format!("{} acknowledged changes of leases or of history are missing", asides - found.asides))
    } else {
        None
    }
}

/// Continues at an unused revision, without history before it.
fn skip_revisions(
    db: &mut Connection,
    marked: &Found,
    found: &mut Recovered,
    when: Option<SystemTime>,
) -> Result<(), database::Fault> {
    let seen = match marked {
        Found::Readable(content) => content.acknowledged.revision,
        Found::Missing | Found::Unreadable => 0,
    };
    let next = found.revision.max(seen) + SKIPPED;
    let txn = db.transaction()?;
    schema::Number::Oldest.set(&txn, next.cast_signed())?;
    let lost = Break { before: found.revision, after: next, when, kind: BreakKind::AcceptedLoss };
    breaks::add(&txn, &lost)?;
    txn.commit()?;
    found.breaks.push(lost);
    (found.revision, found.oldest) = (next, next);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_acknowledged_writes_differs() {
        let found = |revision, digest, asides| Recovered {
            store: 7,
            revision,
            oldest: 0,
            swept: 0,
            last_lease: 0,
            asides,
            digest,
            removed: 0,
            leases_digest: 0,
            leases: Vec::new(),
            leased: Vec::new(),
            breaks: Vec::new(),
        };
        let marked = |store| Content {
            store,
            acknowledged: Acknowledged { revision: 10, digest: 3, asides: 2 },
            unsynced: false,
            creating: false,
        };
        for (what, marked, found, expected) in [
            ("the same", marked(7), found(10, 3, 2), None),
            ("written after the mark", marked(7), found(11, 4, 2), None),
            ("older", marked(7), found(9, 4, 2), Some("up to revision 10 were acknowledged")),
            ("another past", marked(7), found(10, 4, 2), Some("not the ones")),
            ("another store", marked(8), found(10, 3, 2), Some("another store")),
            ("a lease is missing", marked(7), found(10, 3, 1), Some("1 acknowledged changes of leases")),
        ] {
            let why = differs(&marked, &found);
            assert_eq!(why.is_some(), expected.is_some(), "{what}: {why:?}");
            assert!(why.unwrap_or_default().contains(expected.unwrap_or_default()), "{what}");
        }
    }
}
