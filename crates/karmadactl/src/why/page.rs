//! The output of `why`: the result, the awaited event, the next step, then the evidence.

use serde_json::{Map, Value, json};

use crate::resume::Form;
use crate::table::{Layout, printable};

/// The column in which texts begin.
const INDENT: usize = 13;

/// One part of the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Texts behind a label.
    Lines(&'static str, Vec<String>),
    /// Rows below their heading.
    Table(Vec<String>, Vec<Vec<String>>),
}

/// The explanation of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// `Deployment shop/web, 2 replicas`
    pub subject: String,
    /// One sentence.
    pub answer: String,
    /// The outstanding steps; empty when every step is complete.
    pub waiting: Vec<String>,
    /// At least one.
    pub next: Vec<String>,
    /// The objects that could not be read, and why.
    pub unknown: Vec<String>,
    pub parts: Vec<Part>,
    /// The evidence for programs.
    pub facts: Map<String, Value>,
}

impl Page {
    pub fn lines(&mut self, label: &'static str, lines: Vec<String>) {
        if !lines.is_empty() {
            self.parts.push(Part::Lines(label, lines));
        }
    }

    pub fn table<const N: usize>(&mut self, heading: [&str; N], rows: Vec<[String; N]>) {
        if !rows.is_empty() {
            let heading = heading.map(str::to_owned).to_vec();
            self.parts.push(Part::Table(heading, rows.into_iter().map(Vec::from).collect()));
        }
    }

    pub fn fact(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    pub fn to_value(&self) -> Value {
        let mut value =
            json!({"about": self.subject, "answer": self.answer, "waitingFor": self.waiting, "next": self.next});
        if let Value::Object(map) = &mut value {
            map.insert("unknown".to_owned(), json!(self.unknown));
            map.extend(self.facts.clone());
        }
        value
    }

    /// Lines for a terminal of `width` columns, or for a file.
    pub fn to_text(&self, width: Option<usize>) -> String {
        let mut text = format!("{}: {}\n", self.subject, printable(&self.answer));
        labelled(&mut text, "Waiting", &self.waiting, width);
        labelled(&mut text, "Next", &self.next, width);
        labelled(&mut text, "Unknown", &self.unknown, width);
        let mut was_table = true;
        for part in &self.parts {
            match part {
                Part::Lines(label, lines) => {
                    if was_table {
                        text.push('\n');
                    }
                    labelled(&mut text, label, lines, width);
                    was_table = false;
                }
                Part::Table(heading, rows) => {
                    let clean = |row: &Vec<String>| row.iter().map(|cell| printable(cell)).collect::<Vec<_>>();
                    let lines: Vec<_> = std::iter::once(heading.clone()).chain(rows.iter().map(clean)).collect();
                    text.push('\n');
                    text.push_str(&Layout::breaking(width).render(&lines));
                    was_table = true;
                }
            }
        }
        text
    }
}

/// Lines behind a label, which the first has.
fn labelled(text: &mut String, label: &str, lines: &[String], width: Option<usize>) {
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { format!("{label}:") } else { String::new() };
        let cells = vec![format!("{label:<INDENT$}"), printable(line)];
        text.push_str(&Layout::labelled(width).render(&[cells]));
    }
}

/// All pages of a command.
///
/// # Errors
/// When they cannot be encoded.
pub fn print(pages: &[Page], form: Form, width: Option<usize>) -> Result<String, crate::error::Error> {
    match (form, pages) {
        (Form::Text, pages) => Ok(pages.iter().map(|page| page.to_text(width)).collect::<Vec<_>>().join("\n")),
        (form, [only]) => form.encode(&only.to_value()),
        (form, pages) => form.encode(&json!({"items": pages.iter().map(Page::to_value).collect::<Vec<_>>()})),
    }
}
