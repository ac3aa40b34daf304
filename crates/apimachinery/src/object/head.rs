//! The metadata of an encoded object that everyone asks for, as places in its text: most objects of a server are never
//! looked at, and a copy of each name and label would cost as much as the object.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::meta::OwnerReference;
use crate::raw_json;

/// A text of the document.
#[derive(Clone, Debug)]
pub(super) enum Text {
    /// Where it stands, as it is. Documents are smaller than 4 GiB.
    Span(u32, u32),
    /// It is escaped in the document, or is not in it.
    Owned(Box<str>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Span(0, 0)
    }
}

impl Text {
    fn of(text: Cow<'_, str>, json: &[u8]) -> Self {
        match text {
            Cow::Borrowed(text) => {
                place(text, json).map_or_else(|| Self::Owned(text.into()), |(a, b)| Self::Span(a, b))
            }
            Cow::Owned(text) => Self::Owned(text.into()),
        }
    }

    pub fn get<'t>(&'t self, json: &'t [u8]) -> &'t str {
        match self {
            Self::Span(start, end) => {
                let span: Range<usize> = *start as usize..*end as usize;
                json.get(span).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
            }
            Self::Owned(text) => text,
        }
    }

    /// As it is in the document, where it is a part of that.
    pub fn encoded<'t>(&self, json: &'t [u8]) -> &'t [u8] {
        match self {
            Self::Span(start, end) => json.get(*start as usize..*end as usize).unwrap_or_default(),
            Self::Owned(_) => &[],
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Span(start, end) => start == end,
            Self::Owned(text) => text.is_empty(),
        }
    }
}

fn place(text: &str, json: &[u8]) -> Option<(u32, u32)> {
    let start = (text.as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
    let end = start + text.len();
    if end > json.len() {
        return None;
    }
    Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

/// What is parsed once, when an object enters the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub api_version: Text,
    pub kind: Text,
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
    pub resource_version: Text,
    /// Empty unless the object is being deleted.
    pub deletion_timestamp: Text,
    pub generation: i64,
    /// Sorted by key.
    pub labels: Box<[(Text, Text)]>,
    pub finalizers: Box<[Box<str>]>,
    pub owner_references: Box<[OwnerReference]>,
    /// As they are encoded.
    pub annotations: Text,
    /// As it is encoded.
    pub managed_fields: Text,
}

impl Head {
    pub fn parse(json: &Bytes) -> Result<Self, serde_json::Error> {
        Ok(Self::of(json, serde_json::from_slice(json)?))
    }

    /// As [`Head::parse`], of a document known to be valid: what comes after the metadata is not looked at where `apiVersion`
    /// and `kind` come before it.
    pub fn parse_valid(json: &Bytes) -> Result<Self, serde_json::Error> {
        match Document::front(json) {
            Some(document) => Ok(Self::of(json, document)),
            None => Self::parse(json),
        }
    }

    fn of(json: &Bytes, document: Document<'_>) -> Self {
        let Document { api_version, kind, metadata } = document;
        let text = |text: Plain<'_>| Text::of(text.0, json);
        let mut labels = metadata.labels.0;
        // Stable, and the last of several labels of one name counts.
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        let part =
            |part: Option<&RawValue>| part.map_or_else(Text::default, |it| Text::of(Cow::Borrowed(it.get()), json));
        let label = |(key, value): (Cow<'_, str>, Cow<'_, str>)| (Text::of(key, json), Text::of(value, json));
        Self {
            api_version: text(api_version),
            kind: text(kind),
            name: text(metadata.name),
            namespace: text(metadata.namespace),
            uid: text(metadata.uid),
            resource_version: text(metadata.resource_version),
            deletion_timestamp: metadata.deletion_timestamp.map_or_else(Text::default, text),
            generation: metadata.generation,
            labels: labels.into_iter().map(label).collect(),
            finalizers: metadata.finalizers.into_boxed_slice(),
            owner_references: metadata.owner_references.into_boxed_slice(),
            annotations: part(metadata.annotations),
            managed_fields: part(metadata.managed_fields),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
struct Document<'j> {
    api_version: Plain<'j>,
    kind: Plain<'j>,
    metadata: Metadata<'j>,
}

impl<'j> Document<'j> {
    fn front(json: &'j [u8]) -> Option<Self> {
        const METADATA: &[u8] = b",\"metadata\":";
        let mut members = raw_json::members(json);
        let (first, second) = (members.next()?, members.next()?);
        let rest = json.get(second.1.end..)?.strip_prefix(METADATA)?;
        // Go's types begin with the kind.
        let ((b"apiVersion", api_version), (b"kind", kind)) =
            (if first.0 == b"kind" { (second, first) } else { (first, second) })
        else {
            return None;
        };
        Some(Self {
            api_version: serde_json::from_slice(&json[api_version]).ok()?,
            kind: serde_json::from_slice(&json[kind]).ok()?,
            // It reads up to the end of the value.
            metadata: Metadata::deserialize(&mut serde_json::Deserializer::from_slice(rest)).ok()?,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
struct Metadata<'j> {
    #[serde(deserialize_with = "null_is_default")]
    name: Plain<'j>,
    #[serde(deserialize_with = "null_is_default")]
    namespace: Plain<'j>,
    #[serde(deserialize_with = "null_is_default")]
    uid: Plain<'j>,
    #[serde(deserialize_with = "null_is_default")]
    resource_version: Plain<'j>,
    #[serde(deserialize_with = "null_is_default")]
    generation: i64,
    deletion_timestamp: Option<Plain<'j>>,
    #[serde(deserialize_with = "null_is_default")]
    labels: Pairs<'j>,
    #[serde(deserialize_with = "null_is_default")]
    finalizers: Vec<Box<str>>,
    #[serde(deserialize_with = "null_is_default")]
    owner_references: Vec<OwnerReference>,
    #[serde(borrow)]
    annotations: Option<&'j RawValue>,
    #[serde(borrow)]
    managed_fields: Option<&'j RawValue>,
}

/// A text that is borrowed from the document where nothing in it is escaped.
#[derive(Default)]
struct Plain<'j>(Cow<'j, str>);

impl<'de: 'j, 'j> Deserialize<'de> for Plain<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Texts).map(Plain)
    }
}

/// The labels in the order of the document.
#[derive(Default)]
struct Pairs<'j>(Vec<(Cow<'j, str>, Cow<'j, str>)>);

impl<'de: 'j, 'j> Deserialize<'de> for Pairs<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = members.next_entry::<Plain<'de>, Plain<'de>>()? {
                    pairs.push((key.0, value.0));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Members).map(Pairs)
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// The labels of an object, sorted by key.
#[derive(Clone, Copy)]
pub struct Labels<'o> {
    pub(super) json: &'o [u8],
    pub(super) pairs: &'o [(Text, Text)],
}

impl<'o> Labels<'o> {
    pub fn get(&self, key: &str) -> Option<&'o str> {
        let (pairs, json) = (self.pairs, self.json);
        let at = pairs.binary_search_by(|(own, _)| own.get(json).cmp(key)).ok()?;
        Some(pairs[at].1.get(json))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'o str, &'o str)> {
        let (pairs, json) = (self.pairs, self.json);
        pairs.iter().map(move |(key, value)| (key.get(json), value.get(json)))
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl PartialEq for Labels<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
