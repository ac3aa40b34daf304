//! Runs of a store: it opens, is compared with the acknowledged state, works for a while, and ends.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use faults::{Dice, Disk};
use futures::future::join_all;
use storage::embedded::{EmbeddedStore, Options};
use storage::{Error, Op, Result, Store, Txn, TxnOutcome};

use crate::model::{Model, Ops, State, everything};

/// In memory if possible: the disk is simulated anyway.
pub fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// As a killed process, or a failed machine.
    Dropped,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Life<'a> {
    pub dir: &'a Path,
    /// The disk whose record receives notes.
    pub disk: Option<&'a Disk>,
    pub steps: usize,
    pub end: End,
    /// Reads must succeed although calls fail: the disk is only full.
    pub reads: bool,
}

/// The models that notes in the record refer to.
pub type Notes = Vec<Model>;

fn run<T>(life: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    // When it is dropped, everything that belongs to the store has ended.
    runtime.block_on(life)
}

impl Life<'_> {
    /// Executes the run. An error if the store does not open.
    pub fn live(&self, model: &mut Model, notes: &mut Notes, dice: &mut Dice, what: &str) -> Result<()> {
        run(async {
            let options = Options { keep_revisions: 60, ..Options::default() };
            let store = EmbeddedStore::open(self.dir, options).await?;
            // While calls fail a read may fail too; the next run compares again.
            if self.disk.is_none_or(|disk| disk.failed().is_empty()) && self.steps == 0 {
                model.settle(&store, what).await;
            } else {
                self.glance(&store, model, what).await;
            }
            self.note(model, notes);
            for step in 0..self.steps {
                self.step(&store, model, notes, dice, &format!("{what}, step {step}")).await;
            }
            match self.end {
                End::Closed => store.close().await,
                End::Dropped => Ok(()),
            }
        })
    }

    /// Settles doubtful transactions.
    async fn glance(&self, store: &EmbeddedStore, model: &mut Model, what: &str) {
        let revision = store.revision().await.unwrap();
        model.settle_doubtful(store, revision, what).await;
        model.synced = None;
    }

    fn has_failed(&self) -> bool {
        self.disk.is_some_and(|disk| !disk.failed().is_empty())
    }

    fn note(&self, model: &Model, notes: &mut Notes) {
        if let Some(disk) = self.disk {
            disk.note(notes.len());
            notes.push(model.clone());
        }
    }

    async fn step(&self, store: &EmbeddedStore, model: &mut Model, notes: &mut Notes, dice: &mut Dice, what: &str) {
        match dice.below(100) {
            0..62 => self.write(store, model, notes, dice, 1).await,
            62..72 => {
                let count = 2 + dice.below(3);
                self.write(store, model, notes, dice, count).await;
            }
            72..77 => {
                if let Some(lease) = known(store.grant_lease(100_000).await, what) {
                    model.leases.push(lease);
                    self.note(model, notes);
                }
            }
            77..82 => {
                let target =
                    model.state.revision.saturating_sub(dice.below(8) as u64).max(model.perhaps_compacted).max(1);
                model.perhaps_compacted = model.perhaps_compacted.max(target);
                self.note(model, notes);
                if known(store.compact(target).await, what).is_some() {
                    model.compacted = target;
                    self.note(model, notes);
                }
            }
            82..88 => tokio::time::sleep(Duration::from_millis(1200)).await,
            88..94 => self.postpone(store, model, notes, dice, what).await,
            _ => self.read(store, model, what).await,
        }
    }

    /// Concurrent transactions; they are executed in this order.
    async fn write(&self, store: &EmbeddedStore, model: &mut Model, notes: &mut Notes, dice: &mut Dice, count: usize) {
        let mut state = model.state.clone();
        let all: Vec<Ops> = (0..count).map(|_| transaction(&mut state, dice)).collect();
        let before = model.doubtful.len();
        model.doubtful.extend(all.iter().cloned());
        self.note(model, notes);
        let outcomes = join_all(all.iter().map(|ops| store.txn(request(ops)))).await;
        model.doubtful.truncate(before);
        for (ops, outcome) in all.into_iter().zip(outcomes) {
            match outcome {
                Ok(TxnOutcome::Committed { revision }) => model.acknowledged(ops, revision),
                Ok(outcome) => panic!("{outcome:?}"),
                Err(Error::NoSpace | Error::Failed(_)) => model.doubtful.push(ops),
                // The replaced value could not be read.
                Err(Error::Damaged(_)) if self.has_failed() => model.doubtful.push(ops),
                Err(error) => panic!("{error}"),
            }
        }
        self.note(model, notes);
    }

    async fn postpone(&self, store: &EmbeddedStore, model: &mut Model, notes: &mut Notes, dice: &mut Dice, what: &str) {
        // A sync that failed before leaves changes without one.
        model.synced.get_or_insert_with(|| (model.state.clone(), Vec::new()));
        self.note(model, notes);
        if known(store.postpone_syncs().await, what).is_none() {
            // Commits may be synced later, or not.
            return;
        }
        for _ in 0..dice.below(5) {
            self.write(store, model, notes, dice, 1).await;
        }
        if known(store.sync().await, what).is_some() {
            model.synced = None;
            self.note(model, notes);
        }
    }

    async fn read(&self, store: &EmbeddedStore, model: &Model, what: &str) {
        match store.range(everything()).await {
            Ok(found) => model.compare(&found, what),
            Err(error) => {
                let failed = self.disk.map(Disk::failed).unwrap_or_default();
                let unknown = matches!(error, Error::Failed(_) | Error::Damaged(_));
                assert!(!self.reads && self.has_failed() && unknown, "{what}: {failed:?}: {error}");
            }
        }
    }
}

/// A disk error causes only these errors.
fn known<T>(outcome: Result<T>, what: &str) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(Error::NoSpace | Error::Failed(_) | Error::Damaged(_)) => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

fn transaction(state: &mut State, dice: &mut Dice) -> Ops {
    let number = state.revision;
    let mut ops = vec![(Bytes::from("/last"), Some(Bytes::from(number.to_string())))];
    for _ in 0..dice.below(4) {
        let key = Bytes::from(format!("/key/{}", dice.below(12)));
        if ops.iter().any(|(other, _)| *other == key) {
            continue;
        }
        let sizes = if dice.percent(5) { 5 } else { 4 };
        let size = [10, 300, 3000, 9000, 60_000][dice.below(sizes)];
        let value = Bytes::from(vec![number as u8; size]);
        let delete = dice.percent(20) && state.keys.contains_key(&key);
        ops.push((key, (!delete).then_some(value)));
    }
    // In the order in which a watch delivers them.
    ops.sort_by(|(one, _), (other, _)| one.cmp(other));
    state.apply(&ops);
    ops
}

fn request(ops: &Ops) -> Txn {
    let op = |(key, value): &(Bytes, Option<Bytes>)| match value {
        Some(value) => Op::Put { key: key.clone(), value: value.clone(), lease: None },
        None => Op::Delete { key: key.clone() },
    };
    Txn { guards: vec![], ops: ops.iter().map(op).collect() }
}

/// Opens a store on a healthy disk, which must succeed, and compares it with the acknowledged state.
pub fn must_be_well(dir: &Path, model: &mut Model, what: &str) {
    let life = Life { dir, disk: None, steps: 0, end: End::Closed, reads: true };
    let opened = life.live(model, &mut Notes::new(), &mut Dice::new(0), what);
    opened.unwrap_or_else(|error| panic!("{what}: the disk is well, and the store does not open: {error}"));
}

/// The same for a store that then continues.
pub fn must_go_on(dir: &Path, model: &mut Model, what: &str) {
    must_be_well(dir, model, what);
    let mut dice = Dice::new(model.state.revision);
    let life = Life { dir, disk: None, steps: 6, end: End::Dropped, reads: true };
    let revision = model.state.revision;
    life.live(model, &mut Notes::new(), &mut dice, what).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(model.doubtful.is_empty(), "{what}: writes fail on a disk that is well");
    assert!(model.state.revision >= revision, "{what}");
    must_be_well(dir, model, what);
}
