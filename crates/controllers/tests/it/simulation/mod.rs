//! Histories drawn from seeds: users, members and a bad network do as they like, and whatever they did, nothing is ever
//! deleted or overwritten that no decision asked for, and once they stop, members are what the control plane says.
//!
//! `SEED=7 cargo test -p controllers --test it simulation` runs one history alone; `SEEDS=2000` runs that many, and
//! `FROM=5000` those from there on.

mod history;
mod kinds;
mod members;
mod perform;
mod plane;
mod policies;
mod read;
mod run;
mod state;
mod witness;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

/// How many histories, each with a control plane of its own.
const SEEDS: u64 = 60;

/// A history computes all the time, for its clock is virtual: one for each of two cores.
const THREADS: usize = 2;

/// Other things a seed may be asked for are shown with the first few failures.
const SHOWN: usize = 3;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn histories_end_well() {
    let (first, count) = match variable("SEED") {
        Some(seed) => (seed, 1),
        None => (variable("FROM").unwrap_or(0), variable("SEEDS").unwrap_or(SEEDS)),
    };
    let (next, enough) = (AtomicU64::new(first), AtomicBool::new(false));
    let failures: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        while !enough.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            if let Some(failure) = failure_of(seed) {
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

/// Runs a history in a runtime of its own, so that nothing of it outlives it.
fn failure_of(seed: u64) -> Option<String> {
    let history = history::draw(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let wrong = runtime.expect("a runtime").block_on(run::run(seed, &history));
    (!wrong.is_empty()).then(|| {
        let steps: Vec<String> = history.iter().map(|action| format!("{action:?}")).collect();
        format!(
            "{}\nafter {}\nagain with: SEED={seed} cargo test -p controllers --test it simulation",
            wrong.join("\n"),
            steps.join("\n      "),
        )
    })
}
