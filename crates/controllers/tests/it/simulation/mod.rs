//! Histories drawn from seeds: users, members and a failing network act at random. Nothing is ever deleted or
//! overwritten without a decision that requires it, and at rest, members match the control plane.
//!
//! `SEED=7 cargo test -p controllers --test it simulation` runs one history; `SEEDS=20000` runs that many, and
//! `FROM=5000` starts there. `SEED=7 TRACE=1` prints the steps and every request between them.

mod desired_state;
mod failing;
mod history;
mod kinds;
mod members;
mod perform;
mod plane;
mod policies;
mod read;
mod restored;
mod run;
mod state;
mod witness;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use parking_lot::Mutex;

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

/// The number of histories, each with a separate control plane.
const SEEDS: u64 = 100;

/// A history is CPU-bound, because its clock is virtual: one for each of two cores.
const THREADS: usize = 2;

/// Full output is printed for the first few failures.
const SHOWN: usize = 3;

/// A history takes some seconds of real time at most; one that takes this long hangs or loops. `PATIENCE=600` is for
/// machines that have something better to do.
fn patience() -> Duration {
    Duration::from_secs(variable("PATIENCE").unwrap_or(120))
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn histories_converge() {
    all_converge("simulation::histories", variable("SEEDS").unwrap_or(SEEDS), USUAL);
}

/// A backup of the store is restored during the history.
#[test]
fn restored_histories_converge() {
    all_converge("simulation::restored", variable("SEEDS").unwrap_or(SEEDS / 2), RESTORED);
}

/// Clusters fail while evictions are enabled. One takes 2 s of processor time; `FAILING=5000` runs that many.
#[test]
fn failing_histories_converge() {
    all_converge("simulation::failing", variable("FAILING").unwrap_or(SEEDS / 5), FAILING);
}

/// A kind of history: how to print it, and how to run it.
#[derive(Clone, Copy)]
struct Histories {
    shown: fn(u64) -> Vec<String>,
    wrong: fn(u64) -> Vec<String>,
}

const USUAL: Histories = Histories {
    shown: |seed| shown(&history::draw(seed)),
    wrong: |seed| runtime().block_on(run::run(seed, &history::draw(seed))),
};

const RESTORED: Histories = Histories {
    shown: |seed| shown(&history::draw_restored(seed)),
    wrong: |seed| runtime().block_on(run::run(seed, &history::draw_restored(seed))),
};

const FAILING: Histories = Histories {
    shown: |seed| shown(&failing::draw(seed)),
    wrong: |seed| runtime().block_on(failing::run(seed, &failing::draw(seed))),
};

fn shown(steps: &[impl std::fmt::Debug]) -> Vec<String> {
    steps.iter().map(|step| format!("{step:?}")).collect()
}

type Draw = fn(u64) -> Vec<history::Action>;

fn all_converge(test: &str, count: u64, histories: Histories) {
    let (first, count) = match variable("SEED") {
        Some(seed) => (seed, 1),
        None => (variable("FROM").unwrap_or(0), count),
    };
    let (next, enough) = (AtomicU64::new(first), AtomicBool::new(false));
    let failures: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        while !enough.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            if let Some(failure) = watched(test, seed, histories) {
                let mut failures = failures.lock();
                failures.push(failure);
                enough.store(failures.len() >= SHOWN, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Almost every drawn history tests something. `SHOW=1` with `--nocapture` prints how often each step is drawn.
#[test]
fn every_kind_of_step_is_drawn_often() {
    const KINDS: [&str; 33] = [
        "Template",
        "DropTemplate",
        "ReplaceTemplate",
        "Hold",
        "Policy",
        "DropPolicy",
        "Priority",
        "Preserve",
        "Suspend",
        "Waver",
        "Override",
        "DropOverride",
        "SuspendScheduling",
        "DropBinding",
        "Evict",
        "EndEvictions",
        "EditInMember",
        "DeleteInMember",
        "CreateInMember",
        "DropNamespace",
        "MakeNamespace",
        "DropNamespaceIn",
        "DropDefinition",
        "MakeDefinition",
        "Zone",
        "Taint",
        "Cut",
        "Heal",
        "Unjoin",
        "Join",
        "Rejoin",
        "Restart",
        "Overlap",
    ];
    let mut drawn: BTreeMap<String, usize> = BTreeMap::new();
    for action in (0..200).flat_map(history::draw) {
        let shown = format!("{action:?}");
        let named = shown.split_once("amendment: ").map_or(shown.as_str(), |(_, amendment)| amendment);
        let kind: String = named.chars().take_while(char::is_ascii_alphanumeric).collect();
        *drawn.entry(kind).or_default() += 1;
    }
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{drawn:?}");
    }
    let rare: Vec<&str> = KINDS.into_iter().filter(|kind| drawn.get(*kind).is_none_or(|count| *count < 20)).collect();
    assert!(rare.is_empty(), "{rare:?} of {drawn:?}");
}

/// A history is reproducible. Each thread has hash maps with their own order.
#[test]
fn a_history_is_reproducible() {
    for seed in variable("SEED").map_or(0..4, |seed| seed..seed + 1) {
        let draw = if seed % 2 == 0 { history::draw } else { history::draw_restored };
        let [once, again] = [(), ()].map(|()| std::thread::spawn(move || recorded(seed, draw)));
        let [once, again] = [once, again].map(|run| run.join().expect("no panic"));
        let differs = once.iter().zip(&again).position(|(once, again)| once != again);
        if let Some(at) = differs.or((once.len() != again.len()).then(|| once.len().min(again.len()))) {
            let around = |run: &[String]| run[at.saturating_sub(5)..(at + 5).min(run.len())].join("\n");
            panic!("seed {seed} differs after {at} lines:\n{}\nagain:\n{}", around(&once), around(&again));
        }
    }
}

/// Thousands of histories run in one process.
#[test]
fn a_history_leaves_no_state() {
    for seed in 0..2 {
        let left = runtime().block_on(run::traces(seed, &history::draw(seed)));
        let left: Vec<String> = left.into_iter().filter(|(_, is_held)| is_held()).map(|(name, _)| name).collect();
        assert_eq!(left, [""; 0], "seed {seed}");
    }
}

fn recorded(seed: u64, draw: Draw) -> Vec<String> {
    runtime().block_on(run::record(seed, &draw(seed)))
}

/// Runs a history on its own thread, which is abandoned if it does not end: that, and a panic, are failures of the seed
/// like others.
fn watched(test: &str, seed: u64, histories: Histories) -> Option<String> {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let wrong = (histories.wrong)(seed);
        // The receiver may have given up after a time-out.
        drop(done.send(wrong));
    });
    let wrong = match result.recv_timeout(patience()) {
        Ok(wrong) => wrong,
        Err(RecvTimeoutError::Timeout) => vec![format!("it has not ended after {} s", patience().as_secs())],
        Err(RecvTimeoutError::Disconnected) => {
            vec![thread.join().map_or_else(panic_message, |()| "it ended early".to_owned())]
        }
    };
    (!wrong.is_empty()).then(|| {
        format!(
            "{}\nafter {}\nagain with: SEED={seed} cargo test -p controllers --test it {test}",
            wrong.join("\n"),
            (histories.shown)(seed).join("\n      "),
        )
    })
}

/// Each history has a separate one, so that nothing of it outlives it.
fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime")
}

/// The message of a panic.
fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
