//! The documentation as its readers use it: the commands of README.md and docs/*.md, word for word, on a fresh machine.
//!
//! `DOCS=NAME` runs the pages whose path contains it; `UPDATE_PAGES=1` updates the blocks that differ: check the
//! difference before you commit it. [`page`] has the conventions.

mod links;
mod page;
mod session;
mod shown;
mod tables;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use page::{Commands, Page, Step};
use session::Session;

/// The maximum number of unexecuted command blocks per page; zero if the page is not listed.
const LIMITS: &[(&str, usize)] = &[
    // The two commands that build and test.
    ("README.md", 2),
    // A front proxy, whose certificate does not exist here.
    ("docs/authentication.md", 1),
    // Measurements that take minutes.
    ("docs/benchmarks.md", 11),
    // Approval of a request that an agent makes months later.
    ("docs/certificates.md", 2),
    // The etcd of another control plane.
    ("docs/adopting-a-karmada.md", 4),
    // An etcd, which is another program.
    ("docs/etcd.md", 4),
    // A large simultaneous failure.
    ("docs/failover.md", 1),
    // An agent, which runs beside a real member.
    ("docs/registering-clusters.md", 1),
    // Installing a service; a certificate of another authority.
    ("docs/running-it-for-real.md", 2),
    // Estimators of clusters that do not exist here.
    ("docs/scheduling.md", 1),
    ("docs/testing.md", 1),
];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// README.md and docs/*.md, by path.
fn pages() -> Vec<(String, Page)> {
    let files = std::fs::read_dir(root().join("docs")).expect("the documentation").flatten();
    let names = files.map(|file| format!("docs/{}", file.file_name().to_string_lossy()));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    names.push("README.md".into());
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).expect("a readable page");
        let page = Page::parse(&text).unwrap_or_else(|error| panic!("{name} {error}"));
        (name, page)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn few_commands_are_not_run() {
    for (name, page) in pages() {
        let limit = LIMITS.iter().find(|(page, _)| *page == name).map_or(0, |(_, limit)| *limit);
        assert_eq!(
            page.not_run, limit,
            "{name}: use `sh` blocks, or change LIMITS in crates/karmada/tests/it/docs/mod.rs"
        );
    }
}

/// Runs a page; returns the error of the first step that differs from the page. `update` stores the actual output
/// instead, and continues.
fn read(name: &str, page: &Page, own_net: bool, update: &mut Option<Vec<Update>>) -> Result<(), String> {
    let mut session = Session::start(own_net);
    for step in &page.steps {
        let Err(complaint) = session.take(step) else { continue };
        let (line, text) = match step {
            Step::File { .. } => continue,
            Step::Interrupt { line, command } => (line, command),
            Step::Commands(commands) => (&commands.line, &commands.text),
        };
        match (update.as_mut(), complaint.printed, step) {
            (Some(updates), Some(printed), Step::Commands(Commands { expected: Some(expected), .. })) => {
                updates.push((expected.lines.clone(), printed));
            }
            _ => return Err(format!("{name}:{line}:\n{text}\n{}", complaint.what)),
        }
    }
    Ok(())
}

/// Lines of a page, from 0, and their new text.
type Update = (std::ops::Range<usize>, String);

fn write(name: &str, updates: &[Update]) {
    if updates.is_empty() {
        return;
    }
    let path = root().join(name);
    let text = std::fs::read_to_string(&path).expect("a readable page");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that the line numbers stay valid.
    for (range, printed) in updates.iter().rev() {
        let fence = &lines[range.end];
        let indent = fence[..fence.len() - fence.trim_start().len()].to_owned();
        let new: Vec<String> = printed.lines().map(|line| format!("{indent}{}", line.trim_end())).collect();
        lines.splice(range.clone(), new);
    }
    std::fs::write(path, lines.join("\n") + "\n").expect("the documentation is writable");
}

#[test]
#[cfg_attr(old_kubectl, ignore = "no kubectl from 1.27 on is on PATH")]
fn every_page_works_as_written() {
    let selected = std::env::var("DOCS").unwrap_or_default();
    let mut pages = pages();
    pages
        .retain(|(name, page)| name.contains(&selected) && page.steps.iter().any(|it| matches!(it, Step::Commands(_))));
    let own_net = session::has_own_network();
    let queue: Mutex<VecDeque<_>> = Mutex::new(pages.iter().collect());
    let complaints: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        loop {
            let Some((name, page)) = queue.lock().expect("no panic").pop_front() else { return };
            let mut update = std::env::var_os("UPDATE_PAGES").map(|_| Vec::new());
            let result = read(name, page, own_net, &mut update);
            write(name, &update.unwrap_or_default());
            if let Err(complaint) = result {
                complaints.lock().expect("no panic").push(complaint);
            }
        }
    };
    // Without network namespaces, pages that start a control plane on its default port exclude each other.
    let readers = if own_net { 2 } else { 1 };
    std::thread::scope(|scope| (0..readers).for_each(|_| drop(scope.spawn(work))));
    let complaints = complaints.into_inner().expect("no panic");
    println!("{} pages, {} do not work", pages.len(), complaints.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The runner itself: errors in pages are found.
#[test]
fn failing_steps_are_reported() {
    let own_net = session::has_own_network();
    for (text, complaint) in [
        ("```sh\ncd /; export A=1\n```\n```sh\necho $A $PWD\n```\n```text\n1 /\n```\n", ""),
        (
            "```sh\necho one\n```\n```text\ntwo\n```\n",
            "page:1:\necho one\n\n--- the page shows\ntwo\n--- it prints\none\n",
        ),
        ("```sh\nfalse\necho on\n```\n", "page:1:\nfalse\necho on\n\nit ends with 1 and prints:\n"),
        ("```sh fails\ntrue\n```\n", "page:1:\ntrue\n\nit ends with 0 and prints:\n"),
        ("```sh fails\nfalse\n```\n```sh\ntrue\n```\n", ""),
        (
            "```sh background\necho up; tail -f /dev/null\n```\n```text\nup\n```\n```text interrupt\nsleep\n^C\n```\n",
            "no block runs",
        ),
        (
            "```sh background\necho up; tail -f /dev/null\n```\n```text\nup\n```\n```text interrupt\necho up; tail -f /dev/null\n^C\n```\n",
            "",
        ),
        ("```sh background\necho over\n```\n```text\nup\n```\n", "--- the page shows\nup\n--- it prints\nover\n"),
        ("```yaml\n# a.yaml\na: b\n```\n```sh\ngrep b a.yaml\n```\n```text\na: b\n```\n", ""),
    ] {
        let page = Page::parse(text).expect("a page");
        let found = read("page", &page, own_net, &mut None).err().unwrap_or_default();
        assert_eq!(found.is_empty(), complaint.is_empty(), "{text}\n{found}");
        assert!(found.contains(complaint), "{text}\n{found}");
    }
}
