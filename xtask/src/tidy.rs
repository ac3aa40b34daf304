//! `cargo xtask tidy`: rules beyond compilers and clippy. Each rule is a function over texts; `tests/it/tidy.rs` runs
//! all of them over the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::advisories;
use crate::layers::LAYERS;
use crate::promises::promises;
use crate::third_party::{dependencies, duplicates, locked, sources};
use crate::words::{changelog, is_prose, words};

/// Lines of a file. A longer file holds more than one subject. Files over the limit today are below, and may only
/// shrink.
const LINES: usize = 500;

/// Files over the limit, with the lines that they may have.
const LARGE: &[(&str, usize)] = &[
    ("crates/apimachinery/src/managed_fields/tests.rs", 503),
    ("crates/karmada-api/tests/it/mutations.rs", 533),
    ("crates/kubernetes-api/tests/it/defaults.rs", 550),
];

/// Lines of a function. A longer one does more than one thing, or is a table that belongs into data. Those over the limit
/// today are below, and may only shrink.
const FUNCTION: usize = 70;

/// Functions over the limit, with the lines that they may have.
const LONG: &[(&str, &str, usize)] = &[
    ("crates/apiserver/src/bootstrap/policy/roles.rs", "controllers", 73),
    ("crates/apiserver/src/handlers/update.rs", "write", 92),
    ("crates/apiserver/src/server/requests.rs", "respond_to", 85),
    ("crates/cel/src/eval/functions/mod.rs", "find", 74),
    ("crates/controllers/src/binding_status.rs", "reconcile", 86),
    ("crates/controllers/src/context.rs", "of", 74),
    ("crates/controllers/src/execution/pass.rs", "apply_each", 79),
    ("crates/fleet-api/src/search/follow.rs", "follow", 74),
    ("crates/fleet-metrics/src/openapi.rs", "schemas", 78),
    ("crates/interpreter/src/lua/strings.rs", "library", 99),
    ("crates/karmada/src/apiserver.rs", "open", 136),
    ("crates/karmadactl/src/cli/mod.rs", "execute", 80),
    ("crates/karmadactl/src/diagnosis.rs", "unreachable", 72),
];

/// Names that state no subject.
const NAMELESS: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "manager"];

/// Paths that a pure crate must not use: files, sockets, processes, the environment and clocks. `std::net` also has
/// address types, which are data.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::process::Command",
    "std::env::var",
    "std::net::Tcp",
    "std::net::Udp",
    "net::{Tcp",
    "net::{Udp",
    "ToSocketAddrs",
    "Instant::now",
    "SystemTime::now",
    "std::io::std",
    "async fn",
    ".await",
];

/// Runs every rule and prints violations.
#[derive(clap::Args)]
pub struct Tidy {
    /// Copy of RustSec's advisory database to check besides the advisories in this repository
    #[arg(long, value_name = "DIRECTORY")]
    advisories: Option<PathBuf>,
}

impl Tidy {
    /// # Errors
    /// When git or cargo cannot be run, or a rule is broken.
    pub fn run(&self) -> anyhow::Result<()> {
        let mut findings = repository()?;
        if let Some(directory) = &self.advisories {
            let locked = locked(&lock_file()?);
            let advisories = advisories::database(directory)?;
            findings.extend(advisories.iter().flat_map(|it| locked.iter().filter_map(|locked| it.finding(locked))));
        }
        for finding in &findings {
            println!("{finding}");
        }
        anyhow::ensure!(findings.is_empty(), "{} findings", findings.len());
        Ok(())
    }
}

fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is not in the root of the workspace")
}

fn lock_file() -> anyhow::Result<String> {
    let path = root()?.join("Cargo.lock");
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// Every finding in the repository this crate was built in.
///
/// # Errors
/// When git or cargo cannot be run, or a file cannot be read.
pub fn repository() -> anyhow::Result<Vec<String>> {
    let root = root()?;
    let listed = output(Command::new("git").args(["ls-files"]).current_dir(root))?;
    let mut findings = Vec::new();
    for path in listed.lines() {
        let text = || std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
        if !root.join(path).exists() {
            continue;
        }
        findings.extend(name(path));
        if is_prose(path) {
            findings.extend(words(path, &text()?));
        }
        if path.ends_with(".rs") {
            findings.extend(source(path, &text()?));
        } else if path.ends_with("Cargo.toml") {
            findings.extend(manifest(path, &text()?));
        } else if path.ends_with(".md") {
            findings.extend(page(path, &text()?, |named| root.join(named).exists()));
        }
    }
    findings.extend(clippy(&std::fs::read_to_string(root.join("clippy.toml")).context("clippy.toml")?));
    // `cargo metadata` also lists optional dependencies that no feature enables; the tree lists the built ones.
    let tree = ["tree", "--workspace", "--locked", "--prefix=none", "--edges=normal,build", "--format={p}|{l}"];
    let built = output(Command::new(env!("CARGO")).args(tree).current_dir(root))?;
    findings.extend(dependencies(&built));
    findings.extend(duplicates(&built));
    let locked = locked(&lock_file()?);
    findings.extend(sources(&locked));
    for advisory in advisories::table()? {
        findings.extend(locked.iter().filter_map(|locked| advisory.finding(locked)));
    }
    findings.extend(changelog(&std::fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let architecture = read("ARCHITECTURE.md").unwrap_or_default();
    findings.extend(promises(&architecture, read).iter().map(|finding| format!("ARCHITECTURE.md: {finding}")));
    Ok(findings)
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    anyhow::ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn name(path: &str) -> Option<String> {
    let nameless =
        path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part)).find(|it| NAMELESS.contains(it))?;
    Some(format!("{path}: \"{nameless}\" does not name a subject"))
}

/// The rules of a source file.
#[must_use]
pub fn source(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let limit = LARGE.iter().find(|(large, _)| *large == path).map_or(LINES, |(_, lines)| *lines);
    if lines > limit {
        findings.push(format!("{path}: {lines} lines, the limit is {limit}"));
    }
    if limit > LINES && lines <= LINES {
        findings.push(format!("{path}: no longer over {LINES} lines; remove its row from LARGE"));
    }
    // A file of unit tests is described by the module that it tests.
    if !text.starts_with("//!") && !path.ends_with("/tests.rs") {
        findings.push(format!("{path}: does not begin with //!"));
    }
    let mut parts = path.split('/');
    if let (Some("crates"), Some(name), Some("src")) = (parts.next(), parts.next(), parts.next())
        && LAYERS.iter().any(|layer| layer.pure && layer.name == name)
        && !path.ends_with("tests.rs")
    {
        findings.extend(impure(path, text));
    }
    if path.starts_with("crates/") && path.contains("/src/") && !path.ends_with("tests.rs") {
        findings.extend(forbidden(path, text));
    }
    if path.contains("src/") && !path.ends_with("tests.rs") {
        findings.extend(long(path, text));
    }
    findings
}

/// Functions over the limit, in the form that rustfmt gives them. Tests may be tables.
fn long(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split("#[cfg(test)]").next().unwrap_or_default().lines().collect();
    let known = |name: &str| LONG.iter().find(|(at, of, _)| *at == path && *of == name).map(|(.., lines)| *lines);
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let ends = |line: &&str| line.len() == indent + 1 && line.ends_with('}') && line.trim_start() == "}";
        // A declaration without a body ends before any brace at its indentation.
        let has_body = |line: &&str| line.ends_with('{') && line.len() - line.trim_start().len() == indent;
        let declared = lines[number..].iter().take_while(|line| !line.ends_with(';')).any(has_body);
        let Some(length) = lines[number..].iter().position(ends).filter(|_| declared) else { continue };
        let (length, limit) = (length + 1, known(name).unwrap_or(FUNCTION));
        if length > limit {
            findings.push(format!("{path}:{}: {name} has {length} lines, the limit is {limit}", number + 1));
        }
        seen.extend((length > FUNCTION).then_some(name));
    }
    let stale = LONG.iter().filter(|(at, name, _)| *at == path && !seen.contains(name));
    findings
        .extend(stale.map(|(_, name, _)| {
            format!("{path}: {name} is no longer over {FUNCTION} lines; remove its row from LONG")
        }));
    findings
}

/// The name of the function that begins on a line.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_modifier = |word: &str| {
        word.starts_with("pub")
            || word.ends_with(')')
            || matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
    };
    let name = after.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    (!name.is_empty() && before.split_whitespace().all(is_modifier)).then_some(name)
}

/// Names that the code of some crates must not use: the path they apply to, the excepted path, the name, and the
/// reason.
const FORBIDDEN: &[(&str, &str, &str, &str)] = &[
    ("crates/apiserver/", "", ".karmada.io", "the API server does not depend on Karmada"),
    ("crates/storage/", "", ".karmada.io", "the store knows no kind"),
    ("crates/", "crates/world/", "clippy::disallowed_methods", "only world reads clocks and random numbers"),
    ("crates/", "", "\"].as_object_mut(", "indexing panics if the value is no object; use get_mut"),
    ("crates/", "", "\"].as_array_mut(", "indexing panics if the value is no object; use get_mut"),
];

fn forbidden(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in code(text) {
        let broken = FORBIDDEN.iter().filter(|(within, outside, named, _)| {
            path.starts_with(within) && (outside.is_empty() || !path.starts_with(outside)) && line.contains(named)
        });
        findings.extend(broken.map(|(.., named, why)| format!("{path}:{number}: names {named}: {why}")));
        let line = line.trim_start().trim_start_matches("pub ");
        if line.starts_with("static ") && line.contains("Registry") && line.contains('=') {
            findings.push(format!("{path}:{number}: a registry that is global"));
        }
    }
    findings
}

/// The methods that `clippy.toml` must disallow: clocks and random numbers.
const DISALLOWED: &[&str] =
    &["std::time::Instant::now", "std::time::SystemTime::now", "jiff::Timestamp::now", "rand::random"];

/// The rules of `clippy.toml`.
#[must_use]
pub fn clippy(text: &str) -> Vec<String> {
    let missing = DISALLOWED.iter().filter(|method| !text.contains(&format!("path = \"{method}\"")));
    missing.map(|method| format!("clippy.toml: does not disallow {method}")).collect()
}

/// The numbered lines of a source without comments and without the tests at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.map(|(number, line)| (number + 1, line))
}

/// Input, output and clocks in a pure crate. Tests at the end of a file may read their tables.
fn impure(path: &str, text: &str) -> Vec<String> {
    code(text)
        .filter_map(|(number, line)| {
            let found = IMPURE.iter().find(|it| line.contains(**it))?;
            Some(format!("{path}:{number}: a pure crate uses {found}"))
        })
        .collect()
}

/// The rules of a manifest: lints are inherited, so that a rule of the workspace holds everywhere.
#[must_use]
pub fn manifest(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let package = text.lines().any(|line| line == "[package]");
    let inherits = text.contains("[lints]\nworkspace = true\n");
    if package && !inherits && !text.contains("[lints.") && !text.contains("[workspace]") {
        findings.push(format!("{path}: does not inherit the lints of the workspace"));
    }
    findings
}

/// The rules of a page: the files that it names in the repository exist. A name in capitals is a placeholder.
#[must_use]
pub fn page(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    const ROOTS: &[&str] = &["crates/", "docs/", "xtask/", "samples/", "benches/", "fuzz/"];
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    let any = |name: &str| {
        name.split(['/', '.']).any(|part| part.len() > 2 && part.bytes().all(|it| it.is_ascii_uppercase()))
    };
    let names = spans.filter(plain).filter(|name| ROOTS.iter().any(|root| name.starts_with(root)) && !any(name));
    let gone = names.filter(|name| !exists(name) && !exists(&format!("{name}.rs")));
    gone.map(|name| format!("{path}: {name} does not exist")).collect()
}
