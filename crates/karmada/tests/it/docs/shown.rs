//! Output as a page shows it: variable parts are normalized on both sides, so that pages show real values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::page::{Commands, How};
use crate::transcript::{lines_match, normalise};

/// In addition to the normalization of transcripts.
static VARIABLES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rows = [
        // Pods of ReplicaSets, then names with the suffix only.
        (r"-[0-9a-f]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-HASH-SUFFIX"),
        (r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", "TOKEN"),
        (r"sha256:[0-9a-f]{64}", "sha256:HASH"),
        (r"\b(?:\d+[hms]){1,3}\b", "AGE"),
        (r"\b\d+(?:\.\d+)?(?:ms|s)\b", "AGE"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
    ];
    let compiled = rows.map(|(pattern, shown)| (Regex::new(pattern).expect("a valid expression"), shown));
    compiled.into_iter().collect()
});

fn plain(text: &str) -> Vec<String> {
    let text = normalise(text, &BTreeMap::new());
    let replaced = |line: &str| {
        VARIABLES.iter().fold(line.to_owned(), |line, (pattern, shown)| pattern.replace_all(&line, *shown).into_owned())
    };
    text.lines().map(replaced).collect()
}

/// Whether the output of a block equals the page's, if the page has any.
///
/// # Errors
/// Both, when they differ.
pub fn compare(commands: &Commands, output: &str) -> Result<(), String> {
    let Some(expected) = &commands.expected else { return Ok(()) };
    // A line `...` matches any number of lines; elsewhere it matches any text in its line.
    let patterns = plain(&expected.text).into_iter().map(|line| match line.trim() {
        "..." => "...".to_owned(),
        _ => line.replace("...", "[..]"),
    });
    let (mut patterns, lines): (Vec<String>, Vec<String>) = (patterns.collect(), plain(output));
    if commands.how == How::Background {
        // Log lines may surround the expected text.
        patterns.insert(0, "...".into());
        patterns.push("...".into());
    }
    if lines_match(&texts(&patterns), &texts(&lines)) {
        return Ok(());
    }
    Err(format!("--- the page shows\n{}--- it prints\n{output}", expected.text))
}

fn texts(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

#[test]
fn variable_parts_are_equal() {
    for (expected, output, fits) in [
        ("a  5s\n", "a    3m2s\n", true),
        ("nginx-7c5ddbdf54-x2p4q  1/1\n", "nginx-69d9c8f8b-bbbbb   1/1\n", true),
        ("Member m is ready on https://127.0.0.1:40001\n", "Member m is ready on https://127.0.0.1:5\n", true),
        ("v...\n...\nend\n", "v1\n2\n3\nend\n", true),
        ("a\n", "a\nb\n", false),
        ("READY 1/1\n", "READY 2/2\n", false),
    ] {
        let step = Commands {
            line: 1,
            how: How::Run,
            text: String::new(),
            expected: Some(super::page::Expected { lines: 0..1, text: expected.into() }),
        };
        assert_eq!(compare(&step, output).is_ok(), fits, "{expected} and {output}");
    }
}
