//! Transcripts of a terminal as tests: commands and their output, in text files, so that a new row costs one line.
//!
//! ```text
//! # server: up                        (the first line; further `#` lines after blank ones are comments)
//! <<< FILE                            a file for the commands to use, up to a line `>>>`
//! $ COMMAND                           run by `sh`, both outputs as one
//! $~ COMMAND                          repeated until it prints what is expected
//! $>=1.30 COMMAND                     for these versions of the client only (also `<`, and with `~`)
//! LINE                                expected; `[..]` matches any text, a line `...` any lines
//! [<1.31] LINE                        expected of these versions only
//! ? 1                                 the exit code, when it is not 0
//! ```
//!
//! Variable parts are normalized on both sides: see [`normalise`]. The module does not depend on kubectl.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

/// A file of steps.
#[derive(Debug)]
pub struct Transcript {
    /// The text after `# server: `.
    pub server: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Comment(String),
    File { name: String, text: String },
    Step(Step),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub versions: Versions,
    /// Whether the command is repeated until its output is the expected one.
    pub eventually: bool,
    pub command: String,
    pub expected: Vec<String>,
    pub exit_code: i32,
    /// Its line, from 1.
    pub line: usize,
}

/// The minor versions of the client that something applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    All,
    From(u32),
    Before(u32),
}

impl Versions {
    /// Parses the start of `text`: `>=1.30`, `<1.31` or empty; returns the rest.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let (make, rest): (fn(u32) -> Self, _) = match (text.strip_prefix(">=1."), text.strip_prefix("<1.")) {
            (Some(rest), _) => (Self::From, rest),
            (_, Some(rest)) => (Self::Before, rest),
            _ => return Some((Self::All, text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((make(rest[..end].parse().ok()?), &rest[end..]))
    }

    pub fn has(self, minor: u32) -> bool {
        match self {
            Self::All => true,
            Self::From(first) => minor >= first,
            Self::Before(end) => minor < end,
        }
    }

    fn prefix(self) -> String {
        match self {
            Self::All => String::new(),
            Self::From(minor) => format!(">=1.{minor}"),
            Self::Before(minor) => format!("<1.{minor}"),
        }
    }
}

impl Transcript {
    /// # Errors
    /// The line that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let mut after_blank = false;
        let server = lines.next().and_then(|(_, line)| line.strip_prefix("# server: ")).ok_or("no `# server: `")?;
        let mut parts = Vec::new();
        while let Some((at, line)) = lines.next() {
            // Output may look like a comment or a command; it has no blank lines.
            let after_blank = std::mem::replace(&mut after_blank, line.is_empty());
            if let Some(name) = line.strip_prefix("<<< ") {
                let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != ">>>");
                let text = text.fold(String::new(), |text, line| text + line + "\n");
                parts.push(Part::File { name: name.to_owned(), text });
            } else if let Some(step) = line.strip_prefix('$').and_then(|rest| Step::parse(rest, at + 1)) {
                parts.push(Part::Step(step));
            } else if after_blank && line.starts_with('#') {
                parts.push(Part::Comment(line.to_owned()));
            } else if let Some(Part::Step(step)) = parts.last_mut() {
                match line.strip_prefix("? ").map(str::parse) {
                    Some(code) => step.exit_code = code.map_err(|_| format!("line {}: {line}", at + 1))?,
                    None => step.expected.push(line.to_owned()),
                }
            } else if !line.is_empty() {
                return Err(format!("line {}: output without a command: {line}", at + 1));
            }
        }
        for part in &mut parts {
            if let Part::Step(step) = part {
                step.expected.truncate(step.expected.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1));
            }
        }
        Ok(Self { server: server.to_owned(), parts })
    }

    /// The file again.
    pub fn render(&self) -> String {
        let mut text = format!("# server: {}\n", self.server);
        // Writing to a String cannot fail.
        for part in &self.parts {
            let _ = match part {
                Part::Comment(line) => writeln!(text, "\n{line}"),
                Part::File { name, text: content } => write!(text, "\n<<< {name}\n{content}>>>\n"),
                Part::Step(step) => write!(text, "{}", step.render()),
            };
        }
        text
    }
}

impl Step {
    fn parse(rest: &str, line: usize) -> Option<Self> {
        let (versions, rest) = Versions::parse(rest)?;
        let (eventually, rest) = rest.strip_prefix('~').map_or((false, rest), |rest| (true, rest));
        let command = rest.strip_prefix(' ')?.to_owned();
        Some(Self { versions, eventually, command, expected: Vec::new(), exit_code: 0, line })
    }

    fn render(&self) -> String {
        let again = if self.eventually { "~" } else { "" };
        let mut text = format!("${}{again} {}\n", self.versions.prefix(), self.command);
        self.expected.iter().for_each(|line| text += &format!("{line}\n"));
        if self.exit_code != 0 {
            text += &format!("? {}\n", self.exit_code);
        }
        text
    }

    /// The expected output of a client of this version.
    pub fn expected_of(&self, minor: u32) -> Vec<&str> {
        let meant = self.expected.iter().filter_map(|line| {
            let condition = line.strip_prefix('[').and_then(Versions::parse);
            match condition {
                Some((versions, rest)) if versions != Versions::All => {
                    let rest = rest.strip_prefix("] ").or(rest.strip_prefix(']'))?;
                    versions.has(minor).then_some(rest)
                }
                _ => Some(line.as_str()),
            }
        });
        meant.collect()
    }

    /// Whether this is the expected output of a client of this version. `output` is normalized.
    pub fn fits(&self, minor: u32, output: &str, exit_code: i32) -> bool {
        let output: Vec<&str> = output.lines().collect();
        exit_code == self.exit_code && lines_match(&self.expected_of(minor), &output)
    }
}

/// Whether the lines match the patterns, where a pattern `...` matches any number of lines.
pub fn lines_match(patterns: &[&str], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| lines_match(rest, &lines[skipped..])),
        Some((pattern, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| line_matches(pattern, line) && lines_match(rest, lines))
        }
    }
}

/// Whether the line matches the pattern, where `[..]` matches any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let mut pieces = pattern.split("[..]");
    let first = pieces.next().unwrap_or_default();
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return line.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return line.ends_with(piece);
        }
        let Some(at) = line.find(piece) else { return false };
        line = &line[at + piece.len()..];
    }
    true
}

/// Variable parts, and their replacements.
static VARIABLES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rows = [
        // Gaps between columns, then ages in them.
        (r"(\S)(?:  +|\t+ *)", "$1  "),
        (r"(  |^)(?:\d+[smhd]){1,2}(  |$)", "${1}AGE$2"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
        (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r#"(resourceVersion"?: )"\d+""#, "${1}REVISION"),
        // The default ranges of services.
        (r"\b10\.(?:9[6-9]|10\d|11[01])\.\d+\.\d+\b", "IP"),
        (r":3\d{4}/", ":NODEPORT/"),
        (r"https://127\.0\.0\.1:\d+", "URL"),
    ];
    let compiled = rows.map(|(pattern, shown)| (Regex::new(pattern).expect("a valid expression"), shown));
    compiled.into_iter().collect()
});

/// Normalizes variable parts, and `names` (the keys, replaced by the values). Blank lines, trailing blanks, and
/// client-go's log line about a watch that ends within its first second are removed: whether it does depends on the
/// machine.
pub fn normalise(output: &str, names: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let is_shown = |line: &&str| !line.is_empty() && !line.contains("very short watch");
    for line in output.lines().map(str::trim_end).filter(is_shown) {
        let mut line = line.to_owned();
        for (name, shown) in names {
            line = line.replace(name, shown);
        }
        for (pattern, shown) in VARIABLES.iter() {
            line = pattern.replace_all(&line, *shown).into_owned();
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[test]
fn patterns_match() {
    let rows = [
        ("a [..] c", "a b c", true),
        ("a [..]", "a b c", true),
        ("[..]b[..]", "a b c", true),
        ("a [..] d", "a b c", false),
        ("...\nc", "a\nb\nc", true),
        ("a\n...", "a", true),
        ("a\n...\nb", "a\nc", false),
        ("a", "a\nb", false),
        ("[<1.30]old\n[>=1.30] new", "new", true),
        ("[<1.32] old\nb", "old\nb", true),
    ];
    for (expected, output, fits) in rows {
        let text = format!("# server: up\n$>=1.28~ run\n{expected}\n? 3\n");
        let transcript = Transcript::parse(&text).expect("a transcript");
        let [Part::Step(step)] = transcript.parts.as_slice() else { panic!("one step: {transcript:?}") };
        assert_eq!(step.fits(31, output, 3), fits, "{expected:?} on {output:?}");
        assert!(!step.fits(31, output, 0), "the exit code counts");
        assert_eq!(transcript.render(), text);
        assert!(step.eventually && step.versions.has(28) && !step.versions.has(27));
    }
}

#[test]
fn variable_output_is_normalized() {
    let names = BTreeMap::from([("get-1-33".to_owned(), "$NS".to_owned())]);
    let output = "NAME     STATUS   AGE\nget-1-33   Active   3m2s  \n\n  at 2026-01-01T00:00:00Z\n";
    assert_eq!(normalise(output, &names), "NAME  STATUS  AGE\n$NS  Active  AGE\n  at TIME\n");
}
