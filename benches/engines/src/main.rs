//! Compares embedded databases for the store. Clients put 2 KiB values; one committer thread takes all waiting puts,
//! writes them in one engine transaction with one durable commit, and acknowledges them together. Every engine has the
//! same two tables: revision -> (key, value), and an index (key, revision).
//!
//! `engines [DIR [SECONDS]]` prints the table. Run it under `strace -f -c -e fsync,fdatasync` with `ENGINE` and
//! `CLIENTS` set to count the syncs of one cell (the committer prints its own number of commits).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// A batch to commit: revision, key and value of each put.
type Batch = [(u64, Vec<u8>, Vec<u8>)];

trait Engine: Send {
    /// Returns after everything in the batch is durable.
    fn commit(&mut self, batch: &Batch) -> Result<(), Error>;
    /// The newest revision of a key, which guards compare.
    fn newest(&self, key: &[u8]) -> Result<Option<u64>, Error>;
    /// Counts keys by walking the index, as opening a store would.
    fn count(&self) -> Result<u64, Error>;
}

fn index_key(key: &[u8], revision: u64) -> Vec<u8> {
    [key, &[0], &revision.to_be_bytes()].concat()
}

fn revision_of(index_key: &[u8]) -> u64 {
    let tail = &index_key[index_key.len() - 8..];
    u64::from_be_bytes(tail.try_into().expect("eight bytes"))
}

struct Redb(redb::Database);

const LOG: redb::TableDefinition<u64, (&[u8], &[u8])> = redb::TableDefinition::new("log");
const INDEX: redb::TableDefinition<&[u8], ()> = redb::TableDefinition::new("index");

impl Redb {
    fn open(dir: &Path) -> Result<Self, Error> {
        let db = redb::Builder::new().set_cache_size(8 << 20).create(dir.join("redb"))?;
        let txn = db.begin_write()?;
        txn.open_table(LOG)?;
        txn.open_table(INDEX)?;
        txn.commit()?;
        Ok(Self(db))
    }
}

impl Engine for Redb {
    fn commit(&mut self, batch: &Batch) -> Result<(), Error> {
        let txn = self.0.begin_write()?;
        {
            let mut log = txn.open_table(LOG)?;
            let mut index = txn.open_table(INDEX)?;
            for (revision, key, value) in batch {
                log.insert(revision, (key.as_slice(), value.as_slice()))?;
                index.insert(index_key(key, *revision).as_slice(), ())?;
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn newest(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        use redb::ReadableDatabase;
        let index = self.0.begin_read()?.open_table(INDEX)?;
        let (low, high) = (index_key(key, 0), index_key(key, u64::MAX));
        let last = index.range(low.as_slice()..=high.as_slice())?.next_back().transpose()?;
        Ok(last.map(|(key, _)| revision_of(key.value())))
    }

    fn count(&self) -> Result<u64, Error> {
        use redb::{ReadableDatabase, ReadableTableMetadata};
        Ok(self.0.begin_read()?.open_table(INDEX)?.len()?)
    }
}

struct Fjall {
    db: fjall::Database,
    log: fjall::Keyspace,
    index: fjall::Keyspace,
}

impl Fjall {
    fn open(dir: &Path) -> Result<Self, Error> {
        let db = fjall::Database::builder(dir.join("fjall")).cache_size(8 << 20).worker_threads(1).open()?;
        let options = || fjall::KeyspaceCreateOptions::default().max_memtable_size(8 << 20);
        let (log, index) = (db.keyspace("log", options)?, db.keyspace("index", options)?);
        Ok(Self { db, log, index })
    }
}

impl Engine for Fjall {
    fn commit(&mut self, batch: &Batch) -> Result<(), Error> {
        let mut write = self.db.batch().durability(Some(fjall::PersistMode::SyncData));
        for (revision, key, value) in batch {
            write.insert(&self.log, revision.to_be_bytes(), [key.as_slice(), value.as_slice()].concat());
            write.insert(&self.index, index_key(key, *revision), []);
        }
        Ok(write.commit()?)
    }

    fn newest(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let last = self.index.range(index_key(key, 0)..=index_key(key, u64::MAX)).next_back();
        Ok(last.map(|guard| guard.key()).transpose()?.map(|key| revision_of(&key)))
    }

    fn count(&self) -> Result<u64, Error> {
        Ok(self.index.len()? as u64)
    }
}

struct Sqlite(rusqlite::Connection);

impl Sqlite {
    fn open(dir: &Path) -> Result<Self, Error> {
        let db = rusqlite::Connection::open(dir.join("sqlite"))?;
        db.execute_batch(
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-8192;
             PRAGMA wal_autocheckpoint=4000;
             CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB) STRICT;
             CREATE UNIQUE INDEX IF NOT EXISTS log_key ON log(key, id);",
        )?;
        Ok(Self(db))
    }
}

impl Engine for Sqlite {
    fn commit(&mut self, batch: &Batch) -> Result<(), Error> {
        let txn = self.0.transaction()?;
        {
            let mut insert = txn.prepare_cached("INSERT INTO log(id, key, value) VALUES (?1, ?2, ?3)")?;
            for (revision, key, value) in batch {
                insert.execute((*revision as i64, key, value))?;
            }
        }
        Ok(txn.commit()?)
    }

    fn newest(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let mut query = self.0.prepare_cached("SELECT max(id) FROM log WHERE key = ?1")?;
        let id: Option<i64> = query.query_row((key,), |row| row.get(0))?;
        Ok(id.map(|id| id as u64))
    }

    fn count(&self) -> Result<u64, Error> {
        let count: i64 = self.0.query_row("SELECT count(*) FROM log INDEXED BY log_key", (), |row| row.get(0))?;
        Ok(count as u64)
    }
}

const ENGINES: [&str; 3] = ["redb", "fjall", "sqlite"];

fn open(name: &str, dir: &Path) -> Result<Box<dyn Engine>, Error> {
    Ok(match name {
        "redb" => Box::new(Redb::open(dir)?),
        "fjall" => Box::new(Fjall::open(dir)?),
        _ => Box::new(Sqlite::open(dir)?),
    })
}

struct Put {
    key: Vec<u8>,
    value: Vec<u8>,
    done: Sender<()>,
}

/// Commits all waiting puts together, until all clients are gone. Returns the number of commits.
fn committer(mut engine: Box<dyn Engine>, puts: Receiver<Put>) -> u64 {
    let (mut revision, mut commits) = (0, 0);
    while let Ok(first) = puts.recv() {
        let mut waiting = vec![first];
        waiting.extend(puts.try_iter());
        let (mut batch, mut acknowledge) = (Vec::new(), Vec::new());
        for put in waiting {
            engine.newest(&put.key).expect("read");
            revision += 1;
            batch.push((revision, put.key, put.value));
            acknowledge.push(put.done);
        }
        engine.commit(&batch).expect("commit");
        commits += 1;
        acknowledge.into_iter().for_each(|done| drop(done.send(())));
    }
    commits
}

/// Puts until stopped; returns the latencies.
fn client(id: u64, puts: Sender<Put>, stop: &AtomicBool) -> Vec<Duration> {
    let (done, wait) = mpsc::channel();
    let (mut latencies, mut random) = (Vec::new(), id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while !stop.load(Ordering::Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = format!("/registry/work.karmada.io/works/karmada-es-member1/nginx-{:05}", random % 20_000);
        let value = random.to_le_bytes().repeat(256);
        let start = Instant::now();
        if puts.send(Put { key: key.into_bytes(), value, done: done.clone() }).is_err() || wait.recv().is_err() {
            break;
        }
        latencies.push(start.elapsed());
    }
    latencies
}

fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let data = entry.metadata().ok()?;
            Some(if data.is_dir() { disk_bytes(&entry.path()) } else { data.blocks() * 512 })
        })
        .sum()
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn cell(name: &str, clients: u64, root: &Path, seconds: u64) -> Result<(), Error> {
    let dir = tempfile::tempdir_in(root)?;
    let engine = open(name, dir.path())?;
    let (send, receive) = mpsc::channel();
    let committer = std::thread::spawn(move || committer(engine, receive));
    let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let start = Instant::now();
    let threads: Vec<_> = (1..=clients)
        .map(|id| {
            let send = send.clone();
            std::thread::spawn(move || client(id, send, stop))
        })
        .collect();
    drop(send);
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let mut latencies: Vec<Duration> = threads.into_iter().flat_map(|t| t.join().expect("client")).collect();
    let elapsed = start.elapsed();
    let commits = committer.join().expect("committer");
    latencies.sort();
    let (puts, disk) = (latencies.len(), disk_bytes(dir.path()));
    let reopen = Instant::now();
    let counted = open(name, dir.path())?.count()?;
    println!(
        "{name:7} {clients:7} {:8.0} {:8.2} {:8.2} {:11.3} {:9.2} {:8} {:9.0}   {counted}",
        puts as f64 / elapsed.as_secs_f64(),
        latencies[puts / 2].as_secs_f64() * 1e3,
        latencies[puts * 99 / 100].as_secs_f64() * 1e3,
        commits as f64 / puts as f64,
        disk as f64 / (puts as f64 * 2048.0),
        resident_mib(),
        reopen.elapsed().as_secs_f64() * 1e3,
    );
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().unwrap_or_else(|| ".".into());
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let only = |variable: &str| std::env::var(variable).ok();
    println!("engine  clients   puts/s   p50 ms   p99 ms commits/put disk/data  RSS MiB reopen ms   rows");
    for clients in [1, 16, 128] {
        for name in ENGINES {
            let chosen = only("ENGINE").is_none_or(|e| e == name);
            if chosen && only("CLIENTS").is_none_or(|c| c == clients.to_string()) {
                cell(name, clients, Path::new(&root), seconds)?;
            }
        }
    }
    Ok(())
}
