//! The errors of an expression in cel-go's format: position, message, the line and a caret.

use std::fmt;

/// The maximum number of reported errors.
const MAX_ISSUES: usize = 100;

/// Longer lines are not printed, as in cel-go.
const MAX_SNIPPET: usize = 16_384;

/// An error in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Characters from the start of the source.
    pub position: u32,
    /// The message.
    pub message: String,
}

/// The errors of one source. Displays one block of lines for each, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct Issues {
    expression: String,
    list: Vec<Issue>,
}

impl Issues {
    /// No errors in `source` yet.
    pub fn new(source: &str) -> Self {
        Self { expression: source.to_owned(), list: Vec::new() }
    }

    /// Adds an error.
    pub fn report(&mut self, position: u32, message: impl Into<String>) {
        let issue = Issue { position, message: message.into() };
        if self.list.len() < MAX_ISSUES && !self.list.contains(&issue) {
            self.list.push(issue);
        }
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors in the order of their reports.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.list.iter()
    }

    /// The same errors, sorted by position.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.list.sort_by_key(|issue| issue.position);
        self
    }
}

struct Rendered<'a>(&'a Issues);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.0.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let (line, column, text) = locate(&self.0.expression, issue.position as usize);
            write!(f, "ERROR: <input>:{}:{}: {}", line + 1, column + 1, issue.message)?;
            if text.len() <= MAX_SNIPPET {
                let dots = ".".repeat(column);
                write!(f, "\n | {}\n | {dots}^", text.replace('\t', " "))?;
            }
        }
        Ok(())
    }
}

/// Line and column, both from zero, and the text of the line.
fn locate(source: &str, position: usize) -> (usize, usize, &str) {
    let mut left = position;
    let mut last = (0, 0, "");
    for (number, line) in source.split('\n').enumerate() {
        let length = line.chars().count();
        if left <= length {
            return (number, left, line);
        }
        left -= length + 1;
        last = (number, length, line);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_points_into_its_line() {
        let mut issues = Issues::new("a &&\n  b.c");
        issues.report(8, "undefined field 'c'");
        issues.report(0, "first");
        assert_eq!(
            issues.sorted().to_string(),
            "ERROR: <input>:1:1: first\n | a &&\n | ^\nERROR: <input>:2:4: undefined field 'c'\n |   b.c\n | ...^"
        );
    }
}
