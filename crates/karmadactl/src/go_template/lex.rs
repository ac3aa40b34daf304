//! A Go template into its texts and the tokens of its actions.

/// A piece of the template.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text(String),
    Action(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A word such as `if`, `printf` or `true`.
    Word(String),
    /// `.a.b`, empty for the dot alone.
    Field(Vec<String>),
    /// `$x` or `$`, without the sign.
    Variable(String),
    Text(String),
    Number(f64),
    Open,
    Close,
    Pipe,
    Declare,
    Assign,
    Comma,
}

/// Blanks that `{{-` and `-}}` take away.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

pub fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    let mut trims = false;
    while let Some(start) = rest.find("{{") {
        let mut text = &rest[..start];
        let mut inner = &rest[start + 2..];
        if trims {
            text = text.trim_start_matches(BLANKS);
        }
        if let Some(trimmed) = inner.strip_prefix('-').filter(|it| it.starts_with(BLANKS)) {
            text = text.trim_end_matches(BLANKS);
            inner = trimmed;
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        let (action, after) = action(inner)?;
        trims = action.ends_with('-') && action[..action.len() - 1].ends_with(BLANKS);
        let action = if trims { &action[..action.len() - 1] } else { action };
        let action = action.trim_matches(BLANKS);
        let is_comment = action.starts_with("/*") && action.ends_with("*/");
        if !is_comment {
            pieces.push(Piece::Action(tokens(action)?));
        }
        rest = after;
    }
    let rest = if trims { rest.trim_start_matches(BLANKS) } else { rest };
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// The action up to its closing braces outside quotes, and the text after it.
fn action(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    let mut escaped = false;
    if let Some(end) = text.trim_start_matches(BLANKS).strip_prefix("/*").and_then(|_| text.find("*/")) {
        let close = text[end..].find("}}").ok_or("unclosed comment")?;
        return Ok((&text[..end + close], &text[end + close + 2..]));
    }
    for (position, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"' | '\''), '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '}') if text[position..].starts_with("}}") => {
                return Ok((&text[..position], &text[position + 2..]));
            }
            _ => {}
        }
    }
    Err("unclosed action".into())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn tokens(action: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = action.trim_start_matches(BLANKS);
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '(' => (Token::Open, &rest[1..]),
            ')' => (Token::Close, &rest[1..]),
            '|' => (Token::Pipe, &rest[1..]),
            ',' => (Token::Comma, &rest[1..]),
            ':' if rest.starts_with(":=") => (Token::Declare, &rest[2..]),
            '=' => (Token::Assign, &rest[1..]),
            '"' | '`' | '\'' => quoted(rest, first)?,
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => fields(rest),
            '$' => {
                let end = rest[1..].find(|c| !is_name(c)).map_or(rest.len(), |end| end + 1);
                (Token::Variable(rest[1..end].to_owned()), &rest[end..])
            }
            c if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => number(rest)?,
            c if is_name(c) => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), &rest[end..])
            }
            c => return Err(format!("unexpected {c:?} in command")),
        };
        tokens.push(token);
        // Fields without a space before them belong to the preceding operand: `$x.a`, `(index .b 0).c`.
        rest = after.trim_start_matches(BLANKS);
        if rest.len() != after.len() && rest.starts_with('.') {
            tokens.push(Token::Word(String::new()));
        }
    }
    // The empty words only separated; the parser reads them as the end of an operand.
    Ok(tokens)
}

fn fields(text: &str) -> (Token, &str) {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(after) = rest.strip_prefix('.') {
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        if end == 0 {
            rest = after;
            break;
        }
        names.push(after[..end].to_owned());
        rest = &after[end..];
    }
    (Token::Field(names), rest)
}

fn number(text: &str) -> Result<(Token, &str), String> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '+' | '_'))).unwrap_or(text.len());
    let number = text[..end].parse().map_err(|_| format!("bad number syntax: {:?}", &text[..end]))?;
    Ok((Token::Number(number), &text[end..]))
}

fn quoted(text: &str, quote: char) -> Result<(Token, &str), String> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((position, c)) = chars.next() {
        if c == quote {
            let after = &text[position + 1..];
            // A character constant is its number.
            return Ok(match quote {
                '\'' => (Token::Number(value.chars().next().map_or(0.0, |c| f64::from(u32::from(c)))), after),
                _ => (Token::Text(value), after),
            });
        }
        if c != '\\' || quote == '`' {
            value.push(c);
            continue;
        }
        match chars.next().map(|(_, c)| c) {
            Some('n') => value.push('\n'),
            Some('t') => value.push('\t'),
            Some('r') => value.push('\r'),
            Some(other) => value.push(other),
            None => break,
        }
    }
    Err("unterminated quoted string".into())
}
