//! The text of a JSONPath template into its parts.

use serde_json::{Value, json};

use super::{JsonPath, MAX_DEPTH, Operand, Operator, Part, Slice, Step, SyntaxError};

pub fn template(text: &str) -> Result<Vec<Part>, SyntaxError> {
    let mut open: Vec<(JsonPath, Vec<Part>)> = Vec::new();
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        if start > 0 {
            parts.push(Part::Text(rest[..start].to_owned()));
        }
        let inner = &rest[start + 1..];
        let end = end_of(inner, '}').ok_or("unclosed action")?;
        rest = &inner[end + 1..];
        match inner[..end].trim() {
            "end" => {
                let (path, before) = open.pop().ok_or("not in range, nothing to end")?;
                let body = std::mem::replace(&mut parts, before);
                parts.push(Part::Range(path, body));
            }
            action => match action.strip_prefix("range ") {
                Some(_) if open.len() == MAX_DEPTH => {
                    return Err(SyntaxError(format!("more than {MAX_DEPTH} nested ranges")));
                }
                Some(over) => open.push((JsonPath::parse(over)?, std::mem::take(&mut parts))),
                None => parts.push(simple(action)?),
            },
        }
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    if open.is_empty() { Ok(parts) } else { Err("unterminated range".into()) }
}

fn simple(action: &str) -> Result<Part, SyntaxError> {
    match literal(action) {
        Some(Value::String(text)) => Ok(Part::Text(text)),
        _ => JsonPath::parse(action).map(Part::Find),
    }
}

/// A path from its first dot, bracket or `$`.
pub fn path(text: &str) -> Result<JsonPath, SyntaxError> {
    let mut steps = Vec::new();
    let mut rest = text.trim();
    if let Some(after) = rest.strip_prefix('$') {
        steps.push(Step::Root);
        rest = after;
    }
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let end = end_of_bracket(bracket)?;
            steps.push(bracket_step(bracket[..end].trim())?);
            rest = &bracket[end + 1..];
        } else if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Descend);
            rest = after;
            if !rest.is_empty() && !rest.starts_with(['[', '.', '*']) {
                let (name, remaining) = name(rest)?;
                steps.push(Step::Child(name));
                rest = remaining;
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            if rest.is_empty() || rest.starts_with('[') {
                continue;
            }
            let (name, remaining) = name(rest)?;
            steps.push(if name == "*" { Step::Wildcard } else { Step::Child(name) });
            rest = remaining;
        } else if let Some(after) = rest.strip_prefix('*') {
            steps.push(Step::Wildcard);
            rest = after;
        } else {
            let found = rest.chars().next().unwrap_or(' ');
            return Err(SyntaxError(format!("unrecognized character in action: {found:?}")));
        }
    }
    Ok(JsonPath(steps))
}

/// A field's name; a backslash escapes its terminators.
fn name(text: &str) -> Result<(String, &str), SyntaxError> {
    let mut name = String::new();
    let mut escaped = false;
    for (position, c) in text.char_indices() {
        match c {
            c if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => return named(name, &text[position..]),
            c => name.push(c),
        }
    }
    named(name, "")
}

fn named(name: String, rest: &str) -> Result<(String, &str), SyntaxError> {
    if name.trim().is_empty() { Err("empty field name".into()) } else { Ok((name.trim().to_owned(), rest)) }
}

/// The position of the bracket that closes the one before `text`.
fn end_of_bracket(text: &str) -> Result<usize, SyntaxError> {
    let is_filter = text.trim_start().starts_with("?(");
    let found = if is_filter {
        // Paths within a filter contain brackets.
        let open = text.find("?(").unwrap_or_default() + 2;
        let close = end_of(&text[open..], ')').ok_or("unterminated filter")?;
        end_of(&text[open + close..], ']').map(|end| open + close + end)
    } else {
        end_of(text, ']')
    };
    found.ok_or_else(|| SyntaxError::from(if is_filter { "unterminated filter" } else { "unterminated array" }))
}

/// The position of `end` outside quotes.
fn end_of(text: &str, end: char) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (position, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c == end => return Some(position),
            _ => {}
        }
    }
    None
}

fn bracket_step(inner: &str) -> Result<Step, SyntaxError> {
    match inner {
        "*" => return Ok(Step::Wildcard),
        // Go's slice of no bounds is the first item.
        "" => return Ok(Step::Slice(Slice::Index(0))),
        _ => {}
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        return self::filter(filter);
    }
    let mut parts = split(inner, ',').into_iter().map(str::trim).map(member).collect::<Result<Vec<_>, _>>()?;
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => Ok(Step::Union(parts)),
    }
}

/// `'name'`, `3` or `1:2`.
fn member(text: &str) -> Result<Step, SyntaxError> {
    if let Some(Value::String(name)) = literal(text) {
        // Where no field has the whole name, its dots separate fields.
        return Ok(Step::Child(name));
    }
    let number = |text: &str| text.parse::<i64>().map_err(|_| SyntaxError(format!("invalid array index {text}")));
    let optional = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text.trim()).map(Some) };
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [index] => Ok(Step::Slice(Slice::Index(number(index)?))),
        [start, end] => Ok(Step::Slice(Slice::Range { start: optional(start)?, end: optional(end)?, step: 1 })),
        [start, end, step] => {
            let step = optional(step)?.unwrap_or(1);
            if step <= 0 {
                return Err("step must be greater than zero".into());
            }
            Ok(Step::Slice(Slice::Range { start: optional(start)?, end: optional(end)?, step }))
        }
        _ => Err(SyntaxError(format!("invalid array index {text}"))),
    }
}

fn split(text: &str, at: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(end) = end_of(rest, at) {
        parts.push(&rest[..end]);
        rest = &rest[end + at.len_utf8()..];
    }
    parts.push(rest);
    parts
}

fn filter(text: &str) -> Result<Step, SyntaxError> {
    // Each is parsed within the one around it.
    if text.matches("?(").count() >= MAX_DEPTH {
        return Err(SyntaxError(format!("more than {MAX_DEPTH} filters in a filter")));
    }
    // The longer operators first, as `<=` begins with `<`.
    const OPERATORS: [(&str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    for (sign, operator) in OPERATORS {
        let first = sign.chars().next().unwrap_or_default();
        if let Some(at) = end_of(text, first).filter(|at| text[*at..].starts_with(sign)) {
            let (left, right) = (operand(&text[..at])?, operand(&text[at + sign.len()..])?);
            return Ok(Step::Filter { left, comparison: Some((operator, right)) });
        }
    }
    Ok(Step::Filter { left: operand(text)?, comparison: None })
}

fn operand(text: &str) -> Result<Operand, SyntaxError> {
    let text = text.trim();
    if let Some(value) = literal(text) {
        return Ok(Operand::Literal(value));
    }
    match text {
        "true" => Ok(Operand::Literal(json!(true))),
        "false" => Ok(Operand::Literal(json!(false))),
        _ => JsonPath::parse(text).map(Operand::Path),
    }
}

/// A quoted text or a number.
fn literal(text: &str) -> Option<Value> {
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner.filter(|_| text.len() >= 2) {
            return Some(Value::String(unescape(inner)));
        }
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    is_number.then(|| serde_json::from_str(text).ok()).flatten()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}
