//! The text form of label selectors, with apimachinery's messages.

use std::collections::BTreeSet;

use super::{Operator, ParseError, Requirement, key_complaint};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// The token in the text; empty at its end.
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }

    /// Whether a requirement begins with it.
    fn begins(self) -> bool {
        matches!(self, Token::Word(_) | Token::Symbol("!"))
    }

    /// Whether a requirement ends before it.
    fn ends(self) -> bool {
        matches!(self, Token::End | Token::Symbol(","))
    }

    fn unexpected(self, expected: &str) -> ParseError {
        ParseError(format!("found '{}', expected: {expected}", self.text()))
    }
}

struct Tokens<'a> {
    rest: &'a str,
}

/// The longer ones first.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

impl<'a> Tokens<'a> {
    fn peek(&self) -> Token<'a> {
        self.split().0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.split();
        self.rest = rest;
        token
    }

    fn split(&self) -> (Token<'a>, &'a str) {
        let is_blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
        let rest = self.rest.trim_start_matches(is_blank);
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            return (Token::Symbol(symbol), &rest[symbol.len()..]);
        }
        let end = rest.find(|c| is_blank(c) || "=!<>(),".contains(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        (if word.is_empty() { Token::End } else { Token::Word(word) }, rest)
    }
}

pub(super) fn selector(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut tokens = Tokens { rest: text };
    let mut requirements = Vec::new();
    match tokens.peek() {
        Token::End => return Ok(requirements),
        first if first.begins() => {}
        other => return Err(other.unexpected("!, identifier, or 'end of string'")),
    }
    loop {
        let found = requirement(&mut tokens);
        requirements.push(found.map_err(|why| ParseError(format!("unable to parse requirement: {why}")))?);
        match tokens.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") if tokens.peek().begins() => {}
            Token::Symbol(",") => return Err(tokens.peek().unexpected("identifier after ','")),
            other => return Err(other.unexpected("',' or 'end of string'")),
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, ParseError> {
    let absent = tokens.peek() == Token::Symbol("!");
    if absent {
        tokens.next();
    }
    let key = match tokens.next() {
        Token::Word(key) => key,
        other => return Err(other.unexpected("identifier")),
    };
    if let Some(complaint) = key_complaint(key) {
        // The parser has no path, which Go prints so.
        return Err(ParseError(format!("<nil>: {complaint}")));
    }
    if absent {
        return Requirement::new(key, Operator::DoesNotExist, Vec::new());
    }
    if tokens.peek().ends() {
        return Requirement::new(key, Operator::Exists, Vec::new());
    }
    let operator = match tokens.next() {
        Token::Symbol("=" | "==") => Operator::Equals,
        Token::Symbol("!=") => Operator::NotEquals,
        Token::Symbol(">") => Operator::GreaterThan,
        Token::Symbol("<") => Operator::LessThan,
        Token::Word("in") => Operator::In,
        Token::Word("notin") => Operator::NotIn,
        other => return Err(other.unexpected("in, notin, =, ==, !=, gt, lt")),
    };
    let values = match operator {
        Operator::In | Operator::NotIn => value_list(tokens)?.into_iter().map(str::to_owned).collect(),
        _ => vec![single_value(tokens)?.to_owned()],
    };
    Requirement::new(key, operator, values)
}

/// Empty before a comma or the end.
fn single_value<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, ParseError> {
    if tokens.peek().ends() {
        return Ok("");
    }
    match tokens.next() {
        Token::Word(value) => Ok(value),
        other => Err(other.unexpected("identifier")),
    }
}

/// The sorted values between parentheses: an empty one where a comma or a parenthesis follows without a value.
fn value_list<'a>(tokens: &mut Tokens<'a>) -> Result<BTreeSet<&'a str>, ParseError> {
    match tokens.next() {
        Token::Symbol("(") => {}
        other => return Err(ParseError(format!("found '{}' expected: '('", other.text()))),
    }
    if !matches!(tokens.peek(), Token::Word(_) | Token::Symbol("," | ")")) {
        return Err(tokens.peek().unexpected("',', ')' or identifier"));
    }
    let mut values = BTreeSet::new();
    loop {
        match tokens.peek() {
            Token::Word(value) => {
                tokens.next();
                values.insert(value);
            }
            Token::Symbol("," | ")") => {
                values.insert("");
            }
            other => return Err(other.unexpected("',', or identifier")),
        }
        match tokens.next() {
            Token::Symbol(",") => {}
            Token::Symbol(")") => return Ok(values),
            other => return Err(other.unexpected("',' or ')'")),
        }
    }
}
