//! Go's regular expressions on the `regex` crate. Both are RE2's dialect; what differs is rewritten here: Perl classes
//! are ASCII in Go, `\Q..\E` quotes, and Rust knows set operators inside brackets.

use regex::{Regex, RegexBuilder};

/// Compiles a pattern written for Go.
///
/// # Errors
/// When the pattern is not valid, or compiles to more than 2 MiB (a bound on what one schema can make us hold).
pub fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    compile_within(pattern, 2 << 20)
}

/// As [`compile`], with another bound in bytes.
///
/// # Errors
/// As [`compile`].
pub fn compile_within(pattern: &str, size: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&translate(pattern)).size_limit(size).dfa_size_limit(size).build()
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
}
