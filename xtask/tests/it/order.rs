//! Simulated histories depend on the seed only: no unseeded choices and no unseeded order.

use std::path::{Path, PathBuf};

/// The crates of a simulated history, and the files in them that are not part of it.
const SIMULATED: &[&str] = &[
    "apiserver",
    "client",
    "controller-runtime",
    "controllers",
    "kube-controllers",
    "scheduler",
    "storage",
    "transport",
    "world",
];
const BY_SOCKET: &[&str] = &["apiserver/src/serve.rs", "apiserver/src/serve/connection.rs"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory of this workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `select!` polls its branches in random order unless it is biased; tokio's `watch` wakes waiters in random order.
#[test]
fn no_unseeded_choices() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut wrong = Vec::new();
    for name in SIMULATED {
        let mut found = Vec::new();
        sources(&crates.join(name).join("src"), &mut found);
        assert!(!found.is_empty(), "{name} has sources");
        for path in found {
            let shown = path.strip_prefix(&crates).expect("within").to_string_lossy().into_owned();
            if BY_SOCKET.contains(&shown.as_str()) {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source");
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for (number, line) in lines.iter().enumerate() {
                let next = lines.get(number + 1).copied().unwrap_or_default();
                if line.ends_with("select! {") && next != "biased;" {
                    wrong.push(format!("{shown}:{}: a select! that is not biased", number + 1));
                }
                if line.contains("watch::Sender") || line.contains("watch::channel") {
                    wrong.push(format!("{shown}:{}: a watch channel; world::Level wakes in order", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
