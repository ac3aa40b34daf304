//! The text form of label selectors.

use super::{Operator, ParseError, Requirement};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

struct Tokens<'a> {
    rest: &'a str,
}

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
        let rest = self.rest.trim_start();
        for (symbol, token) in [
            ("==", Token::Equals),
            ("!=", Token::NotEquals),
            ("=", Token::Equals),
            ("!", Token::Not),
            (">", Token::Greater),
            ("<", Token::Less),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ] {
            if let Some(after) = rest.strip_prefix(symbol) {
                return (token, after);
            }
        }
        if rest.is_empty() {
            return (Token::End, rest);
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=!<>(),".contains(c)).unwrap_or(rest.len());
        (Token::Word(&rest[..end]), &rest[end..])
    }

    fn unexpected(&self, found: Token<'_>, expected: &str) -> ParseError {
        let found = match found {
            Token::Word(word) => word,
            Token::Not => "!",
            Token::Equals => "=",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::End => "",
        };
        ParseError(format!("unable to parse requirement: found '{found}', expected: {expected}"))
    }
}

pub(super) fn selector(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut tokens = Tokens { rest: text };
    let mut requirements = Vec::new();
    if tokens.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(requirement(&mut tokens)?);
        match tokens.next() {
            Token::End => return Ok(requirements),
            Token::Comma => {}
            other => return Err(tokens.unexpected(other, "',' or 'end of string'")),
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, ParseError> {
    let absent = tokens.peek() == Token::Not;
    if absent {
        tokens.next();
    }
    let key = match tokens.next() {
        Token::Word(key) => key,
        other => return Err(tokens.unexpected(other, "identifier")),
    };
    if absent {
        return Requirement::new(key, Operator::DoesNotExist, Vec::new());
    }
    let operator = match tokens.peek() {
        Token::End | Token::Comma => return Requirement::new(key, Operator::Exists, Vec::new()),
        Token::Equals => Operator::Equals,
        Token::NotEquals => Operator::NotEquals,
        Token::Greater => Operator::GreaterThan,
        Token::Less => Operator::LessThan,
        Token::Word("in") => Operator::In,
        Token::Word("notin") => Operator::NotIn,
        other => return Err(tokens.unexpected(other, "in, notin, =, ==, !=, gt, lt")),
    };
    tokens.next();
    let values = match operator {
        Operator::In | Operator::NotIn => value_list(tokens)?,
        _ => vec![single_value(tokens)?],
    };
    Requirement::new(key, operator, values)
}

/// An empty value before a comma or the end.
fn single_value(tokens: &mut Tokens<'_>) -> Result<String, ParseError> {
    match tokens.peek() {
        Token::End | Token::Comma => Ok(String::new()),
        Token::Word(value) => {
            tokens.next();
            Ok(value.to_owned())
        }
        other => Err(tokens.unexpected(other, "identifier")),
    }
}

fn value_list(tokens: &mut Tokens<'_>) -> Result<Vec<String>, ParseError> {
    match tokens.next() {
        Token::Open => {}
        other => return Err(tokens.unexpected(other, "'('")),
    }
    let mut values = Vec::new();
    if tokens.peek() == Token::Close {
        tokens.next();
        return Ok(values);
    }
    loop {
        match tokens.peek() {
            Token::Word(value) => {
                tokens.next();
                values.push(value.to_owned());
            }
            // A comma without a value before it means the empty value.
            Token::Comma | Token::Close => values.push(String::new()),
            other => return Err(tokens.unexpected(other, "',', ')' or identifier")),
        }
        match tokens.next() {
            Token::Comma => {}
            Token::Close => return Ok(values),
            other => return Err(tokens.unexpected(other, "',' or ')'")),
        }
    }
}
