//! Security advisories, without the network: the locked crates are checked against a table in this repository, and
//! against a copy of RustSec's advisory database where there is one.

use std::path::Path;

use anyhow::Context as _;
use semver::{Version, VersionReq};

use crate::third_party::Locked;

const TABLE: &str = include_str!("advisories.tsv");

/// A vulnerability of some versions of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advisory {
    pub id: String,
    pub package: String,
    patched: Vec<VersionReq>,
    unaffected: Vec<VersionReq>,
    what: String,
}

impl Advisory {
    /// Why a locked crate must not be used, if the advisory concerns it.
    #[must_use]
    pub fn finding(&self, locked: &Locked) -> Option<String> {
        if locked.name != self.package {
            return None;
        }
        let Ok(version) = Version::parse(&locked.version) else {
            return Some(format!("{}: \"{}\" is not a version", locked.name, locked.version));
        };
        let safe = self.patched.iter().chain(&self.unaffected).any(|range| range.matches(&version));
        (!safe).then(|| format!("{} {version}: {} ({})", locked.name, self.what, self.id))
    }
}

/// The advisories of the table.
///
/// # Errors
/// A row that is malformed.
pub fn table() -> anyhow::Result<Vec<Advisory>> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// A row of the table.
///
/// # Errors
/// When a cell is missing or a range of versions is malformed.
pub fn row(line: &str) -> anyhow::Result<Advisory> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [id, package, patched, unaffected, what] = cells[..] else {
        anyhow::bail!("advisories.tsv: a row has 5 cells, not {}: {line}", cells.len());
    };
    let ranges = |cell: &str| -> anyhow::Result<Vec<VersionReq>> {
        let ranges = cell.split('|').map(str::trim).filter(|range| *range != "-");
        ranges.map(|range| VersionReq::parse(range).with_context(|| format!("{id}: range {range:?}"))).collect()
    };
    let (patched, unaffected) = (ranges(patched)?, ranges(unaffected)?);
    Ok(Advisory { id: id.to_owned(), package: package.to_owned(), patched, unaffected, what: what.to_owned() })
}

/// An advisory of the database: a Markdown file that begins with TOML. `None` for withdrawn and informational
/// advisories.
#[must_use]
pub fn of_database(text: &str) -> Option<Advisory> {
    let (_, rest) = text.split_once("```toml\n")?;
    let (head, page) = rest.split_once("\n```")?;
    if head.lines().any(|line| line.starts_with("withdrawn") || line.starts_with("informational")) {
        return None;
    }
    let what = page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned();
    let (id, package) = (strings(head, "id").pop()?, strings(head, "package").pop()?);
    let ranges = |key: &str| -> Option<Vec<VersionReq>> {
        strings(head, key).iter().map(|range| VersionReq::parse(range).ok()).collect()
    };
    Some(Advisory { id, package, patched: ranges("patched")?, unaffected: ranges("unaffected")?, what })
}

/// The strings of a key in TOML: of a string or of a list of strings, on one line or several.
fn strings(toml: &str, key: &str) -> Vec<String> {
    let is_key = |line: &&str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
    let Some(start) = toml.lines().position(|line| is_key(&line)) else { return Vec::new() };
    let mut lines = toml.lines().skip(start);
    let first = lines.next().and_then(|line| line.split_once('=')).map_or("", |(_, value)| value.trim());
    let mut value = first.to_owned();
    while value.starts_with('[') && !value.ends_with(']') {
        let Some(line) = lines.next() else { break };
        value.push_str(line.trim());
    }
    value.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The advisories of a copy of the database (`crates/NAME/RUSTSEC-*.md`).
///
/// # Errors
/// When the directory cannot be read.
pub fn database(directory: &Path) -> anyhow::Result<Vec<Advisory>> {
    let crates = directory.join("crates");
    let attempt = || format!("reading the advisory database at {}", crates.display());
    let mut found = Vec::new();
    for package in std::fs::read_dir(&crates).with_context(attempt)? {
        for file in std::fs::read_dir(package?.path()).with_context(attempt)? {
            let text = std::fs::read_to_string(file?.path()).with_context(attempt)?;
            found.extend(of_database(&text));
        }
    }
    anyhow::ensure!(!found.is_empty(), "{} has no advisories", crates.display());
    Ok(found)
}
