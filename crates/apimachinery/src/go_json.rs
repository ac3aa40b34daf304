//! The messages of Go's JSON scanner for malformed documents. Clients and their tests match these texts; serde_json's
//! differ. This only finds the error and builds nothing.

mod numbers;

use serde_json::Value;

pub use numbers::{json_number, shortest, shortest_f32, whole, yaml_number};

/// Go refuses deeper documents with a special message.
const MAX_DEPTH: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Before a key, after a key, after a value of an object.
    Key,
    Colon,
    Pair,
    Element,
}

/// The error Go reports for a document that is no JSON; `None` when it is.
pub fn syntax_error(document: &[u8]) -> Option<String> {
    Scanner { rest: document, stack: Vec::new() }.run().err()
}

/// The type Go gives a value of a document (`%T`); a number that no `int64` holds is a `float64`.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The name of a value's type in Go's messages.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

struct Scanner<'d> {
    rest: &'d [u8],
    stack: Vec<Inside>,
}

type Scan = Result<(), String>;

impl Scanner<'_> {
    fn run(&mut self) -> Scan {
        self.value()?;
        loop {
            let byte = self.next_token();
            let Some(top) = self.stack.last().copied() else {
                return byte.map_or(Ok(()), |byte| unexpected(byte, "after top-level value"));
            };
            let Some(byte) = byte else { return end() };
            match (top, byte) {
                (Inside::Key, b'"') => {
                    self.string()?;
                    self.replace(Inside::Colon);
                }
                (Inside::Key, _) => return unexpected(byte, "looking for beginning of object key string"),
                (Inside::Colon, b':') => {
                    self.replace(Inside::Pair);
                    self.value()?;
                }
                (Inside::Colon, _) => return unexpected(byte, "after object key"),
                (Inside::Pair, b',') => self.replace(Inside::Key),
                (Inside::Element, b',') => self.value()?,
                (Inside::Pair, b'}') | (Inside::Element, b']') => drop(self.stack.pop()),
                (Inside::Pair, _) => return unexpected(byte, "after object key:value pair"),
                (Inside::Element, _) => return unexpected(byte, "after array element"),
            }
        }
    }

    /// Reads a value up to where its members begin, or a whole scalar.
    fn value(&mut self) -> Scan {
        loop {
            let Some(byte) = self.next_token() else { return end() };
            match byte {
                b'{' => {
                    self.push(Inside::Key)?;
                    if self.peek_token() == Some(b'}') {
                        self.next_token();
                        self.stack.pop();
                    }
                    return Ok(());
                }
                b'[' => {
                    self.push(Inside::Element)?;
                    if self.peek_token() == Some(b']') {
                        self.next_token();
                        self.stack.pop();
                        return Ok(());
                    }
                }
                b'"' => return self.string(),
                b't' => return self.literal("true"),
                b'f' => return self.literal("false"),
                b'n' => return self.literal("null"),
                b'-' => match self.next() {
                    Some(digit @ b'0'..=b'9') => return self.number(digit),
                    Some(other) => return unexpected(other, "in numeric literal"),
                    None => return end(),
                },
                b'0'..=b'9' => return self.number(byte),
                other => return unexpected(other, "looking for beginning of value"),
            }
        }
    }

    fn push(&mut self, inside: Inside) -> Scan {
        if self.stack.len() == MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        self.stack.push(inside);
        Ok(())
    }

    fn replace(&mut self, inside: Inside) {
        if let Some(top) = self.stack.last_mut() {
            *top = inside;
        }
    }

    /// Scans the rest of a string after its opening quote.
    fn string(&mut self) -> Scan {
        loop {
            match self.next() {
                None => return end(),
                Some(b'"') => return Ok(()),
                Some(b'\\') => match self.next() {
                    None => return end(),
                    Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
                    Some(b'u') => {
                        for _ in 0..4 {
                            match self.next() {
                                None => return end(),
                                Some(digit) if digit.is_ascii_hexdigit() => {}
                                Some(other) => return unexpected(other, "in \\u hexadecimal character escape"),
                            }
                        }
                    }
                    Some(other) => return unexpected(other, "in string escape code"),
                },
                Some(control) if control < 0x20 => return unexpected(control, "in string literal"),
                Some(_) => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Scan {
        for expected in word.bytes().skip(1) {
            match self.next() {
                None => return end(),
                Some(byte) if byte == expected => {}
                Some(other) => {
                    return unexpected(other, &format!("in literal {word} (expecting {})", quoted(expected)));
                }
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Scan {
        if first != b'0' {
            self.digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.next();
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.next();
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.next();
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn some_digits(&mut self, context: &str) -> Scan {
        match self.next() {
            Some(b'0'..=b'9') => {
                self.digits();
                Ok(())
            }
            Some(other) => unexpected(other, context),
            None => end(),
        }
    }

    fn digits(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.next();
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn peek_token(&mut self) -> Option<u8> {
        while let Some((b' ' | b'\t' | b'\r' | b'\n', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        self.rest.first().copied()
    }

    fn next_token(&mut self) -> Option<u8> {
        self.peek_token()?;
        self.next()
    }
}

fn end() -> Scan {
    Err("unexpected end of JSON input".into())
}

fn unexpected(byte: u8, context: &str) -> Scan {
    Err(format!("invalid character {} {context}", quoted(byte)))
}

/// A byte as Go quotes it; it takes each byte for a Latin-1 character.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        b'\\' => r"'\\'".into(),
        b'\n' => r"'\n'".into(),
        b'\t' => r"'\t'".into(),
        b'\r' => r"'\r'".into(),
        0x07 => r"'\a'".into(),
        0x08 => r"'\b'".into(),
        0x0b => r"'\v'".into(),
        0x0c => r"'\f'".into(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_gos() {
        let table: &[(&str, Option<&str>)] = &[
            ("{}", None),
            (r#" {"a": [1, -2.5e+7, "x\u00e9\n", true, null, {"b": []}]} "#, None),
            ("", Some("unexpected end of JSON input")),
            ("{", Some("unexpected end of JSON input")),
            (r#"{"a""#, Some("unexpected end of JSON input")),
            ("{not json", Some("invalid character 'n' looking for beginning of object key string")),
            ("k8s", Some("invalid character 'k' looking for beginning of value")),
            (r#"{"a" 1}"#, Some("invalid character '1' after object key")),
            (r#"{"a":1 2}"#, Some("invalid character '2' after object key:value pair")),
            (r#"{"a":1,}"#, Some("invalid character '}' looking for beginning of object key string")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("[1,]", Some("invalid character ']' looking for beginning of value")),
            ("{} x", Some("invalid character 'x' after top-level value")),
            ("01", Some("invalid character '1' after top-level value")),
            ("trup", Some("invalid character 'p' in literal true (expecting 'e')")),
            ("-x", Some("invalid character 'x' in numeric literal")),
            ("1.x", Some("invalid character 'x' after decimal point in numeric literal")),
            ("1e'", Some(r"invalid character '\'' in exponent of numeric literal")),
            (r#""\q""#, Some("invalid character 'q' in string escape code")),
            (r#""\u12x4""#, Some(r"invalid character 'x' in \u hexadecimal character escape")),
            ("\"a\nb\"", Some(r"invalid character '\n' in string literal")),
        ];
        for (document, expected) in table {
            assert_eq!(syntax_error(document.as_bytes()).as_deref(), *expected, "{document}");
        }
        assert_eq!(syntax_error("[".repeat(20_000).as_bytes()).as_deref(), Some("exceeded max depth"));
    }
}
