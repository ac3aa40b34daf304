//! Power failures: of unsynced changes any part is on the disk, in any order.
//!
//! `FAULT_SEEDS=5000` plays this many histories; `FAULT_FROM=7 FAULT_SEEDS=1` repeats the one with seed 7.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use faults::{Dice, Disk, Failure, Files, PowerFailure, Recorded};
use storage::Error;

use crate::life::{End, Life, Notes, directory, must_be_well, must_go_on};
use crate::model::Model;
use crate::old;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().unwrap())
}

fn contents(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Creates a directory with these files, and sometimes with garbage in the shared index of the log, as a failure leaves
/// it.
fn restore(dir: &Path, files: &Files, dice: &mut Dice) {
    fs::create_dir(dir).unwrap();
    for (name, content) in files.iter().filter(|(name, _)| !name.ends_with("-shm") && !name.ends_with(".lock")) {
        fs::write(dir.join(name), content).unwrap();
    }
    if dice.percent(10) {
        let garbage: Vec<u8> = (0..32_768).map(|_| dice.word() as u8).collect();
        fs::write(dir.join("store.sqlite-shm"), garbage).unwrap();
    }
}

/// The record of several runs of a store, and the model at each note.
struct History {
    names: BTreeMap<String, usize>,
    before: Files,
    changes: Vec<Recorded>,
    notes: Notes,
}

/// Records runs of a store in `dir`. With `failing` one call fails during a run.
fn record(dir: &Path, model: &mut Model, dice: &mut Dice, lives: usize, failing: bool) -> History {
    let disk = Disk::new(dir).unwrap();
    let (names, before) = (disk.files(), contents(dir));
    disk.record();
    let mut notes = Notes::new();
    disk.note(0);
    notes.push(model.clone());
    for _ in 0..lives {
        if failing && dice.percent(60) {
            let failures = [Failure::Broken, Failure::Full, Failure::FullCopyOnWrite];
            let failure = failures[dice.below(3)];
            let count = [1, 3, u64::MAX][dice.below(3)];
            disk.fail(failure, dice.below(400) as u64, count, dice.percent(50));
        }
        let end = if dice.percent(50) { End::Closed } else { End::Dropped };
        let life = Life { dir, disk: Some(&disk), steps: 5 + dice.below(30), end, reads: false };
        match life.live(model, &mut notes, dice, "recorded") {
            Ok(()) => {}
            Err(error @ (Error::Failed(_) | Error::NoSpace)) => {
                assert!(!disk.failed().is_empty(), "no call failed: {error}");
            }
            Err(error) => panic!("{error}"),
        }
        disk.heal();
    }
    History { names, before, changes: disk.recorded(), notes }
}

/// Replays a record up to before change `until`; returns the model at that time.
fn play(history: &History, until: usize) -> (PowerFailure, Model) {
    let mut disk = PowerFailure::new(history.names.clone(), &history.before);
    let mut known = 0;
    for change in &history.changes[..until] {
        disk.follow(change);
        if let Recorded::Noted(note) = change {
            known = *note;
        }
    }
    (disk, history.notes[known].after_power_failure())
}

/// Fails the power after each change of a record, and opens the possible results.
fn fail_everywhere(prepare: impl Fn(&Path) -> Model, samples: usize) {
    let root = directory();
    let dir = root.path().join("store");
    fs::create_dir(&dir).unwrap();
    let mut model = prepare(&dir);
    let history = record(&dir, &mut model, &mut Dice::new(3), 3, false);
    let mut dice = Dice::new(number("FAULT_FROM", 0));
    let step = (history.changes.len() / samples).max(1);
    for until in (0..=history.changes.len()).step_by(step) {
        let (disk, known) = play(&history, until);
        for turn in 0..2 {
            let what = format!("power failure before change {until} of {}, turn {turn}", history.changes.len());
            let dir = root.path().join(format!("{until}-{turn}"));
            restore(&dir, &disk.state(&mut dice), &mut dice);
            must_be_well(&dir, &mut known.clone(), &what);
            fs::remove_dir_all(dir).unwrap();
        }
    }
    let (disk, mut known) = play(&history, history.changes.len());
    let dir = root.path().join("whole");
    restore(&dir, &disk.whole(), &mut dice);
    known.synced = None;
    must_go_on(&dir, &mut known, "nothing lost");
}

fn samples() -> usize {
    number("FAULT_SEEDS", 100) as usize * 3
}

#[test]
fn a_power_failure_loses_no_acknowledged_write() {
    fail_everywhere(|_| Model::empty(), samples());
}

#[test]
fn a_power_failure_during_an_upgrade_loses_nothing() {
    fail_everywhere(old::make, samples());
}

/// Failing calls, power failures and restarts, one after another on one store.
#[test]
fn no_history_of_failures_loses_an_acknowledged_write() {
    let from = number("FAULT_FROM", 0);
    for seed in from..from + number("FAULT_SEEDS", 60) {
        let mut dice = Dice::new(seed);
        let root = directory();
        let mut dir = root.path().join("0");
        fs::create_dir(&dir).unwrap();
        let mut model = if dice.percent(20) { old::make(&dir) } else { Model::empty() };
        for round in 1..=4 {
            let what = format!("FAULT_FROM={seed} FAULT_SEEDS=1: round {round}");
            let lives = 1 + dice.below(2);
            let history = record(&dir, &mut model, &mut dice, lives, true);
            let until = if dice.percent(20) { history.changes.len() } else { dice.below(history.changes.len() + 1) };
            let (disk, known) = play(&history, until);
            model = known;
            dir = root.path().join(round.to_string());
            restore(&dir, &disk.state(&mut dice), &mut dice);
            must_be_well(&dir, &mut model, &what);
        }
        must_go_on(&dir, &mut model, &format!("FAULT_FROM={seed} FAULT_SEEDS=1"));
    }
}
