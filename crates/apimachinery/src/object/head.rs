//! The metadata of an encoded object, parsed once. Its strings are copied into one allocation, besides the key, so they do
//! not depend on the document.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::key::ObjectKey;
use crate::meta::OwnerReference;
use crate::raw_json::Reader;

/// A part of the document, in bytes. Documents are smaller than 4 GiB.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span(u32, u32);

impl Span {
    fn of(part: Raw<'_>, json: &[u8]) -> Self {
        Some(part.0).filter(|part| !part.is_empty()).and_then(|part| place(part, json)).unwrap_or_default()
    }

    /// `None` beyond 4 GiB.
    pub fn at(range: std::ops::Range<usize>) -> Option<Self> {
        Some(Self(u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?))
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.0 as usize..self.1 as usize
    }
}

fn place(text: &[u8], json: &[u8]) -> Option<Span> {
    let start = (text.as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
    let end = start + text.len();
    if end > json.len() {
        return None;
    }
    Some(Span(u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

/// The texts of a [`Head`], in their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    ApiVersion,
    Kind,
    Uid,
    ResourceVersion,
    /// Empty unless the object is being deleted.
    DeletionTimestamp,
}

const TEXTS: usize = Text::DeletionTimestamp as usize + 1;

/// The parsed metadata of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// Those of [`Text`], then keys and values of the labels.
    texts: Box<str>,
    /// The end of each of the first texts.
    ends: [u32; TEXTS],
    pub key: ObjectKey,
    /// The ends of the key and the value of each label; sorted by key.
    labels: Box<[(u32, u32)]>,
    pub generation: i64,
    pub finalizers: Box<[Box<str>]>,
    pub owner_references: Box<[OwnerReference]>,
    pub annotations: Span,
    pub managed_fields: Span,
    /// The metadata; empty if only the decoder found them.
    pub metadata: Span,
    /// The document begins by naming its kind as this program spells it.
    plain: bool,
    /// The members of the metadata are in the order in which this program writes them.
    pub is_in_order: bool,
}

/// The rest of a text that begins with a kind in this program's encoding: `{"apiVersion":"v1","kind":"Pod",`.
fn after_front<'t>(text: &'t [u8], api_version: &str, kind: &str) -> Option<&'t [u8]> {
    let value = text.strip_prefix(b"{\"apiVersion\":\"")?.strip_prefix(api_version.as_bytes())?;
    value.strip_prefix(b"\",\"kind\":\"")?.strip_prefix(kind.as_bytes())?.strip_prefix(b"\",")
}

impl Head {
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self::of(json, serde_json::from_slice(json)?))
    }

    /// As [`Head::parse`], of a document known to be valid: parsing stops after the metadata if `apiVersion` and `kind`
    /// precede it.
    pub fn parse_valid(json: &[u8]) -> Result<Self, serde_json::Error> {
        match Document::front(json) {
            Some(document) => Ok(Self::of(json, document)),
            None => Self::parse(json),
        }
    }

    fn of(json: &[u8], document: Document<'_>) -> Self {
        let Document { api_version, kind, metadata, span } = document;
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
        let plain = after_front(json, &api_version.0, &kind.0).is_some();
        let deletion_timestamp = metadata.deletion_timestamp.unwrap_or_default();
        let parts: [Cow<'_, str>; TEXTS] =
            [api_version, kind, metadata.uid, metadata.resource_version, deletion_timestamp].map(|text| text.0);
        let size = parts.iter().chain(labels.iter().flat_map(|(key, value)| [key, value])).map(|text| text.len()).sum();
        let mut texts = String::with_capacity(size);
        let mut end_of = |text: &str| {
            texts.push_str(text);
            // Part of a document, so smaller than 4 GiB, too.
            texts.len() as u32
        };
        Self {
            ends: parts.map(|text| end_of(&text)),
            key: ObjectKey::namespaced(metadata.namespace.0, metadata.name.0),
            labels: labels.iter().map(|(key, value)| (end_of(key), end_of(value))).collect(),
            texts: texts.into_boxed_str(),
            generation: metadata.generation,
            finalizers: metadata.finalizers.into_boxed_slice(),
            owner_references: metadata.owner_references.into_boxed_slice(),
            annotations: Span::of(metadata.annotations, json),
            managed_fields: Span::of(metadata.managed_fields, json),
            metadata: span,
            plain,
            is_in_order: metadata.is_in_order,
        }
    }

    /// The head of the same document after `length` bytes were inserted at `at`, inside its annotations.
    pub fn with_insertion(&self, at: usize, length: usize) -> Option<Self> {
        let (at, length) = (u32::try_from(at).ok()?, u32::try_from(length).ok()?);
        let moved = |place: u32| if place >= at { place.checked_add(length) } else { Some(place) };
        let shifted =
            |Span(start, end): Span| if end == 0 { Some(Span(0, 0)) } else { Some(Span(moved(start)?, moved(end)?)) };
        Some(Self {
            annotations: shifted(self.annotations)?,
            managed_fields: shifted(self.managed_fields)?,
            metadata: shifted(self.metadata)?,
            ..self.clone()
        })
    }

    pub fn text(&self, which: Text) -> &str {
        let place = which as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start as usize..self.ends[place] as usize]
    }

    /// Whether the document begins by naming its kind as this program spells it.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether `front`, which names a kind, is how the document begins; known without the document.
    pub fn begins_with(&self, front: &[u8]) -> bool {
        self.plain && after_front(front, self.text(Text::ApiVersion), self.text(Text::Kind)) == Some(b"")
    }

    pub fn labels(&self) -> Labels<'_> {
        Labels { texts: &self.texts, start: self.ends[TEXTS - 1], ends: &self.labels }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
struct Document<'j> {
    api_version: Plain<'j>,
    kind: Plain<'j>,
    metadata: Metadata<'j>,
    /// Of the metadata, if they were not decoded.
    #[serde(skip)]
    span: Span,
}

impl<'j> Document<'j> {
    /// Of a document that begins with its kind and its metadata; what follows is not read.
    fn front(json: &'j [u8]) -> Option<Self> {
        let mut reader = Reader::of_part(json);
        let (mut api_version, mut kind, mut metadata, mut span) = (None, None, None, Span::default());
        // The end of the metadata ends it early.
        let _: Option<()> = reader.members(|reader, name| {
            match &*name {
                "apiVersion" if api_version.is_none() => api_version = Some(reader.text()?),
                "kind" if kind.is_none() => kind = Some(reader.text()?),
                "metadata" => {
                    let start = reader.at();
                    metadata = Some(Metadata::read(reader, json)?);
                    span = Span::at(start..reader.position())?;
                    return None;
                }
                _ => return None,
            }
            Some(())
        });
        Some(Self { api_version: Plain(api_version?), kind: Plain(kind?), metadata: metadata?, span })
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
    #[serde(deserialize_with = "null_is_default")]
    annotations: Raw<'j>,
    #[serde(deserialize_with = "null_is_default")]
    managed_fields: Raw<'j>,
    /// The version is first, and the other members are sorted.
    #[serde(skip)]
    is_in_order: bool,
}

impl<'j> Metadata<'j> {
    /// `None` if the decoder has to read it.
    fn read(reader: &mut Reader<'j>, json: &'j [u8]) -> Option<Self> {
        let (mut found, mut is_sorted) = (Self::default(), true);
        let mut last: Option<Cow<'_, str>> = None;
        reader.members(|reader, name| {
            // The version is first.
            let before =
                last.replace(if last.is_none() && name == "resourceVersion" { "".into() } else { name.clone() });
            is_sorted &= before < last;
            if reader.null() {
                return Some(());
            }
            match &*name {
                "name" => found.name = Plain(reader.text()?),
                "namespace" => found.namespace = Plain(reader.text()?),
                "uid" => found.uid = Plain(reader.text()?),
                "resourceVersion" => found.resource_version = Plain(reader.text()?),
                "generation" => found.generation = reader.value(0)?.as_i64()?,
                "deletionTimestamp" => found.deletion_timestamp = Some(Plain(reader.text()?)),
                "labels" => {
                    reader.members(|reader, name| {
                        found.labels.0.push((name, reader.text()?));
                        Some(())
                    })?;
                }
                "finalizers" => {
                    reader.items(|reader| {
                        found.finalizers.push(reader.text()?.into());
                        Some(())
                    })?;
                }
                "ownerReferences" => found.owner_references = serde_json::from_slice(&json[reader.skip()?]).ok()?,
                "annotations" => found.annotations = Raw(&json[reader.skip()?]),
                "managedFields" => found.managed_fields = Raw(&json[reader.skip()?]),
                _ => {
                    reader.skip()?;
                }
            }
            Some(())
        })?;
        found.is_in_order = is_sorted && !reader.is_spaced();
        Some(found)
    }
}

/// A part of the document as it is encoded; empty if absent.
#[derive(Clone, Copy, Default)]
struct Raw<'j>(&'j [u8]);

impl<'de: 'j, 'j> Deserialize<'de> for Raw<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get().as_bytes()))
    }
}

/// A string, borrowed from the document if it contains no escapes.
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
    texts: &'o str,
    start: u32,
    ends: &'o [(u32, u32)],
}

impl<'o> Labels<'o> {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&'o str> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            let (own, value) = self.at(middle);
            match own.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(value),
            }
        }
        None
    }

    fn at(&self, place: usize) -> (&'o str, &'o str) {
        let start = place.checked_sub(1).map_or(self.start, |before| self.ends[before].1) as usize;
        let (key, value) = (self.ends[place].0 as usize, self.ends[place].1 as usize);
        (&self.texts[start..key], &self.texts[key..value])
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'o str, &'o str)> {
        let labels = *self;
        (0..labels.len()).map(move |place| labels.at(place))
    }

    /// The number of labels.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
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
