//! What is wrong with an expression, shown as cel-go shows it: place, message, the line and a caret.

use std::fmt;

/// More are not collected: a text is read by people.
const MAX_ISSUES: usize = 100;

/// Lines longer than this are not repeated, as in cel-go.
const MAX_SNIPPET: usize = 16_384;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Characters from the start of the source.
    pub position: u32,
    pub message: String,
}

/// The errors of one source. Displays as one block of lines for each, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct Issues {
    expression: String,
    list: Vec<Issue>,
}

impl Issues {
    pub fn new(source: &str) -> Self {
        Self { expression: source.to_owned(), list: Vec::new() }
    }

    pub fn report(&mut self, position: u32, message: impl Into<String>) {
        let issue = Issue { position, message: message.into() };
        if self.list.len() < MAX_ISSUES && !self.list.contains(&issue) {
            self.list.push(issue);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.list.iter()
    }

    /// The same issues, ordered by place.
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
