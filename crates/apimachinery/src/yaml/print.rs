//! Printing trees as `kubectl -o yaml` does.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::scalar::{is_merge, reads_as_string};
use crate::go_json::yaml_number;

/// Column after which goyaml breaks a line at the next blank.
const WIDTH: usize = 80;
const STEP: usize = 2;
/// The longest key in bytes that goyaml writes without a `?`.
const MAX_SIMPLE_KEY: usize = 128;

/// The document with a newline at its end. Keys are sorted as goyaml sorts them: digits by their number.
pub fn to_string(value: &Value) -> String {
    let mut printer = Printer { text: String::new() };
    match value {
        Value::Object(map) if !map.is_empty() => printer.map(map, 0),
        Value::Array(items) if !items.is_empty() => printer.list(items, 0),
        scalar => {
            printer.scalar(scalar, STEP);
            printer.text.push('\n');
        }
    }
    printer.text
}

/// Whether a key needs no `?` before it: it has one line, which is short.
fn is_simple(key: &str) -> bool {
    key.len() <= MAX_SIMPLE_KEY && !key.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

struct Printer {
    text: String,
}

impl Printer {
    fn indent(&mut self, indent: usize) {
        self.text.extend(std::iter::repeat_n(' ', indent));
    }

    /// Entries of a map; the caller has indented the first one.
    fn map(&mut self, map: &Map<String, Value>, indent: usize) {
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_by(|a, b| natural(a.0, b.0));
        for (position, (key, value)) in entries.into_iter().enumerate() {
            if position > 0 {
                self.indent(indent);
            }
            if !is_simple(key) {
                self.text.push_str("? ");
                self.string(key, indent + STEP);
                self.text.push('\n');
                self.indent(indent);
                self.text.push_str(": ");
                self.item(value, indent + STEP);
                continue;
            }
            self.key(key);
            self.text.push(':');
            match value {
                Value::Object(map) if !map.is_empty() => {
                    self.text.push('\n');
                    self.indent(indent + STEP);
                    self.map(map, indent + STEP);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.text.push('\n');
                    self.indent(indent);
                    self.list(items, indent);
                }
                scalar => {
                    self.text.push(' ');
                    self.scalar(scalar, indent + STEP);
                    self.text.push('\n');
                }
            }
        }
    }

    /// Items of a list; the caller has indented the first one.
    fn list(&mut self, items: &[Value], indent: usize) {
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                self.indent(indent);
            }
            self.text.push_str("- ");
            self.item(item, indent + STEP);
        }
    }

    /// What follows an indicator (`-`, `:`) in its line.
    fn item(&mut self, item: &Value, indent: usize) {
        match item {
            Value::Object(map) if !map.is_empty() => self.map(map, indent),
            Value::Array(items) if !items.is_empty() => self.list(items, indent),
            scalar => {
                self.scalar(scalar, indent);
                self.text.push('\n');
            }
        }
    }

    /// Without the newline behind it.
    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) => self.string(text, indent),
            Value::Object(_) => self.text.push_str("{}"),
            Value::Array(_) => self.text.push_str("[]"),
            Value::Number(number) => self.text.push_str(&yaml_number(number)),
            other => self.text.push_str(&other.to_string()),
        }
    }

    fn key(&mut self, key: &str) {
        let shape = Shape::of(key);
        if is_merge(key) || !reads_as_string(key) || !shape.single_quotes {
            self.double_quoted(key, None);
        } else if shape.plain {
            self.text.push_str(key);
        } else {
            self.single_quoted(key, None);
        }
    }

    fn string(&mut self, text: &str, indent: usize) {
        let shape = Shape::of(text);
        if text.contains('\n') {
            if shape.block {
                self.literal(text, indent);
            } else {
                self.double_quoted(text, Some(indent));
            }
        } else if !reads_as_string(text) || !shape.single_quotes {
            self.double_quoted(text, Some(indent));
        } else if shape.plain {
            self.words(text, indent, |_| None);
        } else {
            self.single_quoted(text, Some(indent));
        }
    }

    fn column(&self) -> usize {
        let line = self.text.rfind('\n').map_or(0, |at| at + 1);
        self.text[line..].chars().count()
    }

    /// Text that is broken at single blanks beyond the width.
    fn words(&mut self, text: &str, indent: usize, escape: impl Fn(char) -> Option<&'static str>) {
        let mut column = self.column();
        let mut after_blank = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let lone = c == ' ' && !after_blank && !first && chars.peek().is_some_and(|next| *next != ' ');
            if lone && column > WIDTH {
                self.text.push('\n');
                self.indent(indent);
                column = indent;
            } else {
                match escape(c) {
                    Some(escaped) => {
                        self.text.push_str(escaped);
                        column += escaped.len();
                    }
                    None => {
                        self.text.push(c);
                        column += 1;
                    }
                }
            }
            after_blank = c == ' ';
            first = false;
        }
    }

    fn single_quoted(&mut self, text: &str, indent: Option<usize>) {
        self.text.push('\'');
        match indent {
            Some(indent) => self.words(text, indent, |c| (c == '\'').then_some("''")),
            None => self.text.push_str(&text.replace('\'', "''")),
        }
        self.text.push('\'');
    }

    fn double_quoted(&mut self, text: &str, indent: Option<usize>) {
        self.text.push('"');
        let mut column = self.column();
        let mut after_blank = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            if let (' ', Some(indent), false, false, Some(next)) = (c, indent, after_blank, first, chars.peek())
                && column > WIDTH
            {
                self.text.push('\n');
                self.indent(indent);
                column = indent;
                if *next == ' ' {
                    self.text.push('\\');
                    column += 1;
                }
            } else {
                let before = self.text.len();
                escape(c, &mut self.text);
                column += self.text[before..].chars().count();
            }
            after_blank = c == ' ';
            first = false;
        }
        self.text.push('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.text.push('|');
        if text.starts_with([' ', '\n']) {
            self.text.push_str(&STEP.to_string());
        }
        if !text.ends_with('\n') {
            self.text.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.text.push('+');
        }
        let body = text.strip_suffix('\n').unwrap_or(text);
        for line in body.split('\n') {
            self.text.push('\n');
            if !line.is_empty() {
                self.indent(indent);
                self.text.push_str(line);
            }
        }
    }
}

fn escape(c: char, out: &mut String) {
    let short = match c {
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ if is_printable(c) => {
            out.push(c);
            return;
        }
        _ => {
            let code = u32::from(c);
            out.push_str(&match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
            return;
        }
    };
    out.push_str(short);
}

/// goyaml prints the basic multilingual plane only.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// In which styles a text can be written so that it reads back the same.
struct Shape {
    plain: bool,
    single_quotes: bool,
    block: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let is_break = |c: char| matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let blank = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | '\t') || is_break(c));
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) = (false, false, false, false);
        let mut before: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            indicators |= match c {
                '#' => blank(before),
                ':' => blank(next),
                '-' | '?' if before.is_none() => blank(next),
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    before.is_none()
                }
                _ => false,
            };
            special |= !is_printable(c);
            breaks |= is_break(c);
            break_space |= c == ' ' && before.is_some_and(is_break);
            space_break |= is_break(c) && before == Some(' ');
            before = Some(c);
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let spaced = edge(text.chars().next()) || edge(before);
        let writable = !(space_break || special);
        Self {
            plain: writable && !(spaced || break_space || breaks || indicators),
            single_quotes: writable && !break_space,
            block: writable && before.is_some_and(|last| last != ' '),
        }
    }
}

/// Other characters before letters, letters by code, runs of digits by number.
fn natural(a: &str, b: &str) -> Ordering {
    let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = x.iter().zip(&y).position(|(c, d)| c != d) else { return x.len().cmp(&y.len()) };
    let (c, d) = (x[at], y[at]);
    match (c.is_alphabetic(), d.is_alphabetic()) {
        (true, true) => return c.cmp(&d),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A leading digit that is not zero, before the difference, makes zeros count.
    let inside = (c == '0' || d == '0') && x[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let run = |chars: &[char]| {
        let digits = chars[at..].iter().take_while(|c| c.is_ascii_digit());
        let start = (u64::from(inside), 0usize);
        digits.fold(start, |(value, count), digit| {
            (value.wrapping_mul(10).wrapping_add(u64::from(u32::from(*digit) - 48)), count + 1)
        })
    };
    run(&x).cmp(&run(&y)).then(c.cmp(&d))
}
