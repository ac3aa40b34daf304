//! The words of comments, documentation and help texts: standard terms instead of a dialect.

/// Words that are not used in prose, with what to write instead. A word ends where its letters end.
const WORDS: &[(&str, &str)] = &[
    ("told", "reported, returned, logged"),
    ("tells", "reports, shows, returns"),
    ("judge", "validate, check, authorize"),
    ("judged", "validated, checked, authorized"),
    ("judges", "validates, checks, authorizes"),
    ("judging", "validation"),
    ("nobody", "no client, no user, no caller"),
    ("nobody's", "of no client, of no user"),
    ("somebody", "a client, a user, another process"),
    ("somebody's", "a client's, a user's"),
    ("whoever", "the client that, the user that"),
    ("anew", "again, recreated"),
    ("wishes", "requests, preferences"),
    ("looked at", "read, checked, reconciled"),
    ("looks at", "reads, checks"),
    ("brings about", "causes"),
    ("has to do with", "depends on, concerns"),
    ("have to do with", "depend on, concern"),
    ("on its way", "in flight, in progress"),
    ("on the way", "in flight, in progress"),
    ("held up", "blocked"),
    ("carried out", "executed"),
    ("for good", "permanently"),
    ("is none of", "is not one of"),
    ("for ever", "forever, permanently"),
    ("likewise", "also, the same"),
    ("asks", "requests, requires"),
    ("asked", "requested, required"),
    ("said", "reported, documented"),
    ("speaks", "represents, supports"),
    ("anybody", "any client, any user"),
    ("everybody", "every client, every user"),
    ("died", "failed, exited"),
    ("want", "request, require"),
    ("wants", "requests, requires"),
    ("put back", "restored"),
    ("given back", "returned, released"),
];

/// Files that contain the words for a reason.
const SPARED: &[&str] = &["xtask/src/words.rs", "xtask/tests/it/words.rs"];

/// The most words of a change in the changelog.
const LONGEST_CHANGE: usize = 25;

/// Whether [`words`] applies to a file: sources and pages.
#[must_use]
pub fn is_prose(path: &str) -> bool {
    (path.ends_with(".rs") || path.ends_with(".md")) && !SPARED.contains(&path)
}

/// The words to replace: in the comments of a source, which include help texts, or in the paragraphs of a page. Code
/// between backticks is not prose.
#[must_use]
pub fn words(path: &str, text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let prose = if path.ends_with(".rs") {
            comment(line)
        } else {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            (!fenced && !fence).then_some(line)
        };
        let Some(prose) = prose else { continue };
        let prose: String = prose.to_lowercase().split('`').step_by(2).collect::<Vec<_>>().join("`");
        let found = WORDS.iter().filter(|(word, _)| contains(&prose, word));
        findings.extend(found.map(|(word, instead)| format!("{path}:{}: \"{word}\"; write {instead}", number + 1)));
    }
    findings
}

/// The comment of a line of source.
fn comment(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if trimmed.starts_with("//") { Some(trimmed) } else { line.split_once(" // ").map(|(_, comment)| comment) }
}

/// Whether a text contains a word, not as a part of another one.
fn contains(text: &str, word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_'-".contains(&byte);
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].bytes().next_back();
        let after = text[at + word.len()..].bytes().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The rules of the changelog: a bullet for each change, short enough to be read in a list.
#[must_use]
pub fn changelog(text: &str) -> Vec<String> {
    let changes = text.lines().filter_map(|line| line.strip_prefix("- "));
    let long = changes.filter(|change| change.split_whitespace().count() > LONGEST_CHANGE);
    long.map(|change| format!("CHANGELOG.md: over {LONGEST_CHANGE} words: {change}")).collect()
}
