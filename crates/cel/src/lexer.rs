//! The lexer: splits the source into tokens by the language's lexical rules.

use crate::issues::Issues;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Ident(Box<str>),
    /// A name in backticks; allowed as a field name only.
    QuotedIdent(Box<str>),
    Int(Box<str>),
    Uint(Box<str>),
    Float(Box<str>),
    String(Box<str>),
    Bytes(Box<[u8]>),
    Symbol(&'static str),
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spanned {
    pub token: Token,
    /// Characters from the start of the source.
    pub position: u32,
    /// The text of the token, for messages.
    pub text: Box<str>,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 27] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}", "=", "&", "|",
];

/// Reads all tokens; the last one is [`Token::End`]. Invalid characters are reported and skipped.
pub fn tokens(source: &str, issues: &mut Issues) -> Vec<Spanned> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0, issues };
    let mut out = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        let token = lexer.token();
        let text: String = lexer.chars[start..lexer.at].iter().collect();
        let end = token == Some(Token::End);
        if let Some(token) = token {
            out.push(Spanned { token, position: start as u32, text: text.into() });
        }
        if end {
            return out;
        }
    }
}

struct Lexer<'a> {
    chars: Vec<char>,
    at: usize,
    issues: &'a mut Issues,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else if matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<Token> {
        let Some(c) = self.peek(0) else { return Some(Token::End) };
        if let Some((raw, bytes, prefix)) = self.string_prefix() {
            return self.string(raw, bytes, prefix);
        }
        if c == '_' || c.is_ascii_alphabetic() {
            let word = self.take_while(|c| c == '_' || c.is_ascii_alphanumeric());
            return Some(Token::Ident(word.into()));
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Some(self.number());
        }
        if c == '`' {
            return self.quoted_ident();
        }
        let symbol =
            SYMBOLS.into_iter().find(|symbol| symbol.chars().enumerate().all(|(i, s)| self.peek(i) == Some(s)));
        match symbol {
            Some(symbol @ ("&" | "|" | "=")) if symbol != "=" => {
                self.unknown(symbol);
                self.at += 1;
                None
            }
            Some(symbol) => {
                self.at += symbol.len();
                Some(Token::Symbol(symbol))
            }
            None => {
                self.unknown(&c.to_string());
                self.at += 1;
                None
            }
        }
    }

    fn unknown(&mut self, text: &str) {
        self.issues.report(self.at as u32, format!("Syntax error: token recognition error at: '{text}'"));
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&keep) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.at += 2;
            self.take_while(|c| c.is_ascii_hexdigit());
            return self.whole(start);
        }
        self.take_while(|c| c.is_ascii_digit());
        let mut float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            float = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
            float = true;
            self.at += 1 + sign;
            self.take_while(|c| c.is_ascii_digit());
        }
        if float {
            let text: String = self.chars[start..self.at].iter().collect();
            return Token::Float(text.into());
        }
        self.whole(start)
    }

    fn whole(&mut self, start: usize) -> Token {
        let text: String = self.chars[start..self.at].iter().collect();
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint(text.into());
        }
        Token::Int(text.into())
    }

    fn quoted_ident(&mut self) -> Option<Token> {
        let start = self.at;
        self.at += 1;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '));
        if self.peek(0) == Some('`') && !name.is_empty() {
            self.at += 1;
            return Some(Token::QuotedIdent(name.into()));
        }
        self.at = start;
        self.unknown("`");
        self.at += 1;
        None
    }
}

/// String and bytes literals.
impl Lexer<'_> {
    /// Raw, bytes, and the length of the prefix, if a string starts here.
    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let (mut raw, mut bytes, mut length) = (false, false, 0);
        loop {
            match self.peek(length)? {
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                '"' | '\'' => return Some((raw, bytes, length)),
                _ => return None,
            }
            length += 1;
        }
    }

    fn string(&mut self, raw: bool, bytes: bool, prefix: usize) -> Option<Token> {
        let start = self.at;
        let quote = self.peek(prefix)?;
        let triple = self.peek(prefix + 1) == Some(quote) && self.peek(prefix + 2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        self.at += prefix + width;
        let mut text = String::new();
        let mut data = Vec::new();
        loop {
            let Some(c) = self.peek(0).filter(|c| triple || !matches!(c, '\n' | '\r')) else {
                return self.unterminated(start);
            };
            if c == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) {
                self.at += width;
                break;
            }
            if c == '\\' && !raw {
                let Some(piece) = self.escape(bytes) else { return self.unterminated(start) };
                match piece {
                    Piece::Char(c) => push(&mut text, &mut data, bytes, c),
                    Piece::Byte(byte) => data.push(byte),
                }
                continue;
            }
            // A backslash keeps the next quote from ending a raw string.
            if c == '\\' && self.peek(1).is_some_and(|next| next == quote || next == '\\') {
                push(&mut text, &mut data, bytes, c);
                self.at += 1;
            }
            let Some(c) = self.peek(0) else { return self.unterminated(start) };
            push(&mut text, &mut data, bytes, c);
            self.at += 1;
        }
        Some(if bytes { Token::Bytes(data.into()) } else { Token::String(text.into()) })
    }

    fn unterminated(&mut self, start: usize) -> Option<Token> {
        let text: String = self.chars[start..self.at.min(self.chars.len())].iter().collect();
        self.issues.report(start as u32, format!("Syntax error: token recognition error at: '{text}'"));
        self.at = self.at.max(start + 1).min(self.chars.len());
        None
    }

    fn escape(&mut self, bytes: bool) -> Option<Piece> {
        let kind = self.peek(1)?;
        let (digits, radix) = match kind {
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => (3, 8),
            _ => {
                self.at += 2;
                return simple_escape(kind).map(Piece::Char);
            }
        };
        let from = if radix == 8 { self.at + 1 } else { self.at + 2 };
        let text: String = self.chars.get(from..from + digits)?.iter().collect();
        let code = u32::from_str_radix(&text, radix).ok()?;
        self.at = from + digits;
        if bytes { u8::try_from(code).ok().map(Piece::Byte) } else { char::from_u32(code).map(Piece::Char) }
    }
}

enum Piece {
    Char(char),
    Byte(u8),
}

fn push(text: &mut String, data: &mut Vec<u8>, bytes: bool, c: char) {
    if bytes {
        data.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        text.push(c);
    }
}

fn simple_escape(c: char) -> Option<char> {
    Some(match c {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '?' | '"' | '\'' | '`' => c,
        _ => return None,
    })
}
