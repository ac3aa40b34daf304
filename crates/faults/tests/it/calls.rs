//! The Nth call on a file fails, for every N.
//!
//! A normal run takes a sample; `FAULTS=all` takes all, and `FAULTS=300` about 300 of each kind.

use std::collections::BTreeSet;
use std::path::Path;

use faults::{Call, Dice, Disk, Failure};
use storage::Error;

use crate::life::{End, Life, Notes, directory, must_be_well, must_go_on};
use crate::model::Model;
use crate::old;

/// How calls fail: which, how many in a row, and whether a write is torn.
#[derive(Clone, Copy, Debug)]
struct Kind {
    failure: Failure,
    count: u64,
    torn: bool,
}

const KINDS: [Kind; 7] = [
    Kind { failure: Failure::Broken, count: 1, torn: false },
    Kind { failure: Failure::Broken, count: 1, torn: true },
    Kind { failure: Failure::Broken, count: u64::MAX, torn: false },
    Kind { failure: Failure::Full, count: 1, torn: false },
    Kind { failure: Failure::Full, count: u64::MAX, torn: true },
    Kind { failure: Failure::FullCopyOnWrite, count: 7, torn: true },
    Kind { failure: Failure::FullCopyOnWrite, count: u64::MAX, torn: false },
];

/// The distance between calls that fail.
fn stride(calls: usize) -> usize {
    match std::env::var("FAULTS") {
        Ok(all) if all == "all" => 1,
        Ok(count) => (calls / count.parse::<usize>().unwrap().max(1)).max(1),
        Err(_) => (calls / 40).max(1),
    }
}

/// Runs of one store; its operations are the same each time, up to the first failure.
fn live(dir: &Path, disk: &Disk, model: &mut Model, reads: bool, what: &str) {
    let mut dice = Dice::new(11);
    for (number, end) in [End::Closed, End::Dropped, End::Closed].into_iter().enumerate() {
        let what = format!("{what}, life {number}");
        let life = Life { dir, disk: Some(disk), steps: 24, end, reads };
        match life.live(model, &mut Notes::new(), &mut dice, &what) {
            Ok(()) => {}
            Err(Error::NoSpace) => {}
            Err(Error::Failed(why)) => {
                assert!(why.contains("store"), "{what}: the file is not named: {why}");
                assert!(!disk.failed().is_empty(), "{what}: no call failed, and it does not open: {why}");
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// Fails calls in runs of a store that starts as `prepare` leaves it, until there are no more calls.
fn every_call(prepare: impl Fn(&Path) -> Model) {
    let mut seen = BTreeSet::new();
    for kind in KINDS {
        let mut first = 0;
        let mut step = 1;
        loop {
            let root = directory();
            let dir = root.path().join("store");
            std::fs::create_dir(&dir).unwrap();
            let mut model = prepare(&dir);
            let what = format!("{kind:?}, call {first}");
            let reads = kind.failure != Failure::Broken;
            if first == 0 {
                // The number of calls.
                let disk = Disk::new(&dir).unwrap();
                disk.fail(kind.failure, u64::MAX, 0, false);
                live(&dir, &disk, &mut model.clone(), reads, &what);
                step = stride(disk.counted() as usize) as u64;
                drop(disk);
                std::fs::remove_dir_all(&dir).unwrap();
                std::fs::create_dir(&dir).unwrap();
                drop(prepare(&dir));
            }
            let disk = Disk::new(&dir).unwrap();
            disk.fail(kind.failure, first, kind.count, kind.torn);
            live(&dir, &disk, &mut model, reads, &what);
            disk.heal();
            let failed = disk.failed();
            must_go_on(&dir, &mut model, &format!("{what}, {:?}", failed.first()));
            seen.extend(failed.iter().map(|(call, name)| (*call, name.clone())));
            if failed.is_empty() {
                break;
            }
            first += step;
        }
    }
    for call in [Call::Open, Call::Create, Call::Read, Call::Write, Call::Grow, Call::Sync, Call::Lock] {
        assert!(seen.iter().any(|(seen, _)| *seen == call), "no {call:?} failed: {seen:?}");
    }
}

#[test]
fn failing_calls_lose_nothing() {
    every_call(|_| Model::empty());
}

#[test]
fn failing_calls_during_an_upgrade_lose_nothing() {
    every_call(old::make);
}

/// A full disk: reads succeed, also after a restart, and writes do when there is space again.
#[test]
fn a_store_on_a_disk_without_space_can_be_read() {
    let root = directory();
    let mut model = Model::empty();
    let mut dice = Dice::new(5);
    let disk = Disk::new(root.path()).unwrap();
    let life = |steps, end| Life { dir: root.path(), disk: Some(&disk), steps, end, reads: true };
    let mut live = |life: Life<'_>, what: &str| {
        let opened = life.live(&mut model, &mut Notes::new(), &mut dice, what);
        opened.unwrap_or_else(|error| panic!("{what}: {:?}: {error}", disk.failed()));
    };
    live(life(40, End::Dropped), "space");
    for (what, end) in [("full", End::Dropped), ("full again", End::Closed), ("full for the third time", End::Dropped)]
    {
        disk.fail(Failure::Full, 0, u64::MAX, false);
        live(life(30, end), what);
        assert!(!disk.failed().is_empty(), "{what}");
    }
    disk.heal();
    must_go_on(root.path(), &mut model, "space again");
    must_be_well(root.path(), &mut model, "at last");
}
