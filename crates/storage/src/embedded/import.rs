//! Creates a store from the objects of another engine. Each object keeps its revisions, so that clients see known
//! `resourceVersion`s, and the store continues after the source's newest revision.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::Transaction;

use super::backup::{Restore, replace};
use super::checksum::{Entry, PLACE_BITS, lease_digest};
use super::database;
use super::schema::Number;
use crate::{KeyValue, Result, Revision};

/// Revisions that are passed over: a watch at the source's newest revision reads again instead of waiting for changes that
/// the new store does not have.
const PASSED_OVER: Revision = 10_000;

/// Options of the import.
#[derive(Clone, Debug)]
pub struct Import {
    /// Moves an existing store in the directory aside; otherwise it is an error.
    pub replace: bool,
    /// The suffix of the directories created beside the store's. No such directory may exist.
    pub suffix: String,
    /// The source's newest revision.
    pub revision: Revision,
    /// The remaining seconds of objects with a lease.
    pub ttl: u32,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The number of objects.
    pub objects: u64,
    /// The size of keys and values.
    pub bytes: u64,
    /// The new store continues here.
    pub revision: Revision,
    /// The new path of the replaced store.
    pub aside: Option<PathBuf>,
}

/// Makes a store in the directory `dir` of the objects that `next` returns; an empty list ends them.
///
/// # Errors
/// The directory is in use, or holds a store that is not to be replaced; `next` fails; the disk is full. Then the directory
/// is as it was.
pub fn import(dir: &Path, options: &Import, next: &mut dyn FnMut() -> Result<Vec<KeyValue>>) -> Result<Imported> {
    let place = Restore { replace: options.replace, when: SystemTime::UNIX_EPOCH, suffix: options.suffix.clone() };
    let (rows, revision, aside) = replace(dir, &place, &mut |txn, acknowledged| {
        let mut rows = Rows::default();
        loop {
            let items = next()?;
            if items.is_empty() {
                break;
            }
            for item in &items {
                rows.append(txn, item, options).map_err(database::failed(dir))?;
            }
        }
        let after = options.revision.max(acknowledged) + PASSED_OVER;
        rows.finish(txn, options, after).map_err(database::failed::<rusqlite::Error>(dir))?;
        Ok(rows)
    })?;
    Ok(Imported { objects: rows.objects, bytes: rows.bytes, revision, aside })
}

/// The rows written so far.
#[derive(Default)]
struct Rows {
    /// The number of rows of each revision: an engine may give several objects one revision.
    places: HashMap<Revision, i64>,
    /// The new store's leases by the source's.
    leases: HashMap<u64, i64>,
    digest: u64,
    objects: u64,
    bytes: u64,
}

impl Rows {
    fn append(&mut self, txn: &Transaction<'_>, item: &KeyValue, options: &Import) -> Result<(), database::Fault> {
        let taken = self.places.entry(item.mod_revision).or_default();
        let place = *taken;
        *taken += 1;
        if place >> PLACE_BITS != 0 || item.mod_revision > options.revision || item.create_revision == 0 {
            let key = String::from_utf8_lossy(&item.key);
            let why = format!("the revision {} of {key} is not one of the source's", item.mod_revision);
            return Err(database::Fault::Broken(why));
        }
        let fresh = 1 + i64::try_from(self.leases.len()).unwrap_or(i64::MAX - 1);
        let lease = item.lease.map(|lease| *self.leases.entry(lease.0).or_insert(fresh));
        let id = (item.mod_revision.cast_signed() << PLACE_BITS) + place;
        let entry = Entry { id, key: &item.key, create_revision: item.create_revision.cast_signed(), lease };
        let checksum = entry.checksum(self.digest, Some(&item.value));
        let mut insert = txn.prepare_cached(database::INSERT)?;
        insert.execute((
            id,
            entry.key,
            entry.create_revision,
            lease,
            self.digest.cast_signed(),
            checksum,
            &item.value[..],
        ))?;
        self.digest = self.digest.wrapping_add(entry.digest());
        self.objects += 1;
        self.bytes += (item.key.len() + item.value.len()) as u64;
        Ok(())
    }

    fn finish(&self, txn: &Transaction<'_>, options: &Import, after: Revision) -> rusqlite::Result<()> {
        let (ttl, mut leases) = (i64::from(options.ttl), 0_u64);
        for id in self.leases.values() {
            txn.execute("INSERT INTO leases VALUES (?1, ?2)", (id, ttl))?;
            leases = leases.wrapping_add(lease_digest(*id, ttl));
        }
        for (number, value) in [
            (Number::Oldest, after.cast_signed()),
            (Number::Swept, database::last_row(after)),
            (Number::LastLease, i64::try_from(self.leases.len()).unwrap_or(i64::MAX)),
            (Number::Leases, leases.cast_signed()),
            (Number::Appended, self.digest.cast_signed()),
            (Number::AppendedAt, options.revision.cast_signed()),
        ] {
            number.set(txn, value)?;
        }
        Ok(())
    }
}
