//! The text of a JSONPath template into its parts, with client-go's grammar and messages.

use serde_json::{Value, json};

use super::unquote::unquoted;
use super::{JsonPath, MAX_DEPTH, Operator, Part, Slice, Step, SyntaxError};

pub fn template(text: &str) -> Result<Vec<Part>, SyntaxError> {
    let mut open: Vec<(JsonPath, Vec<Part>)> = Vec::new();
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        if start > 0 {
            parts.push(Part::Text(rest[..start].to_owned()));
        }
        let mut parser = Parser { rest: &rest[start + 1..] };
        let mut steps = parser.action()?;
        rest = parser.rest;
        let is_word = |step: &Step, name: &str| matches!(step, Step::Identifier(word) if word == name);
        if steps.iter().any(|step| is_word(step, "range")) {
            if open.len() == MAX_DEPTH {
                return Err(SyntaxError(format!("more than {MAX_DEPTH} nested ranges")));
            }
            steps.retain(|step| !is_word(step, "range"));
            open.push((JsonPath(steps), std::mem::take(&mut parts)));
        } else if steps.iter().any(|step| is_word(step, "end"))
            && let Some(range) = open.pop()
        {
            close(range, &mut parts);
        } else {
            parts.push(Part::Find(JsonPath(steps)));
        }
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    // A range without an end lasts until the end of the template.
    open.into_iter().rev().for_each(|range| close(range, &mut parts));
    Ok(parts)
}

fn close((path, before): (JsonPath, Vec<Part>), parts: &mut Vec<Part>) {
    let body = std::mem::replace(parts, before);
    parts.push(Part::Range(path, body));
}

/// One action without its braces. As in client-go, a brace in the text ends it. The texts in brackets and filters are
/// parsed by it, too, at most two deep: the first parenthesis ends a filter.
pub fn path(text: &str) -> Result<JsonPath, SyntaxError> {
    let closed = format!("{text}}}");
    Parser { rest: &closed }.action().map(JsonPath)
}

struct Parser<'t> {
    rest: &'t str,
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The characters that end a name.
fn is_terminator(c: char) -> bool {
    " \t\r\n.,[]$@{}".contains(c)
}

impl<'t> Parser<'t> {
    /// The steps up to the closing brace, which is consumed.
    fn action(&mut self) -> Result<Vec<Step>, SyntaxError> {
        let mut steps = Vec::new();
        loop {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                steps.push(self.filter()?);
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                if steps.last() == Some(&Step::Descend) {
                    return Err("invalid multiple recursive descent".into());
                }
                self.rest = rest;
                steps.push(Step::Descend);
                if rest.starts_with(is_word) {
                    steps.push(self.field());
                }
                continue;
            }
            let Some(first) = self.rest.chars().next() else { return Err("unclosed action".into()) };
            let after = &self.rest[first.len_utf8()..];
            match first {
                '}' => {
                    self.rest = after;
                    return Ok(steps);
                }
                '\r' | '\n' => return Err("unclosed action".into()),
                // The current value, which every path begins with.
                ' ' | '@' | '$' => self.rest = after,
                '[' => {
                    self.rest = after;
                    self.array(&mut steps)?;
                }
                '"' | '\'' => steps.push(self.quote(first)?),
                '.' => {
                    self.rest = after;
                    steps.push(self.field());
                }
                '+' | '-' | '0'..='9' => steps.push(self.number()?),
                c if is_word(c) => steps.push(self.word()),
                c => return Err(SyntaxError(format!("unrecognized character in action: {}", code_point(c)))),
            }
        }
    }

    /// Consumes as many bytes.
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// A field's name; a backslash keeps its terminators.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut escaped = false;
        let end = self.rest.char_indices().find(|(_, c)| match c {
            _ if std::mem::take(&mut escaped) => {
                name.extend(Some(*c).filter(|c| *c != '\\'));
                false
            }
            '\\' => {
                escaped = true;
                false
            }
            c if is_terminator(*c) => true,
            c => {
                name.push(*c);
                false
            }
        });
        let end = end.map_or(self.rest.len(), |(at, _)| at);
        self.take(end);
        if name == "*" { Step::Wildcard } else { Step::Child(name) }
    }

    fn word(&mut self) -> Step {
        let word = self.take(self.rest.find(is_terminator).unwrap_or(self.rest.len()));
        match word {
            "true" => Step::Literal(json!(true)),
            "false" => Step::Literal(json!(false)),
            word => Step::Identifier(word.to_owned()),
        }
    }

    fn number(&mut self) -> Result<Step, SyntaxError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(digits.map_or(self.rest.len(), |digits| sign + digits));
        let whole = text.parse::<i64>().map(|number| json!(number));
        let number = whole.ok().or_else(|| text.parse::<f64>().ok().map(|number| json!(number)));
        number.map(Step::Literal).ok_or_else(|| SyntaxError(format!("cannot parse number {text}")))
    }

    fn quote(&mut self, quote: char) -> Result<Step, SyntaxError> {
        let mut before = quote;
        for (at, c) in self.rest.char_indices().skip(1) {
            if c == '\n' {
                break;
            }
            if c == quote && before != '\\' {
                let text = self.take(at + 1);
                let value = unquoted(&text[1..at], quote)
                    .ok_or_else(|| SyntaxError(format!("unquote string {text} error invalid syntax")))?;
                return Ok(Step::Literal(Value::String(value)));
            }
            before = c;
        }
        Err("unterminated quoted string".into())
    }

    /// What is in brackets, after the opening one.
    fn array(&mut self, steps: &mut Vec<Step>) -> Result<(), SyntaxError> {
        let end = self.rest.find([']', '\n']).filter(|end| self.rest[*end..].starts_with(']'));
        let text = self.take(end.ok_or("unterminated array")?);
        self.take(1);
        if text.contains(',') {
            let members = text.split(',').map(|part| path(&format!("[{}]", part.trim_matches(' '))));
            steps.push(Step::Union(members.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).filter(|key| !key.contains('\''));
        let Some(key) = key else {
            steps.push(Step::Slice(slice(if text == "*" { ":" } else { text })?));
            return Ok(());
        };
        let path = path(&format!(".{key}"))?;
        // A name with dots is found as it is, too, which client-go requires to be escaped.
        let is_dotted = path.0.len() > 1 && path.0.iter().all(|step| matches!(step, Step::Child(_)));
        if is_dotted {
            steps.push(Step::Dotted(key.replace('\\', ""), path));
        } else {
            steps.extend(path.0);
        }
        Ok(())
    }

    /// After `[?(`.
    fn filter(&mut self) -> Result<Step, SyntaxError> {
        let end = filter_end(self.rest).ok_or("unterminated filter")?;
        let text = self.take(end);
        self.take(1);
        self.rest = self.rest.strip_prefix(']').ok_or("unclosed array expect ]")?;
        let is_sign = |c: char| "!<>=".contains(c);
        let signs = text.find(is_sign).filter(|at| *at > 0).and_then(|from| {
            let run = text[from..].find(|c| !is_sign(c)).unwrap_or(text.len() - from);
            // At least one character is left for the right side.
            let to = if from + run == text.len() { from + run - 1 } else { from + run };
            (to > from).then_some((from, to))
        });
        match signs {
            None => Ok(Step::Filter { left: path(text)?, comparison: None }),
            Some((from, to)) => {
                let comparison = Some((operator(&text[from..to]), path(&text[to..])?));
                Ok(Step::Filter { left: path(&text[..from])?, comparison })
            }
        }
    }
}

/// The parenthesis that closes a filter: outside the first quotes.
fn filter_end(text: &str) -> Option<usize> {
    let (mut quote, mut closed, mut before) = (None, false, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) && before != '\\' => closed = true,
            ')' if quote.is_some() == closed => return Some(at),
            _ => {}
        }
        before = c;
    }
    None
}

fn operator(sign: &str) -> Operator {
    match sign {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => Operator::Unknown(other.to_owned()),
    }
}

/// `3`, `1:2` or `::2`.
fn slice(text: &str) -> Result<Slice, SyntaxError> {
    let bounds: Vec<&str> = text.split(':').collect();
    let is_bound = |bound: &&str| bound.strip_prefix('-').unwrap_or(bound).bytes().all(|byte| byte.is_ascii_digit());
    if bounds.len() > 3 || !bounds.iter().all(is_bound) {
        return Err(SyntaxError(format!("invalid array index {text}")));
    }
    let number = |at: usize| match bounds.get(at) {
        None | Some(&"") => Ok(None),
        Some(bound) => {
            bound.parse::<i64>().map(Some).map_err(|_| SyntaxError(format!("array index {bound} is not a number")))
        }
    };
    match bounds.len() {
        // Without a bound it is the first item.
        1 => Ok(Slice::Index(number(0)?.unwrap_or(0))),
        _ => Ok(Slice::Range { start: number(0)?, end: number(1)?, step: number(2)? }),
    }
}

/// `U+0023 '#'`
fn code_point(c: char) -> String {
    if c.is_control() { format!("U+{:04X}", u32::from(c)) } else { format!("U+{:04X} '{c}'", u32::from(c)) }
}
