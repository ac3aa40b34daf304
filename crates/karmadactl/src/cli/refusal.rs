//! Errors in a command line, with cobra's text where scripts depend on it.

use clap::Command;
use clap::error::{ContextKind, ErrorKind};

use super::{help, pages};
use crate::error::Error;

/// As cobra: names this many edits away are suggested.
const MAX_EDITS: usize = 2;

/// A command that does not exist, with those it may be meant to be.
pub fn unknown_command(program: &str, tree: &Command, word: &str) -> String {
    let known = tree.get_subcommands().map(Command::get_name).filter(|name| *name != "options");
    let is_root = tree.get_subcommands().any(|command| command.get_name() == "get");
    let absent = pages::ABSENT.iter().map(|(name, _)| *name).filter(|_| is_root);
    let known = known.chain(absent);
    let typed = word.to_lowercase();
    let mut near: Vec<&str> =
        known.filter(|name| edits(&typed, name) <= MAX_EDITS || name.starts_with(&typed)).collect();
    near.sort_by_key(|name| (edits(&typed, name), *name));
    let mut text = format!("error: unknown command {word:?} for {program:?}\n");
    if let Some(way) = pages::with_kubectl(word).filter(|_| is_root) {
        text.push_str(&format!("\n{way}"));
        return text;
    }
    if !near.is_empty() && !word.is_empty() {
        text.push_str("\nDid you mean this?\n");
        near.iter().for_each(|name| text.push_str(&format!("\t{name}\n")));
    }
    text
}

/// A parser's error with cobra's message; `command` is the command it is about, if there is one.
pub fn of_parser(program: &str, command: Option<&str>, error: &clap::Error) -> String {
    let named = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    // `--chunk-size <CHUNK_SIZE>`
    let flag = named(ContextKind::InvalidArg);
    let flag = flag.split([' ', '=', '[']).next().unwrap_or_default();
    let value = named(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => {
            with_way(program, command, &format!("unknown flag: {flag}"))
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            let letter = flag.trim_start_matches('-');
            with_way(program, command, &format!("unknown shorthand flag: '{letter}' in {flag}"))
        }
        ErrorKind::UnknownArgument => too_many(program, command, &named(ContextKind::InvalidArg)),
        ErrorKind::InvalidValue | ErrorKind::NoEquals | ErrorKind::TooFewValues if value.is_empty() => {
            with_way(program, command, &format!("flag needs an argument: {flag}"))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(|why| format!(": {}", reason(why, &value)));
            let why = why.unwrap_or_default();
            with_way(program, command, &format!("invalid argument {value:?} for {flag:?} flag{why}"))
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            with_way(program, command, first.strip_prefix("error: ").unwrap_or(first))
        }
    }
}

/// How the parser names the range of a number that has no limits of its own.
const I32: &str = "is not in -2147483648..=2147483647";

/// Why a value is invalid; of numbers in Go's words.
fn reason(why: &(dyn std::error::Error + 'static), value: &str) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match why.downcast_ref::<std::num::ParseIntError>().map(std::num::ParseIntError::kind) {
        None if why.to_string().contains(I32) => format!("strconv.ParseInt: parsing {value:?}: value out of range"),
        None => why.to_string(),
        Some(PosOverflow | NegOverflow) => format!("strconv.ParseInt: parsing {value:?}: value out of range"),
        Some(_) => format!("strconv.ParseInt: parsing {value:?}: invalid syntax"),
    }
}

fn too_many(program: &str, command: Option<&str>, word: &str) -> String {
    if matches!(command, Some("api-resources" | "api-versions")) {
        return of_usage(program, command, &format!("unexpected arguments: [{word}]"));
    }
    of_error(program, command, &Error::arguments(format!("too many arguments: {word:?}")))
        .unwrap_or_else(|| with_way(program, command, &format!("too many arguments: {word:?}")))
}

/// Errors of the command line that a command detects after parsing; `None` for any other.
pub fn of_error(program: &str, command: Option<&str>, error: &Error) -> Option<String> {
    match error {
        Error::Arguments(text) => {
            let usage = command.and_then(pages::page).map(|page| format!("\nUsage: {}", help::usage(program, page)));
            Some(with_way(program, command, &format!("{text}{}", usage.unwrap_or_default())))
        }
        Error::Usage(text) => Some(of_usage(program, command, text)),
        Error::Flag(text) => Some(with_way(program, command, text)),
        _ => None,
    }
}

/// With a pointer to the help, as cobra prints it.
fn with_way(program: &str, command: Option<&str>, text: &str) -> String {
    format!("error: {text}\nSee '{} --help' for usage.\n", path(program, command))
}

/// With a pointer to the help, as kubectl's commands print it.
fn of_usage(program: &str, command: Option<&str>, text: &str) -> String {
    format!("error: {text}\nSee '{} -h' for help and examples\n", path(program, command))
}

fn path(program: &str, command: Option<&str>) -> String {
    command.map_or_else(|| program.to_owned(), |command| format!("{program} {command}"))
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let fewest = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], fewest);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances_are_computed() {
        for (a, b, expected) in
            [("", "", 0), ("get", "gt", 1), ("get", "teg", 2), ("", "abc", 3), ("kitten", "sitting", 3)]
        {
            assert_eq!((edits(a, b), edits(b, a)), (expected, expected), "{a} {b}");
        }
    }
}
