//! JSON as the encoder reads it: a tree that borrows its texts from the document and keeps the order of members, which
//! costs a fraction of a tree that owns them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Number;
use serde_json::value::RawValue;

#[derive(Clone, Debug)]
pub(super) enum Tree<'j> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'j, str>),
    List(Vec<Tree<'j>>),
    Map(Members<'j>),
    /// The owned fields of an object, which are embedded as they are and are often the larger half of it.
    Raw(&'j RawValue),
}

pub(super) type Members<'j> = Vec<(Cow<'j, str>, Tree<'j>)>;

/// The member of this name; of several the last.
pub(super) fn member<'t, 'j>(members: &'t Members<'j>, name: &str) -> Option<&'t Tree<'j>> {
    members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
}

impl Tree<'_> {
    /// The text of a member; empty if it is none.
    pub fn text(&self, name: &str) -> &str {
        match self {
            Self::Map(members) => match member(members, name) {
                Some(Tree::Text(text)) => text,
                _ => "",
            },
            _ => "",
        }
    }
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => items.serialize(serializer),
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            Self::Raw(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyTree)
    }
}

struct AnyTree;

/// A member's name, borrowed where nothing in it is escaped.
#[derive(serde::Deserialize)]
struct Name<'j>(#[serde(borrow)] Cow<'j, str>);

impl<'de> Visitor<'de> for AnyTree {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Tree::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Number::from_f64(number).map(Tree::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut map = Members::new();
        while let Some(Name(name)) = members.next_key()? {
            let value = if name == "fieldsV1" { Tree::Raw(members.next_value()?) } else { members.next_value()? };
            map.push((name, value));
        }
        Ok(Tree::Map(map))
    }
}
