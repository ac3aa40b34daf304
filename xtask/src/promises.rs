//! The section "What never happens" of ARCHITECTURE.md: each item names a test that fails when it happens.

const SECTION: &str = "## What never happens";

/// The rules of the section: every item names a test as `path::function`, and every named test exists. `read` gives a
/// file of the repository.
#[must_use]
pub fn promises(text: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let Some((_, section)) = text.split_once(SECTION) else { return vec![format!("no section \"{SECTION}\"")] };
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut findings = Vec::new();
    for item in section.split("\n- ").skip(1) {
        let statement = item.lines().next().unwrap_or(item);
        let mut named = item.split('`').skip(1).step_by(2).filter_map(|span| span.split_once(".rs::")).peekable();
        if named.peek().is_none() {
            findings.push(format!("names no test: {statement}"));
        }
        for (path, function) in named {
            let path = format!("{path}.rs");
            let exists = read(&path).is_some_and(|source| has_test(&source, function));
            if !exists {
                findings.push(format!("{path} has no test {function}"));
            }
        }
    }
    findings
}

/// Whether a source has a function of this name below an attribute of a test, or in the list of those that run on every
/// engine of the store.
fn has_test(source: &str, function: &str) -> bool {
    let Some(at) = source.find(&format!("fn {function}(")) else { return false };
    let line = source[..at].rfind('\n').unwrap_or_default();
    let listed = source.split_once("on_every_engine! {").and_then(|(_, rest)| rest.split_once("\n}"));
    if listed.is_some_and(|(list, _)| list.split([',', '[', ' ', '\n']).any(|name| name == function)) {
        return true;
    }
    let before = source[..line].lines().rev();
    before.take_while(|line| !line.trim().is_empty() && line.trim() != "}").any(|line| {
        let line = line.trim();
        line.starts_with("#[test]") || line.starts_with("#[tokio::test")
    })
}
