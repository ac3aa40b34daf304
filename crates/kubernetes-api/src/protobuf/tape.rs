//! JSON as input of the encoder: the values of a document in order, as positions in its text. A tape is one allocation
//! that is reused for further documents; a tree would need one for each container and string.
//!
//! Its input was decoded before or encoded here. Invalid JSON yields an error where it is detected; other parts are
//! read as far as possible.

use std::borrow::Cow;

use apimachinery::raw_json;

use super::ProtobufError;

/// The limit of nested containers, as in serde_json.
const MAX_DEPTH: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    /// Names and values alternate.
    Map,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    /// For a string: whether it contains escapes.
    escaped: bool,
    /// Its offset, including quotation marks and brackets. Documents are smaller than 4 GiB.
    start: u32,
    end: u32,
    /// The token after it and its content.
    next: u32,
}

#[derive(Debug, Default)]
pub(super) struct Tape {
    tokens: Vec<Token>,
}

impl Tape {
    /// Reads a document; replaces the previous one.
    pub fn read<'t>(&'t mut self, json: &'t [u8]) -> Result<Node<'t>, ProtobufError> {
        self.tokens.clear();
        if u32::try_from(json.len()).is_err() {
            return Err(ProtobufError::Json("the document is too large".to_owned()));
        }
        let mut scanner = Scanner { json, at: 0, tokens: &mut self.tokens };
        scanner.space();
        scanner.value(0)?;
        scanner.space();
        if scanner.at < json.len() {
            return Err(scanner.stumbles());
        }
        Ok(Node { json, tokens: &self.tokens, at: 0 })
    }
}

struct Scanner<'t> {
    json: &'t [u8],
    at: usize,
    tokens: &'t mut Vec<Token>,
}

impl Scanner<'_> {
    fn stumbles(&self) -> ProtobufError {
        ProtobufError::Json(format!("not valid at byte {}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Consumes the next byte after white space, if it is this one.
    fn takes(&mut self, byte: u8) -> bool {
        self.space();
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<(), ProtobufError> {
        let (kind, closing) = match self.peek() {
            Some(b'"') => return self.text(),
            Some(b'{') => (Kind::Map, b'}'),
            Some(b'[') => (Kind::List, b']'),
            Some(b't') => return self.word(b"true", Kind::Bool),
            Some(b'f') => return self.word(b"false", Kind::Bool),
            Some(b'n') => return self.word(b"null", Kind::Null),
            Some(b'-' | b'0'..=b'9') => return self.number(),
            _ => return Err(self.stumbles()),
        };
        if depth >= MAX_DEPTH {
            return Err(ProtobufError::Json("recursion limit exceeded".to_owned()));
        }
        let place = self.begin(kind);
        self.at += 1;
        if !self.takes(closing) {
            loop {
                self.space();
                if kind == Kind::Map {
                    self.text()?;
                    if !self.takes(b':') {
                        return Err(self.stumbles());
                    }
                    self.space();
                }
                self.value(depth + 1)?;
                if self.takes(closing) {
                    break;
                }
                if !self.takes(b',') {
                    return Err(self.stumbles());
                }
            }
        }
        self.end(place);
        Ok(())
    }

    fn begin(&mut self, kind: Kind) -> usize {
        self.tokens.push(Token { kind, escaped: false, start: self.at as u32, end: 0, next: 0 });
        self.tokens.len() - 1
    }

    fn end(&mut self, place: usize) {
        let next = self.tokens.len() as u32;
        self.tokens[place].end = self.at as u32;
        self.tokens[place].next = next;
    }

    fn text(&mut self) -> Result<(), ProtobufError> {
        let place = self.begin(Kind::Text);
        let (end, escaped) = raw_json::text(self.json, self.at).ok_or_else(|| self.stumbles())?;
        self.at = end;
        self.end(place);
        self.tokens[place].escaped = escaped;
        Ok(())
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), ProtobufError> {
        if !self.json[self.at..].starts_with(word) {
            return Err(self.stumbles());
        }
        let place = self.begin(kind);
        self.at += word.len();
        self.end(place);
        Ok(())
    }

    fn number(&mut self) -> Result<(), ProtobufError> {
        let place = self.begin(Kind::Number);
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        self.end(place);
        Ok(())
    }
}

/// The position of a value on a tape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

/// A value of the document on a tape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'t> {
    json: &'t [u8],
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Node<'t> {
    fn token(self) -> Token {
        self.tokens[self.at]
    }

    pub fn kind(self) -> Kind {
        self.token().kind
    }

    pub fn place(self) -> Place {
        Place(self.at)
    }

    /// Another value of the same document.
    pub fn elsewhere(self, place: Place) -> Self {
        Self { at: place.0, ..self }
    }

    /// The encoded value.
    pub fn json(self) -> &'t [u8] {
        let Token { start, end, .. } = self.token();
        &self.json[start as usize..end as usize]
    }

    /// The content of a string; of any other value, its JSON.
    pub fn text(self) -> Result<Cow<'t, [u8]>, ProtobufError> {
        let json = self.json();
        match self.token() {
            Token { kind: Kind::Text, escaped: false, .. } => Ok(Cow::Borrowed(&json[1..json.len() - 1])),
            Token { kind: Kind::Text, .. } => {
                let text: String = decoded(json)?;
                Ok(Cow::Owned(text.into_bytes()))
            }
            _ => Ok(Cow::Borrowed(json)),
        }
    }

    pub fn number(self) -> Result<serde_json::Number, ProtobufError> {
        decoded(self.json())
    }

    pub fn is_true(self) -> bool {
        self.json() == b"true"
    }

    fn sibling(self) -> Self {
        Self { at: self.token().next as usize, ..self }
    }

    /// The values of a list; of a map, its names and values in turn.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let end = self.token().next as usize;
        let inside = move |node: &Self| node.at < end;
        let has_children = matches!(self.kind(), Kind::List | Kind::Map);
        let first = Some(Self { at: self.at + 1, ..self }).filter(|node| has_children && inside(node));
        std::iter::successors(first, move |node| Some(node.sibling()).filter(inside))
    }

    /// The names and values of a map.
    pub fn members(self) -> impl Iterator<Item = (Self, Self)> {
        let mut children = self.children();
        let is_map = self.kind() == Kind::Map;
        std::iter::from_fn(move || children.next().zip(children.next()).filter(|_| is_map))
    }

    /// The member of this name; the last one of several.
    pub fn member(self, name: &str) -> Option<Self> {
        self.members().filter(|(own, _)| own.text().is_ok_and(|own| *own == *name.as_bytes())).last().map(|(_, it)| it)
    }

    /// Writes it as JSON without spaces.
    pub fn write(self, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
        match self.kind() {
            Kind::List => write_all(b"[]", out, self.children(), |item, out| item.write(out)),
            Kind::Map => write_all(b"{}", out, self.members(), |(name, value), out| {
                name.write(out)?;
                out.push(b':');
                // Owned fields of an object are stored in their wire form, and are long.
                if name.json() == b"\"fieldsV1\"" {
                    out.extend_from_slice(value.json());
                    return Ok(());
                }
                value.write(out)
            }),
            Kind::Number if !is_plain(self.json()) => written(&self.number()?, out),
            Kind::Text if self.token().escaped => written(&decoded::<String>(self.json())?, out),
            _ => {
                out.extend_from_slice(self.json());
                Ok(())
            }
        }
    }
}

fn write_all<T>(
    brackets: &[u8; 2],
    out: &mut Vec<u8>,
    parts: impl Iterator<Item = T>,
    one: impl Fn(T, &mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    out.push(brackets[0]);
    for (position, part) in parts.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        one(part, out)?;
    }
    out.push(brackets[1]);
    Ok(())
}

/// Whether a number is written unchanged.
fn is_plain(json: &[u8]) -> bool {
    // Numbers of eighteen digits fit into 64 bits.
    json.len() <= 18 && json != b"-0" && !json.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

fn decoded<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, ProtobufError> {
    serde_json::from_slice(json).map_err(|error| ProtobufError::Json(error.to_string()))
}

fn written<T: serde::Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    serde_json::to_writer(out, value).map_err(|error| ProtobufError::Json(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn rewritten(json: &str) -> Result<String, ProtobufError> {
        let (mut tape, mut out) = (Tape::default(), Vec::new());
        tape.read(json.as_bytes())?.write(&mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[\"\\\\{}\\[\\]:,a\\n\u{e4}]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn documents_equal_those_of_the_decoder(tree in value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            prop_assert_eq!(rewritten(&text.unwrap()).unwrap(), tree.to_string());
        }

        #[test]
        fn reading_any_bytes_never_panics(bytes in prop::collection::vec(prop::sample::select(b"{}[]\"\\:,a1 tn".to_vec()), 0..40)) {
            if let Ok(node) = Tape::default().read(&bytes) {
                let _ = (node.write(&mut Vec::new()), node.number(), node.member("a").map(Node::text));
            }
        }
    }

    #[test]
    fn numbers_and_texts_are_spelled_as_they_are_stored() {
        for (json, expected) in [
            ("[1.0, 1e2 , -0, 12345678901234567890]", "[1.0,100.0,-0.0,12345678901234567890]"),
            (r#" {"\u0061\/": "\u00e4\n", "b": {} } "#, "{\"a/\":\"\u{e4}\\n\",\"b\":{}}"),
            (r#"{"fieldsV1":{"f:a": {}},"a":[ ]}"#, r#"{"fieldsV1":{"f:a": {}},"a":[]}"#),
        ] {
            assert_eq!(rewritten(json).as_deref(), Ok(expected));
        }
        for broken in ["", "{", "[1", "{\"a\"}", "{\"a\":1,}", "[1 2]", "{} x", "tru", "\"a", &"[".repeat(1000)] {
            assert!(matches!(rewritten(broken), Err(ProtobufError::Json(_))), "{broken}");
        }
    }

    #[test]
    fn of_several_members_of_a_name_the_last_counts() {
        let mut tape = Tape::default();
        let node = tape.read(br#"{"a":1,"b":[2,{"a":3}],"a":4}"#).expect("a document");
        assert_eq!(node.member("a").map(Node::json), Some(&b"4"[..]));
        assert_eq!(node.member("b").map(|list| list.children().count()), Some(2));
        assert!(node.member("c").is_none());
    }
}
