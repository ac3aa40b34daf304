//! Inspects a store without opening it for writes: verifies its files and measures it, also while a server has it open.
//! It changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::breaks::Break;
use super::database::{self, Fault, Kind, failed};
use super::directory::{self, Claim, Files};
use super::mark::Found;
use super::opening::{check_log, check_mark};
use super::schema::{self, Number};
use super::wal::{self, Log};
use super::{connection, upgrade};
use crate::{Error, Result, Revision};

/// Rows that are verified on one snapshot.
const ROWS: usize = 1024;
/// Damaged places that are listed; a disk that fails may have millions.
const LISTED: usize = 1000;

/// Whether a process has the store in `dir` open.
///
/// # Errors
/// The directory cannot be read.
pub fn is_in_use(dir: &Path) -> Result<bool> {
    directory::try_claim(dir).map(|claim| claim.is_none())
}

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// A process has the store open; then its log is not verified as a file.
    pub in_use: bool,
    /// The newest revision.
    pub revision: Revision,
    /// The number of rows: objects and their history.
    pub rows: u64,
    /// Each damaged place; empty for a sound store.
    pub damaged: Vec<String>,
}

/// The size of a store.
#[derive(Clone, Debug)]
pub struct Measured {
    /// A process has the store open.
    pub in_use: bool,
    /// The newest revision.
    pub revision: Revision,
    /// The oldest readable revision.
    pub oldest: Revision,
    /// The rows of all objects and of their history.
    pub rows: u64,
    /// The number of leases.
    pub leases: u64,
    /// The points where history was lost, oldest first.
    pub breaks: Vec<Break>,
    /// Each file and its length.
    pub files: Vec<(PathBuf, u64)>,
}

/// A store under inspection.
struct Inspected {
    files: Files,
    /// Held unless another process has the store open; no process can open the store meanwhile.
    claim: Option<Claim>,
    marked: Found,
    log: Option<Log>,
    db: Option<Connection>,
    /// Helper files that SQLite creates for the inspection.
    made: Vec<PathBuf>,
}

impl Inspected {
    fn at(dir: &Path) -> Result<Self> {
        let files = Files::new(dir);
        let unreadable = |error| Error::Failed(format!("cannot read {}: {error}", files.database().display()).into());
        if fs::metadata(files.database()).map_err(unreadable)?.len() == 0 {
            return Err(Error::Failed(format!("{} is empty", files.database().display()).into()));
        }
        let claim = directory::try_claim(dir)?;
        let marked = directory::read_mark(&files)?;
        let log = wal::read(&files.log())
            .map_err(|error| Error::Failed(format!("cannot read {}: {error}", files.log().display()).into()))?;
        let made = [files.shared_index(), files.log()].into_iter().filter(|path| claim.is_some() && !path.exists());
        Ok(Self { made: made.collect(), claim, marked, log, db: None, files })
    }

    fn connect(&mut self) -> Result<&Connection> {
        // Without a log and without writers the file alone is the store, and SQLite needs no helper files.
        let alone = self.claim.is_some() && self.log.is_none();
        let db = connection::inspect(&self.files.database(), alone)?;
        Ok(self.db.insert(db))
    }
}

impl Drop for Inspected {
    fn drop(&mut self) {
        self.db = None;
        for path in &self.made {
            // They hold no data.
            let _ = fs::remove_file(path);
        }
    }
}

/// Verifies a store: its log, the mark, each row, the index of keys, the leases, and the pages by SQLite's own check. `progress` gets
/// the rows verified and how many there are.
///
/// # Errors
/// The files cannot be read at all. Damage is not an error but the result.
pub fn verify_store(dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Verified> {
    let mut inspected = Inspected::at(dir)?;
    let mut verified = Verified { in_use: inspected.claim.is_none(), ..Verified::default() };
    if !verified.in_use
        && let Err(error) = check_log(&inspected.files, &inspected.marked, inspected.log.as_ref())
    {
        verified.note(error);
    }
    let database = inspected.files.database();
    let failed = failed::<Fault>(&database);
    let db = inspected.connect()?;
    match database::kind(db) {
        Ok(Kind::Present) => {}
        Ok(Kind::Old) => {
            let format = upgrade::FORMAT;
            let why = format!("{}: format {format} has no checksums; a start upgrades it", database.display());
            return Err(Error::Failed(why.into()));
        }
        Ok(Kind::Empty) => verified.damaged.push(format!("{}: the file has no tables", database.display())),
        Err(fault) => verified.note(failed(fault)),
    }
    if let Err(fault) = verify_rows(db, &mut verified, progress) {
        verified.note(failed(fault));
    }
    let proved = schema::prove(db).map_err(&failed);
    if let Err(fault) = database::check_pages(db) {
        verified.note(failed(fault));
    }
    match proved {
        Ok(proved) => {
            verified.revision = proved.revision;
            if let Err(error) = check_mark(&inspected.files, &inspected.marked, inspected.log.as_ref(), &proved) {
                verified.note(error);
            }
        }
        Err(error) => verified.note(error),
    }
    Ok(verified)
}

impl Verified {
    fn note(&mut self, error: Error) {
        let why = match error {
            Error::Failed(why) => why.to_string(),
            other => other.to_string(),
        };
        if self.damaged.len() < LISTED && !self.damaged.contains(&why) {
            self.damaged.push(why);
        }
    }
}

fn verify_rows(db: &Connection, verified: &mut Verified, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Fault> {
    let total: i64 = db.query_row("SELECT count(*) FROM change", (), |row| row.get(0))?;
    let mut position = Some(i64::MIN);
    while let Some(after) = position {
        let (next, damaged) = database::verify_rows(db, after, ROWS)?;
        damaged.into_iter().for_each(|damage| verified.note(Error::Damaged(damage)));
        position = next;
        if next.is_some() {
            verified.rows = (verified.rows + ROWS as u64).min(total.cast_unsigned());
            progress(verified.rows, total.cast_unsigned());
        }
    }
    Ok(())
}

/// Measures a store. `each` gets the key of every object, and the bytes of its key and value.
///
/// # Errors
/// The files cannot be read.
pub fn measure(dir: &Path, each: &mut dyn FnMut(&[u8], u64)) -> Result<Measured> {
    const OBJECTS: &str = "SELECT newest.key, length(newest.key) + length(change.value) FROM
        (SELECT key, max(id) AS id, create_revision FROM change INDEXED BY change_by_key GROUP BY key) AS newest
        JOIN change ON change.id = newest.id WHERE newest.create_revision != 0";
    let mut inspected = Inspected::at(dir)?;
    let in_use = inspected.claim.is_none();
    let paths = inspected.files.all();
    let database = inspected.files.database();
    let db = inspected.connect()?;
    let mut read = || -> Result<Measured, Fault> {
        let snapshot = db.unchecked_transaction()?;
        if database::kind(&snapshot)? != Kind::Present {
            return Err(Fault::Broken("the file is of an older format; a start upgrades it".into()));
        }
        let mut statement = snapshot.prepare(OBJECTS)?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_blob().unwrap_or_default();
            each(key, row.get::<_, i64>(1)?.cast_unsigned());
        }
        let count = |text| snapshot.query_row(text, (), |row| row.get::<_, i64>(0));
        let newest: Option<i64> = snapshot.query_row("SELECT max(id) FROM change", (), |row| row.get(0))?;
        let newest = newest.map_or(1, super::checksum::revision_of);
        let oldest = Number::Oldest.get(&snapshot)?.cast_unsigned();
        let appended = Number::AppendedAt.get(&snapshot)?.cast_unsigned();
        Ok(Measured {
            in_use,
            revision: newest.max(oldest).max(appended),
            oldest,
            rows: count("SELECT count(*) FROM change")?.cast_unsigned(),
            leases: count("SELECT count(*) FROM leases")?.cast_unsigned(),
            breaks: schema::breaks(&snapshot)?,
            files: Vec::new(),
        })
    };
    let measured = read().map_err(failed(&database))?;
    let length = |path: PathBuf| fs::metadata(&path).map(|data| (path, data.len())).ok();
    Ok(Measured { files: paths.into_iter().filter_map(length).collect(), ..measured })
}
