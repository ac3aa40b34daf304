//! The tables of the database, their creation, and the invariants that are verified when a store opens.
//!
//! `change` holds one row per change. Its identifier is the revision and the position of the change in it, so that
//! appending is sequential; the index by key answers "this key as of that revision". Superseded rows are deleted when
//! history is compacted. `number` holds the store's own figures: those of [`Number`], which always exist, and those of
//! `breaks`.

use rusqlite::{Connection, OptionalExtension};

use super::breaks::{self, Break};
use super::checksum::{Entry, lease_digest, number_checksum, revision_of};
use super::database::{Fault, Recovered};
use crate::{LeaseId, Revision};

/// "karm", so that `file` and `sqlite3` can identify the file.
pub(super) const APPLICATION_ID: i64 = 0x6b61_726d;
/// Two bits away from format 1, so that no single flipped bit makes one of the other.
pub(super) const FORMAT: i64 = 2;

/// Every table and index with its text as stored by SQLite.
const TABLES: [(&str, &str); 4] = [
    (
        "change",
        "CREATE TABLE change(
        id INTEGER PRIMARY KEY,          -- revision << 16 | place in the revision
        key BLOB NOT NULL,
        create_revision INTEGER NOT NULL, -- 0: the key was deleted
        lease INTEGER,
        digest INTEGER NOT NULL,         -- of all rows that were appended before this one
        checksum INTEGER NOT NULL,
        value BLOB
    ) STRICT",
    ),
    ("change_by_key", "CREATE UNIQUE INDEX change_by_key ON change(key, id, create_revision, lease)"),
    ("leases", "CREATE TABLE leases(id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL) STRICT"),
    (
        "number",
        "CREATE TABLE number(name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    ),
];

/// The store's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Identifies the store; random.
    Store,
    /// The oldest readable revision.
    Oldest,
    /// Row up to which superseded rows are removed.
    Swept,
    LastLease,
    /// Digest of all leases.
    Leases,
    /// Commits of the store's own bookkeeping.
    Asides,
    /// Digest of all rows appended up to the revision `AppendedAt`. Newer rows carry it on.
    Appended,
    AppendedAt,
    /// Digest of all rows removed.
    Removed,
}

impl Number {
    const ALL: [Self; 9] = [
        Self::Store,
        Self::Oldest,
        Self::Swept,
        Self::LastLease,
        Self::Leases,
        Self::Asides,
        Self::Appended,
        Self::AppendedAt,
        Self::Removed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Oldest => "oldest",
            Self::Swept => "swept",
            Self::LastLease => "last lease",
            Self::Leases => "leases",
            Self::Asides => "asides",
            Self::Appended => "appended",
            Self::AppendedAt => "appended at",
            Self::Removed => "removed",
        }
    }

    pub fn set(self, db: &Connection, value: i64) -> rusqlite::Result<()> {
        set_figure(db, self.name(), value)
    }

    pub fn get(self, db: &Connection) -> Result<i64, Fault> {
        figure(db, self.name())?.ok_or_else(|| damaged_figure(self.name()))
    }
}

pub(super) fn set_figure(db: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    const SET: &str = "INSERT INTO number VALUES (?1, ?2, ?3)
        ON CONFLICT DO UPDATE SET value = excluded.value, checksum = excluded.checksum";
    db.prepare_cached(SET)?.execute((name, value, number_checksum(name, value))).map(drop)
}

/// A figure, if it exists.
pub(super) fn figure(db: &Connection, name: &str) -> Result<Option<i64>, Fault> {
    let found: Option<(i64, i64)> = db
        .prepare_cached("SELECT value, checksum FROM number WHERE name = ?1")?
        .query_row((name,), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((value, checksum)) if checksum != number_checksum(name, value) => Err(damaged_figure(name)),
        found => Ok(found.map(|(value, _)| value)),
    }
}

pub(super) fn damaged_figure(name: &str) -> Fault {
    Fault::Broken(format!("the figure {name:?} of the store is missing or damaged"))
}

/// Reads the breaks. A figure with a damaged name would appear absent, so all figures must be known ones.
pub(super) fn breaks(db: &Connection) -> Result<Vec<Break>, Fault> {
    let (breaks, figures) = breaks::read(db)?;
    let found: i64 = db.query_row("SELECT count(*) FROM number", (), |row| row.get(0))?;
    let known = Number::ALL.len() as i64 + figures;
    if found == known {
        Ok(breaks)
    } else {
        Err(Fault::Broken(format!("the store has {found} figures where {known} are known: one is damaged")))
    }
}

/// Makes the tables, with the figures of an empty store.
pub(super) fn create_tables(db: &Connection, store: i64) -> rusqlite::Result<()> {
    for (_, text) in TABLES {
        db.execute_batch(text)?;
    }
    for number in Number::ALL {
        number.set(db, if number == Number::Store { store } else { 0 })?;
    }
    db.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT};"))
}

/// The tables must be exactly those of this version, because the text decides the meaning of statements.
pub(super) fn check_tables(db: &Connection) -> Result<(), Fault> {
    let mut statement = db.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
    let found = statement.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let same = found.len() == TABLES.len()
        && found.iter().zip(TABLES).all(|((name, text), expected)| (name.as_str(), text.as_str()) == expected);
    if same { Ok(()) } else { Err(Fault::Broken("the definitions of the tables are damaged".into())) }
}

/// The digest of all rows that were ever appended, and the revision up to which. The newest row carries it on from where
/// it was noted; whether that is true shows when it is compared with the index.
fn appended(db: &Connection, newest: Option<(i64, u64)>) -> Result<(u64, Revision), Fault> {
    let noted = (Number::Appended.get(db)?.cast_unsigned(), Number::AppendedAt.get(db)?.cast_unsigned());
    let Some((id, term)) = newest.filter(|(id, _)| revision_of(*id) > noted.1) else { return Ok(noted) };
    let before: i64 = db.query_row("SELECT digest FROM change WHERE id = ?1", (id,), |row| row.get(0))?;
    Ok((before.cast_unsigned().wrapping_add(term), revision_of(id)))
}

/// The digest of the index of all keys.
struct Index {
    digest: u64,
    /// The newest row, and its term in the digest.
    newest: Option<(i64, u64)>,
    leased: Vec<(bytes::Bytes, LeaseId)>,
}

/// Reads the whole index: its order, its digest, and the keys that hang on leases.
fn read_index(db: &Connection) -> Result<Index, Fault> {
    const ALL: &str = "SELECT key, id, create_revision, lease FROM change INDEXED BY change_by_key ORDER BY key, id";
    let mut index = Index { digest: 0, newest: None, leased: Vec::new() };
    let (mut last_key, mut last_id, mut last_lease) = (Vec::new(), i64::MIN, None);
    let mut statement = db.prepare(ALL)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let unreadable = |error| Fault::Broken(format!("an entry of the index of keys is unreadable: {error}"));
        let key = row.get_ref(0)?.as_blob().map_err(|error| unreadable(error.to_string()))?;
        let entry = Entry { key, id: row.get(1)?, create_revision: row.get(2)?, lease: row.get(3)? };
        let term = entry.digest();
        index.digest = index.digest.wrapping_add(term);
        index.newest = index.newest.max(Some((entry.id, term)));
        if (key, entry.id) <= (&last_key[..], last_id) && last_id > i64::MIN {
            let key = String::from_utf8_lossy(key).into_owned();
            return Err(Fault::Broken(format!("the index of keys is out of order at {key:?}")));
        }
        if key != &last_key[..] {
            index.leased.extend(last_lease.take().map(|lease| (last_key.clone().into(), lease)));
            last_key.clear();
            last_key.extend_from_slice(key);
        }
        last_id = entry.id;
        last_lease = entry.lease.filter(|_| entry.create_revision != 0).map(|lease| LeaseId(lease.cast_unsigned()));
    }
    index.leased.extend(last_lease.map(|lease| (last_key.into(), lease)));
    Ok(index)
}

/// Verifies that the index has exactly the appended and not removed rows, with their revisions, and that the figures
/// and the leases are unchanged. Values are not read here: each is verified when it is read.
pub(super) fn prove(db: &Connection) -> Result<Recovered, Fault> {
    check_tables(db)?;
    let index = read_index(db)?;
    let newest: Option<i64> = db.query_row("SELECT max(id) FROM change", (), |row| row.get(0))?;
    let damaged = || {
        let why = "the index of keys does not have the entries that were written: pages of the file are damaged, lost or stale";
        Fault::Broken(why.into())
    };
    if index.newest.map(|(id, _)| id) != newest {
        return Err(damaged());
    }
    let (digest, appended_at) = appended(db, index.newest)?;
    let removed = Number::Removed.get(db)?.cast_unsigned();
    if index.digest != digest.wrapping_sub(removed) {
        return Err(damaged());
    }
    let leases = leases(db)?;
    let leases_digest = Number::Leases.get(db)?.cast_unsigned();
    let found = leases
        .iter()
        .fold(0, |sum: u64, (id, ttl)| sum.wrapping_add(lease_digest(id.0.cast_signed(), ttl.cast_signed())));
    if found != leases_digest {
        return Err(Fault::Broken("the table of leases is damaged".into()));
    }
    let oldest = Number::Oldest.get(db)?.cast_unsigned();
    Ok(Recovered {
        store: Number::Store.get(db)?,
        revision: appended_at.max(oldest).max(1),
        oldest,
        swept: Number::Swept.get(db)?,
        last_lease: Number::LastLease.get(db)?.cast_unsigned(),
        asides: Number::Asides.get(db)?.cast_unsigned(),
        digest,
        removed,
        leases_digest,
        leases,
        leased: index.leased,
        breaks: breaks(db)?,
    })
}

fn leases(db: &Connection) -> rusqlite::Result<Vec<(LeaseId, u64)>> {
    let lease = |row: &rusqlite::Row<'_>| {
        Ok((LeaseId(row.get::<_, i64>(0)?.cast_unsigned()), row.get::<_, i64>(1)?.cast_unsigned()))
    };
    db.prepare("SELECT id, ttl FROM leases")?.query_map((), lease)?.collect()
}
