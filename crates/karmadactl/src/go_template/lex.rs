//! A Go template into its texts and the tokens of its actions.

use apimachinery::jsonpath::Template;
use serde_json::Value;

/// A piece of the template.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text(String),
    /// The tokens of an action, and its end.
    Action(Vec<Token>, usize),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub kind: Kind,
    /// Its place in the template.
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A word such as `if`, `printf` or `true`.
    Word,
    /// `.a`
    Field,
    Dot,
    /// `$x` or `$`
    Variable,
    Text(String),
    Number(Number),
    Open,
    Close,
    Pipe,
    Declare,
    Assign,
    Space,
    /// Another character.
    Sign,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Integer(i64),
    Float(f64),
}

/// An error, and its place.
pub type LexError = (usize, String);

/// Blanks that `{{-` and `-}}` take away.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// # Errors
/// In Go's words.
pub fn pieces(template: &str) -> Result<Vec<Piece>, LexError> {
    let mut pieces = Vec::new();
    let (mut at, mut trims) = (0, false);
    while let Some(start) = template[at..].find("{{").map(|found| at + found) {
        let mut text = &template[at..start];
        let mut inner = start + 2;
        if trims {
            text = text.trim_start_matches(BLANKS);
        }
        if template[inner..].strip_prefix('-').is_some_and(|rest| rest.starts_with(BLANKS)) {
            text = text.trim_end_matches(BLANKS);
            inner += 2;
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        let mut lexer = Lexer { template, at: inner, parentheses: 0 };
        let blanks = template[inner..].len() - template[inner..].trim_start_matches(BLANKS).len();
        if template[inner + blanks..].starts_with("/*") {
            trims = lexer.comment()?;
        } else {
            let (tokens, end, trim) = lexer.action()?;
            trims = trim;
            pieces.push(Piece::Action(tokens, end));
        }
        at = lexer.at;
    }
    let rest = if trims { template[at..].trim_start_matches(BLANKS) } else { &template[at..] };
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

struct Lexer<'t> {
    template: &'t str,
    at: usize,
    parentheses: usize,
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `U+0040 '@'`
fn code_point(c: char) -> String {
    format!("U+{:04X} '{c}'", u32::from(c))
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.template[self.at..]
    }

    fn failed<T>(&self, why: impl Into<String>) -> Result<T, LexError> {
        Err((self.at, why.into()))
    }

    /// Whether the blanks behind the comment are removed.
    fn comment(&mut self) -> Result<bool, LexError> {
        let Some(end) = self.rest().find("*/") else { return self.failed("unclosed comment") };
        let after = &self.rest()[end + 2..];
        let trimmed = after.trim_start_matches(BLANKS);
        let trims = trimmed.len() < after.len() && trimmed.starts_with("-}}");
        if !trims && !after.starts_with("}}") {
            return self.failed("comment ends before closing delimiter");
        }
        self.at = self.template.len() - if trims { trimmed.len() - 3 } else { after.len() - 2 };
        Ok(trims)
    }

    /// The tokens up to the closing braces, the place of these, and whether the blanks behind them are removed.
    fn action(&mut self) -> Result<(Vec<Token>, usize, bool), LexError> {
        let mut tokens = Vec::new();
        loop {
            let start = self.at;
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches(BLANKS).len();
            let trims = blanks > 0 && rest[blanks..].starts_with("-}}");
            if trims || rest.starts_with("}}") {
                if self.parentheses > 0 {
                    return self.failed("unclosed left paren");
                }
                self.at += if trims { blanks + 3 } else { 2 };
                return Ok((tokens, start, trims));
            }
            let kind = self.token(blanks)?;
            tokens.push(Token { kind, start, end: self.at });
        }
    }

    fn token(&mut self, blanks: usize) -> Result<Kind, LexError> {
        if blanks > 0 {
            self.at += blanks;
            return Ok(Kind::Space);
        }
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return self.failed("unclosed action") };
        let (kind, length) = match first {
            '=' => (Kind::Assign, 1),
            ':' if rest.starts_with(":=") => (Kind::Declare, 2),
            ':' => return self.failed("expected :="),
            '|' => (Kind::Pipe, 1),
            '(' => {
                self.parentheses += 1;
                (Kind::Open, 1)
            }
            ')' if self.parentheses == 0 => return self.failed("unexpected right paren"),
            ')' => {
                self.parentheses -= 1;
                (Kind::Close, 1)
            }
            '"' | '`' | '\'' => return self.quoted(first),
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => return self.name(Kind::Field),
            '$' => return self.name(Kind::Variable),
            '+' | '-' | '.' | '0'..='9' => return self.number(),
            c if is_name(c) => return self.name(Kind::Word),
            c if c.is_ascii() && !c.is_ascii_control() => (Kind::Sign, 1),
            c => return self.failed(format!("unrecognized character in action: {}", code_point(c))),
        };
        self.at += length;
        Ok(kind)
    }

    /// A name, after its first character where that is no part of it.
    fn name(&mut self, kind: Kind) -> Result<Kind, LexError> {
        let rest = self.rest();
        let sign = usize::from(kind != Kind::Word);
        let length = rest[sign..].find(|c| !is_name(c)).unwrap_or(rest.len() - sign) + sign;
        self.at += length;
        let next = self.rest().chars().next();
        let is_end = next.is_none_or(|c| BLANKS.contains(&c) || ".,|:)(".contains(c)) || self.rest().starts_with("}}");
        match next {
            Some(c) if !is_end => self.failed(format!("bad character {}", code_point(c))),
            _ if kind == Kind::Field && length == 1 => Ok(Kind::Dot),
            _ => Ok(kind),
        }
    }

    fn number(&mut self) -> Result<Kind, LexError> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with(['+', '-']));
        let is_hex = rest[sign..].starts_with("0x") || rest[sign..].starts_with("0X");
        let mut before = ' ';
        let end = rest[sign..].find(|c: char| {
            let is_exponent = !is_hex && matches!(before, 'e' | 'E');
            let is_part = is_name(c) || c == '.' || (is_exponent && matches!(c, '+' | '-'));
            before = c;
            !is_part
        });
        let text = &rest[..end.map_or(rest.len(), |end| sign + end)];
        let Some(number) = number(text) else { return self.failed(format!("bad number syntax: {text:?}")) };
        self.at += text.len();
        Ok(Kind::Number(number))
    }

    fn quoted(&mut self, quote: char) -> Result<Kind, LexError> {
        let what = match quote {
            '`' => "unterminated raw quoted string",
            '"' => "unterminated quoted string",
            _ => "unterminated character constant",
        };
        let mut escaped = false;
        let end = self.rest().char_indices().skip(1).find(|(_, c)| match c {
            _ if std::mem::take(&mut escaped) => false,
            '\\' if quote != '`' => {
                escaped = true;
                false
            }
            '\n' if quote != '`' => true,
            c => *c == quote,
        });
        let Some((end, _)) = end.filter(|(_, c)| *c == quote) else { return self.failed(what) };
        let text = &self.rest()[1..end];
        let value = match quote {
            '`' => Some(text.to_owned()),
            // A literal of JSONPath has the same escapes.
            _ => Template::parse(&format!("{{{}}}", &self.rest()[..=end])).ok().map(|it| it.render(&Value::Null)),
        };
        let Some(value) = value else { return self.failed("invalid syntax") };
        self.at += end + 1;
        let mut chars = value.chars();
        match (quote, chars.next(), chars.next()) {
            // A character constant is its number.
            ('\'', Some(c), None) => Ok(Kind::Number(Number::Integer(i64::from(u32::from(c))))),
            ('\'', ..) => {
                self.failed(format!("malformed character constant: {}", &self.template[self.at - end - 1..self.at]))
            }
            _ => Ok(Kind::Text(value)),
        }
    }
}

fn number(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let plain = digits.replace('_', "");
    let lower = plain.to_ascii_lowercase();
    let whole = match (lower.get(..2), lower.get(2..)) {
        (Some("0x"), Some(digits)) => u64::from_str_radix(digits, 16).ok(),
        (Some("0o"), Some(digits)) => u64::from_str_radix(digits, 8).ok(),
        (Some("0b"), Some(digits)) => u64::from_str_radix(digits, 2).ok(),
        _ if lower.len() > 1 && lower.starts_with('0') => u64::from_str_radix(&lower, 8).ok(),
        _ => lower.parse().ok(),
    };
    if let Some(whole) = whole.and_then(|whole| i64::try_from(whole).ok()) {
        return Some(Number::Integer(if negative { -whole } else { whole }));
    }
    let float = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| plain.parse::<f64>().ok())??;
    Some(Number::Float(if negative { -float } else { float }))
}
