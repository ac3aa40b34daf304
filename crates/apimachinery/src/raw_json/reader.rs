//! Reads encoded JSON that is known to be valid, from its beginning to its end, in a fraction of the general decoder's
//! work. Where a document is not as expected every method returns `None`, and the caller takes the general decoder,
//! which also finds the error. Control characters within texts are not noticed.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Number, Value};

/// Nested objects and lists; deeper documents are left to the general decoder, which has a limit of its own.
pub(crate) const LEVELS: usize = 100;

/// A position in a document.
pub(crate) struct Reader<'j> {
    json: &'j [u8],
    /// The document, if all of it is known to be UTF-8.
    text: Option<&'j str>,
    at: usize,
    /// White space was stepped over.
    is_spaced: bool,
}

impl<'j> Reader<'j> {
    /// Of a document of which only a part is read: its texts are checked one by one.
    pub fn of_part(json: &'j [u8]) -> Self {
        Self::from(json, 0)
    }

    /// As [`Reader::of_part`], from this position on.
    pub fn from(json: &'j [u8], at: usize) -> Self {
        Self { json, text: None, at, is_spaced: false }
    }

    pub fn of(text: &'j str) -> Self {
        Self { json: text.as_bytes(), text: Some(text), at: 0, is_spaced: false }
    }

    /// The position of the next byte that is not white space.
    pub fn at(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.json.get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => {
                    self.at += 1;
                    self.is_spaced = true;
                }
                byte => return Some(*byte),
            }
        }
    }

    /// The end of what was read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether there was white space between the values that were read.
    pub fn is_spaced(&self) -> bool {
        self.is_spaced
    }

    /// Steps over a byte, if it is the next one.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Whether nothing follows.
    pub fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }

    fn part(&self, range: Range<usize>) -> Option<&'j str> {
        match self.text {
            Some(text) => text.get(range),
            None => std::str::from_utf8(self.json.get(range)?).ok(),
        }
    }

    /// A text.
    pub fn text(&mut self) -> Option<Cow<'j, str>> {
        self.peek()?;
        let (end, escaped) = super::text(self.json, self.at)?;
        let range = std::mem::replace(&mut self.at, end)..end;
        if escaped {
            return serde_json::from_str::<String>(self.part(range)?).ok().map(Cow::Owned);
        }
        self.part(range.start + 1..range.end - 1).map(Cow::Borrowed)
    }

    /// Steps over a value; where it stands.
    pub fn skip(&mut self) -> Option<Range<usize>> {
        self.peek()?;
        let end = super::end_of_value(self.json, self.at)?;
        Some(std::mem::replace(&mut self.at, end)..end)
    }

    /// Steps over a value that is UTF-8.
    pub fn skipped(&mut self) -> Option<&'j str> {
        let range = self.skip()?;
        self.part(range)
    }

    /// Steps over `null`, if it is next.
    pub fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.word(b"null").is_some()
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let found = self.json.get(self.at..)?.starts_with(word);
        self.at += word.len();
        found.then_some(())
    }

    /// The members of an object: `member` gets each name, and reads the value.
    pub fn members(&mut self, mut member: impl FnMut(&mut Self, Cow<'j, str>) -> Option<()>) -> Option<()> {
        self.take(b'{').then_some(())?;
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let name = self.text()?;
            self.take(b':').then_some(())?;
            member(self, name)?;
            if self.take(b'}') {
                return Some(());
            }
            self.take(b',').then_some(())?;
        }
    }

    /// The items of a list, each read by `item`.
    pub fn items(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[').then_some(())?;
        if self.take(b']') {
            return Some(());
        }
        loop {
            item(self)?;
            if self.take(b']') {
                return Some(());
            }
            self.take(b',').then_some(())?;
        }
    }

    /// A tree of no more than so many levels.
    pub fn value(&mut self, levels: usize) -> Option<Value> {
        match self.peek()? {
            b'"' => self.text().map(|text| Value::String(text.into_owned())),
            b'{' => {
                let (below, mut map) = (levels.checked_sub(1)?, Map::new());
                self.members(|this, name| {
                    let value = this.value(below)?;
                    map.insert(name.into_owned(), value);
                    Some(())
                })?;
                Some(Value::Object(map))
            }
            b'[' => {
                let (below, mut items) = (levels.checked_sub(1)?, Vec::new());
                self.items(|this| {
                    items.push(this.value(below)?);
                    Some(())
                })?;
                Some(Value::Array(items))
            }
            b't' => self.word(b"true").map(|()| Value::Bool(true)),
            b'f' => self.word(b"false").map(|()| Value::Bool(false)),
            b'n' => self.word(b"null").map(|()| Value::Null),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.json.get(self.at..)?;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        let text = self.part(self.at..self.at + length)?;
        self.at += length;
        // Of these the digits are the number, in any decoder.
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_plain = (1..=18).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        match text.parse::<i64>() {
            Ok(number) if is_plain && (!digits.starts_with('0') || text == "0") => Some(number.into()),
            _ => serde_json::from_str::<Number>(text).ok().map(Value::Number),
        }
    }
}

/// The tree of a document that is known to be valid.
///
/// # Errors
/// Those of the general decoder, if it is not.
pub fn tree(json: &[u8]) -> Result<Value, serde_json::Error> {
    let Ok(text) = std::str::from_utf8(json) else { return serde_json::from_slice(json) };
    let mut reader = Reader::of(text);
    let tree = reader.value(LEVELS).filter(|_| reader.is_done());
    tree.map_or_else(|| serde_json::from_str(text), Ok)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_as_by_the_decoder() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        for text in [
            r#" { "a" : [ 1 , -1, 0, -0, 1.0, 1e3, 0.1, 18446744073709551615, 9223372036854775808, -9223372036854775808 ] } "#,
            r#"{"a":1,"b":2,"a":{"c":null,"d":[true,false,[],{}]}}"#,
            r#"["\u00e9\n\"", "é", "", "\\", "\ud83d\ude00"]"#,
            "999999999999999999",
            "1000000000000000000000",
            "null",
            &deep(99),
            &deep(127),
            // Errors.
            "",
            "01",
            "-",
            "1.",
            "nul",
            "[1,]",
            "[1 2]",
            r#"{"a":}"#,
            r#"{"a" 1}"#,
            r#"{"a":1,}"#,
            r#"{a:1}"#,
            "[1] 2",
            r#"["\x"]"#,
            r#"["\ud83d"]"#,
            "[\"",
            &deep(128),
        ] {
            let (read, decoded) = (tree(text.as_bytes()), serde_json::from_str::<Value>(text));
            assert_eq!(read.map_err(|error| error.to_string()), decoded.map_err(|error| error.to_string()), "{text}");
        }
        assert!(tree(b"[\"\xff\"]").is_err());
        let part = &mut Reader::of_part(br#"{"a":"x"} and more"#);
        assert_eq!(part.value(LEVELS), Some(json!({"a": "x"})));
    }

    proptest! {
        #[test]
        fn trees_are_read_as_by_the_decoder(tree in super::super::tests::value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            prop_assert_eq!(super::tree(text.unwrap().as_bytes()).unwrap(), tree);
        }

        #[test]
        fn numbers_are_read_as_by_the_decoder(text in "-?[0-9]{0,21}(\\.[0-9]{0,3})?([eE][-+]?[0-9]{0,3})?") {
            let (read, decoded) = (tree(text.as_bytes()).ok(), serde_json::from_str::<Value>(&text).ok());
            prop_assert_eq!(read, decoded);
        }

        #[test]
        fn any_bytes_are_read_as_by_the_decoder(bytes in prop::collection::vec(prop::sample::select(b"{}[]\"\\:,a1-.nu ".to_vec()), 0..40)) {
            prop_assert_eq!(tree(&bytes).ok(), serde_json::from_slice::<Value>(&bytes).ok());
        }
    }
}
