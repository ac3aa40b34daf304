//! Runs the target in `FUZZ_TARGET` under libFuzzer; the arguments are libFuzzer's options.
#![no_main]

use std::sync::OnceLock;

use fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let Some(target) = fuzz::target(&name) else {
            let known: Vec<&str> = fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            eprintln!("FUZZ_TARGET={name:?} is not one of {}", known.join(", "));
            std::process::exit(2);
        };
        let _ = TARGET.set(target);
    },
    |input: &[u8]| {
        if let Some(target) = TARGET.get() {
            target(input);
        }
    }
);
