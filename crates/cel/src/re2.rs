//! Go's regular expressions on the `regex` crate. Both are dialects of RE2; the differences are rewritten: Perl classes
//! are ASCII in Go, `\Q..\E` quotes, and Rust has set operators inside brackets.

use std::ops::Deref;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{Ast, RepetitionKind, RepetitionRange};

/// A compiled pattern.
///
/// ```
/// let pattern = cel::re2::compile(r"^\d+$").expect("a valid pattern");
/// assert!(pattern.is_match("42"));
/// assert!(cel::re2::compile("(").is_err());
/// ```
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    /// The approximate number of automaton states: the worst-case work for each byte of input.
    states: usize,
}

impl Pattern {
    pub(crate) fn states(&self) -> usize {
        self.states
    }
}

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.regex
    }
}

/// Why a pattern is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// With Go's message.
    #[error("{0}")]
    Go(String),
    /// An error that only the `regex` crate reports.
    #[error(transparent)]
    Syntax(#[from] regex::Error),
    /// A repetition beyond Go's limit.
    #[error("invalid repeat count: `{0}`")]
    Repeat(String),
}

/// Compiles a pattern in Go's syntax.
///
/// # Errors
/// When the pattern is invalid, or its compiled form exceeds 2 MiB, which bounds the memory of one schema.
pub fn compile(pattern: &str) -> Result<Pattern, PatternError> {
    compile_within(pattern, 2 << 20)
}

/// As [`compile`], with another limit in bytes.
///
/// # Errors
/// As [`compile`].
pub fn compile_within(pattern: &str, size: usize) -> Result<Pattern, PatternError> {
    if let Some(fault) = crate::go_syntax::fault(pattern) {
        return Err(PatternError::Go(fault));
    }
    let translated = translate(pattern);
    let regex = RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(size).build()?;
    // A pattern that the builder accepts parses here as well.
    let states = match regex_syntax::ast::parse::Parser::new().parse(&translated) {
        Ok(ast) => {
            states(&ast, crate::go_syntax::MAX_REPEAT).ok_or_else(|| PatternError::Repeat(pattern.to_owned()))?
        }
        Err(_) => pattern.len(),
    };
    Ok(Pattern { regex, states })
}

/// The states of a part that may be repeated `most_states` times; `None` if it is repeated more often. Recursion is
/// bounded by the parser's limit of 250 levels.
fn states(ast: &Ast, most_states: u32) -> Option<usize> {
    let sum =
        |parts: &[Ast]| parts.iter().try_fold(1usize, |sum, part| Some(sum.saturating_add(states(part, most_states)?)));
    match ast {
        Ast::Concat(concat) => sum(&concat.asts),
        Ast::Alternation(alternation) => sum(&alternation.asts),
        Ast::Group(group) => states(&group.ast, most_states),
        Ast::Repetition(repetition) => {
            let times = match &repetition.op.kind {
                RepetitionKind::Range(
                    RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n) | RepetitionRange::Bounded(_, n),
                ) => *n,
                _ => return states(&repetition.ast, most_states).map(|states| states.saturating_add(1)),
            };
            if times > most_states {
                return None;
            }
            let inner = states(&repetition.ast, most_states.checked_div(times).unwrap_or(most_states))?;
            Some(inner.saturating_mul(times.max(1) as usize))
        }
        _ => Some(1),
    }
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                if let Some(quoted) = rest.strip_prefix('Q') {
                    let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                    out.push_str(&regex::escape(literal));
                    rest = after;
                } else if let Some(next) = rest.chars().next() {
                    rest = &rest[next.len_utf8()..];
                    push_escape(&mut out, next);
                } else {
                    out.push('\\');
                }
            }
            '[' if in_class && !rest.starts_with(':') => out.push_str("\\["),
            '[' if in_class => {
                let end = rest.find(":]").map_or(0, |at| at + 2);
                out.push('[');
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            '[' => {
                in_class = true;
                out.push('[');
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
                // A bracket right at the start is a member, not the end.
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = after;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && rest.starts_with('-') => out.push_str("\\-"),
            // Group names are not used, and Go allows duplicates.
            '(' if !in_class && (rest.starts_with("?P<") || rest.starts_with("?<")) => {
                out.push('(');
                rest = rest.split_once('>').map_or("", |(_, after)| after);
            }
            c => out.push(c),
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_match_as_in_go() {
        for (pattern, text, expected) in [
            ("^[a-z]+$", "abc", true),
            ("^[a-z]+$", "abc\n", false),
            (r"^\d+$", "٣", false),
            (r"^[\d-]+$", "1-2", true),
            (r"^[\w.]+$", "a_b.c", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            ("^[]a]+$", "]a", true),
            ("^[[a]+$", "[a", true),
            ("^[a&&b]+$", "a&b", true),
            ("^[[:alpha:]]+$", "abc", true),
            ("^[^/]+$", "a/b", false),
            ("^(?P<n>a)(?P<n>b)(?<n>c)[(?P<n>]$", "abc<", true),
            (
                r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
                "1.5Gi",
                true,
            ),
        ] {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text:?}");
        }
        assert!(compile("(").is_err() && compile(r"(?=a)").is_err());
    }

    #[test]
    fn repetitions_are_bounded_as_in_go() {
        for (pattern, expected) in [
            ("a{1000}", true),
            ("a{1001}", false),
            ("a{2,1001}", false),
            ("a{1001,}", false),
            ("(a{10}){100}", true),
            ("(a{10}){101}", false),
            ("((a{0,2}b){3}|c{500}){2}", true),
            ("(a+){1000}", true),
            ("(a{0}b{1000}){1}", true),
        ] {
            assert_eq!(compile(pattern).is_ok(), expected, "{pattern}");
        }
    }
}
