//! The origin of a build: the commit, whether the sources differ from it, and the date. Part of `build.rs`; the tests
//! also compile it.

use std::path::{Path, PathBuf};
use std::process::Command;

const UNKNOWN: &str = "unknown";

/// The sources of the program, as paths of git; its tests and documents are not among them.
const SOURCES: [&str; 5] = ["Cargo.lock", "Cargo.toml", "crates/*/Cargo.toml", "crates/*/build*.rs", "crates/*/src/*"];

#[derive(Debug, PartialEq, Eq)]
pub struct Stamp {
    pub commit: String,
    pub tree_state: String,
    pub date: String,
}

/// The stamp of a workspace, and the files with which it changes; they all exist, so that cargo compares their times
/// and does not run the script each time. `epoch` is `SOURCE_DATE_EPOCH`, `now` the seconds since 1970. A build for
/// `development` takes its stamp when a source changes, not with each commit: that would compile everything again.
pub fn read(root: &Path, epoch: Option<&str>, now: u64, development: bool) -> (Stamp, Vec<PathBuf>) {
    let date = date(epoch.and_then(|text| text.trim().parse().ok()).unwrap_or(now));
    let Some(commit) = is_top_level(root).then(|| git(root, &["rev-parse", "HEAD"])).flatten() else {
        return (Stamp { commit: UNKNOWN.to_owned(), tree_state: UNKNOWN.to_owned(), date }, Vec::new());
    };
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let tree_state = match git(root, &status) {
        Some(changes) if changes.is_empty() => "clean",
        Some(_) => "dirty",
        None => UNKNOWN,
    };
    (Stamp { commit, tree_state: tree_state.to_owned(), date }, watched(root, development))
}

/// An unpacked archive inside another repository is not that repository.
fn is_top_level(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]).and_then(|top| Path::new(&top).canonicalize().ok());
    top.is_some() && top == root.canonicalize().ok()
}

/// HEAD moves with its branch (the log of HEAD grows); sources change the state of the tree.
fn watched(root: &Path, development: bool) -> Vec<PathBuf> {
    let heads: &[&str] = if development { &[] } else { &["HEAD", "logs/HEAD"] };
    let heads = heads.iter().filter_map(|name| git(root, &["rev-parse", "--git-path", name]));
    let mut watched: Vec<PathBuf> = heads.map(|path| root.join(path)).collect();
    watched.extend(["Cargo.lock", "Cargo.toml"].map(|name| root.join(name)));
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    // `bench` is another program.
    let crates = crates.filter(|it| it.file_name() != "bench");
    watched.extend(crates.flat_map(|it| [it.path().join("src"), it.path().join("Cargo.toml")]));
    watched.retain(|path| path.exists());
    watched
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(args);
    // Reading must not write to the index, and a hook's variables must not lead to another repository.
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE");
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

/// Seconds since 1970 as RFC 3339 in UTC.
pub fn date(seconds: u64) -> String {
    // The format ends with the year 9999.
    let seconds = seconds.min(253_402_300_799);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}
