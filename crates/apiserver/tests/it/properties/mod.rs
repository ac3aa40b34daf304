//! A random sequence of verbs on random objects, with watchers of every kind open: watches, lists and the store always
//! agree.
//!
//! A run follows from its seed alone. `PROPERTY_SEED=7 PROPERTY_STEPS=300 cargo test -p apiserver --test it properties`
//! repeats one; without a seed a fixed series runs, and `PROPERTY_RUNS` makes it longer. See docs/testing.md.

mod bodies;
mod run;
mod steps;
mod unchanged;
mod watchers;

use run::Run;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|e| panic!("{variable}={text:?}: {e}")))
}

/// Prints how to repeat the current run when the test panics.
struct Repeat {
    seed: u64,
    steps: u64,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "repeat with: PROPERTY_SEED={} PROPERTY_STEPS={} cargo test -p apiserver --test it properties",
                self.seed, self.steps
            );
        }
    }
}

#[test]
fn properties_watchers_lists_and_the_store_never_disagree() {
    // Each is a separate server; 4 x 400 steps take about a second in a build without optimisation.
    let steps = number("PROPERTY_STEPS").unwrap_or(400);
    let seeds = match number("PROPERTY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("PROPERTY_RUNS").unwrap_or(4) + 1,
    };
    for seed in seeds {
        let repeat = Repeat { seed, steps };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut run = Run::start(seed).await;
            for _ in 0..steps {
                run.step().await;
            }
            run.check().await;
            run.finish();
        });
        drop(repeat);
    }
}
