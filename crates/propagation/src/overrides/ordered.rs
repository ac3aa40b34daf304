//! JSON documents as their authors wrote them: the order of keys and the spelling of numbers stay through a change.

use apimachinery::field::escaped_as_by_go;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// As serde_json's own limit.
const MAX_DEPTH: usize = 128;

#[derive(Clone, Debug)]
pub enum Node {
    /// A string, number, boolean or null, with its spelling.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// The members of an object in their order; a repeated key keeps its first position and its last value.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    match members.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, known)) => *known = value,
                        None => members.push((key, value)),
                    }
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Node {
    /// # Errors
    /// The text is no JSON document, or nested too deeply.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Parsed once as a whole, so that the parts read below are known to be well-formed.
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::read(raw, 0)
    }

    fn read(raw: &RawValue, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err("the document is nested too deeply".to_owned());
        }
        let failed = |error: serde_json::Error| error.to_string();
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'{') => {
                let members: Members = serde_json::from_str(text).map_err(failed)?;
                let read = |(key, value): (String, Box<RawValue>)| Ok((key, Self::read(&value, depth + 1)?));
                members.0.into_iter().map(read).collect::<Result<_, String>>().map(Self::Map)
            }
            Some(b'[') => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(text).map_err(failed)?;
                items.iter().map(|item| Self::read(item, depth + 1)).collect::<Result<_, String>>().map(Self::List)
            }
            _ => Ok(Self::Scalar(text.to_owned())),
        }
    }

    pub fn of(value: &Value) -> Result<Self, String> {
        Self::parse(&value.to_string())
    }

    /// Compact, as Go prints it.
    pub fn print(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        escaped_as_by_go(out)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Scalar(text) => out.push_str(text),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Map(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    fn child(&mut self, token: &str) -> Option<&mut Self> {
        match self {
            Self::Scalar(_) => None,
            Self::Map(members) => members.iter_mut().find(|(key, _)| key == token).map(|(_, value)| value),
            Self::List(items) => {
                let index = index(token, items.len())?;
                items.get_mut(index)
            }
        }
    }

    /// The container of the last token of a path.
    fn parent(&mut self, path: &str) -> Result<(&mut Self, String), String> {
        if !path.starts_with('/') {
            return Err(format!("{path:?} is no JSON pointer"));
        }
        let mut tokens: Vec<String> = path[1..].split('/').map(|it| it.replace("~1", "/").replace("~0", "~")).collect();
        let last = tokens.pop().unwrap_or_default();
        let mut place = self;
        for token in tokens {
            place = place.child(&token).ok_or_else(|| format!("doc is missing path: {path}: missing value"))?;
        }
        Ok((place, last))
    }

    /// Sets a member, or inserts into a list; the whole document where the path is empty.
    pub fn add(&mut self, path: &str, value: Self) -> Result<(), String> {
        if path.is_empty() {
            *self = value;
            return Ok(());
        }
        let (parent, last) = self.parent(path)?;
        match parent {
            Self::Map(members) => match members.iter_mut().find(|(key, _)| *key == last) {
                Some((_, known)) => *known = value,
                None => members.push((last, value)),
            },
            Self::List(items) if last == "-" => items.push(value),
            Self::List(items) => {
                let at = index(&last, items.len() + 1).ok_or_else(|| format!("invalid index referenced: {last}"))?;
                items.insert(at, value);
            }
            Self::Scalar(_) => return Err(format!("doc is missing path: {path}: missing value")),
        }
        Ok(())
    }

    pub fn replace(&mut self, path: &str, value: Self) -> Result<(), String> {
        if path.is_empty() {
            *self = value;
            return Ok(());
        }
        let (parent, last) = self.parent(path)?;
        let missing = || format!("replace operation does not apply: doc is missing key: {path}: missing value");
        *parent.child(&last).ok_or_else(missing)? = value;
        Ok(())
    }

    pub fn remove(&mut self, path: &str) -> Result<(), String> {
        let (parent, last) = self.parent(path)?;
        let missing = || format!("unable to remove nonexistent key: {last}: missing value");
        match parent {
            Self::Map(members) => {
                let at = members.iter().position(|(key, _)| *key == last).ok_or_else(missing)?;
                members.remove(at);
            }
            Self::List(items) => {
                let at = index(&last, items.len()).ok_or_else(|| format!("invalid index referenced: {last}"))?;
                items.remove(at);
            }
            Self::Scalar(_) => return Err(missing()),
        }
        Ok(())
    }
}

/// An index below `length`; a negative one counts from the end.
pub(super) fn index(token: &str, length: usize) -> Option<usize> {
    let index: i64 = token.parse().ok()?;
    let index = if index < 0 { index.checked_add(i64::try_from(length).ok()?)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, change: impl FnOnce(&mut Node) -> Result<(), String>, expected: &str) {
        let mut node = Node::parse(document).unwrap();
        let text = match change(&mut node) {
            Ok(()) => node.print(),
            Err(error) => error,
        };
        assert_eq!(text, expected, "{document}");
    }

    fn node(text: &str) -> Node {
        Node::parse(text).unwrap()
    }

    #[test]
    fn unchanged_members_keep_their_text() {
        let document = r#"{"z": 1.50, "a": 123456789012345678901234567890, "l": [1e3, "<&>"], "m": {}}"#;
        let rest = |change: &str| {
            format!(r#"{{"z":1.50,"a":123456789012345678901234567890,"l":[1e3,"\u003c\u0026\u003e"{change}"#)
        };
        check(document, |it| it.add("/b", node("true")), &rest(r#"],"m":{},"b":true}"#));
        check(document, |it| it.add("/l/-", node("null")), &rest(r#",null],"m":{}}"#));
        check(document, |it| it.add("/m/x~1y", node("[]")), &rest(r#"],"m":{"x/y":[]}}"#));
        check(document, |it| it.remove("/m"), &rest("]}"));
        check("[]", |it| it.add("/0", Node::of(&Value::from("\u{2028}\u{2029}"))?), r#"["\u2028\u2029"]"#);
    }

    #[test]
    fn paths_are_resolved() {
        check("[1,2,3]", |it| it.remove("/-1"), "[1,2]");
        check("[1,2,3]", |it| it.add("/1", node("9")), "[1,9,2,3]");
        check("[1,2,3]", |it| it.replace("/0", node("9")), "[9,2,3]");
        check("[1,2,3]", |it| it.remove("/3"), "invalid index referenced: 3");
        check("{}", |it| it.remove("/a"), "unable to remove nonexistent key: a: missing value");
        check("{}", |it| it.add("/a/b", node("1")), "doc is missing path: /a/b: missing value");
        check(
            "{}",
            |it| it.replace("/a", node("1")),
            "replace operation does not apply: doc is missing key: /a: missing value",
        );
        check("{}", |it| it.replace("", node("1")), "1");
        assert!(Node::parse("{").is_err());
        assert!(Node::parse(&format!("{}{}", "[".repeat(200), "]".repeat(200))).is_err());
    }
}
