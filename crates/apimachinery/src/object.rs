//! The form of an object throughout the program: encoded JSON plus its parsed metadata.

mod apart;
mod head;
mod key;
mod packed;
mod rest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use head::{Head, Span, Text};
use packing::Packed;
use parking_lot::Mutex;
use rest::Rest;

use crate::GroupVersionKind;
use crate::meta::OwnerReference;

pub use apart::Apart;
pub use head::Labels;
pub use key::ObjectKey;
pub use packed::{Cooling, Packer};
pub use rest::Seams;

/// An object as a tree.
pub trait ObjectTree {
    /// The members of its metadata; `None` if it has none, or they are no object.
    fn metadata_mut(&mut self) -> Option<&mut serde_json::Map<String, Value>>;
}

impl ObjectTree for Value {
    fn metadata_mut(&mut self) -> Option<&mut serde_json::Map<String, Self>> {
        self.as_object_mut()?.metadata_mut()
    }
}

impl ObjectTree for serde_json::Map<String, Value> {
    fn metadata_mut(&mut self) -> Option<&mut Self> {
        self.get_mut("metadata")?.as_object_mut()
    }
}

/// An encoded object. Cheap to share as `Arc<Object>`; never edited in place: decode, change, encode.
pub struct Object {
    /// Its content never changes, only its representation.
    body: Mutex<Body>,
    head: Head,
    rest: OnceLock<Rest>,
}

#[derive(Clone)]
enum Body {
    Whole(Bytes),
    Packed(Packed),
}

impl Object {
    /// Parses the metadata of an encoded object; the rest of the document is skipped over, not built.
    ///
    /// # Errors
    /// When the document is not JSON, or its metadata is malformed.
    ///
    /// ```
    /// use apimachinery::Object;
    ///
    /// let object = Object::parse(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"1"}},"data":{}}"#)?;
    /// assert_eq!((object.kind(), object.name(), object.label("l")), ("ConfigMap", "a", Some("1")));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn parse(json: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let json = json.into();
        let head = Head::parse(&json)?;
        Ok(Self::with_head(json, head))
    }

    fn with_head(json: Bytes, head: Head) -> Self {
        Self { body: Mutex::new(Body::Whole(json)), head, rest: OnceLock::new() }
    }

    /// As [`Object::parse`], of a document that is known to be valid, because this program encoded it or has read it:
    /// all of it is not read again.
    ///
    /// # Errors
    /// When the metadata is malformed.
    pub fn parse_valid(json: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let json = json.into();
        let head = Head::parse_valid(&json)?;
        Ok(Self::with_head(json, head))
    }

    /// Encodes a tree.
    ///
    /// # Errors
    /// When the tree is not an object with valid metadata.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        let mut json = Vec::new();
        crate::raw_json::write(value, &mut json);
        Self::parse_valid(json)
    }

    /// Encodes a typed object.
    ///
    /// # Errors
    /// When the value cannot be encoded, or is not an object with valid metadata.
    pub fn encode<T: serde::Serialize>(typed: &T) -> Result<Self, serde_json::Error> {
        Self::parse_valid(serde_json::to_vec(typed)?)
    }

    /// The encoded document. Shared; for a [packed](Packer::pack) object, unpacked on each call.
    pub fn json(&self) -> Bytes {
        match &*self.body.lock() {
            Body::Whole(json) => json.clone(),
            Body::Packed(packed) => packed.unpack().into(),
        }
    }

    /// Whether the document begins with `front`, which names a kind: `{"apiVersion":"v1","kind":"Pod",`.
    pub fn begins_with(&self, front: &[u8]) -> bool {
        self.head.begins_with(front)
    }

    /// Bytes of the encoded document.
    pub fn size(&self) -> usize {
        match &*self.body.lock() {
            Body::Whole(json) => json.len(),
            Body::Packed(packed) => packed.length(),
        }
    }

    /// Whether the document was [packed](Packer::pack), so that each read unpacks a copy.
    pub fn is_packed(&self) -> bool {
        matches!(&*self.body.lock(), Body::Packed(_))
    }

    /// The encoded metadata, found without decoding anything.
    pub fn metadata_json(&self) -> Bytes {
        self.member("metadata").unwrap_or(Bytes::from_static(b"{}"))
    }

    /// An encoded member of the document (such as `status`), found without decoding.
    pub fn member(&self, name: &str) -> Option<Bytes> {
        let json = self.json();
        self.place(&json, name).map(|span| json.slice(span))
    }

    /// The position of the value at a path of members in the object's document, found without decoding.
    pub fn place_of(&self, json: &[u8], path: &[&str]) -> Option<Range<usize>> {
        crate::raw_json::place(self.members_from(json, path.first()?), path)
    }

    fn place(&self, json: &[u8], name: &str) -> Option<Range<usize>> {
        let metadata = self.head.metadata.range();
        match name {
            "status" => self.rest(json).status(),
            "metadata" if !metadata.is_empty() => Some(metadata),
            _ => crate::raw_json::place(self.members_from(json, name), &[name]),
        }
    }

    /// The members among which one of this name is.
    fn members_from<'j>(&self, json: &'j [u8], name: &str) -> crate::raw_json::Members<'j> {
        let metadata = self.head.metadata.range();
        // Before known metadata there is nothing else.
        match metadata.is_empty() || matches!(name, "apiVersion" | "kind" | "metadata") {
            true => crate::raw_json::members(json),
            false => crate::raw_json::members_behind(json, metadata.end),
        }
    }

    /// The parts that a write of the status replaces; `None` for a document that does not have the order and the spelling
    /// of this program, or no field owners.
    pub fn seams(&self) -> Option<Seams> {
        let json = self.json();
        self.rest(&json).seams(&json, &self.head)
    }

    fn rest(&self, json: &[u8]) -> &Rest {
        self.rest.get_or_init(|| Rest::of(json, &self.head))
    }

    /// Builds the whole tree; for cold paths and for edits.
    ///
    /// # Errors
    /// When the document is not valid JSON beyond its metadata.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        crate::raw_json::tree(&self.json())
    }

    /// The tree without the list of field owners, for readers that do not need it; it is often the larger half.
    ///
    /// # Errors
    /// As [`Object::to_value`].
    pub fn to_tree(&self) -> Result<Value, serde_json::Error> {
        Apart::read(&self.json()).map(|apart| apart.tree)
    }

    /// Decodes into a typed object, for which `metadata.managedFields` is null: typed objects have no field owners, and the
    /// decoder would read the list only to drop it.
    ///
    /// # Errors
    /// When the document does not match the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.decode_but(&self.json(), 0..0)
    }

    /// [`Object::decode`] of the object's document with an empty list in the place of the value at `list`, which the caller
    /// reads itself.
    ///
    /// # Errors
    /// When the document does not match the type.
    pub fn decode_but<T: DeserializeOwned>(&self, json: &[u8], list: Range<usize>) -> Result<T, serde_json::Error> {
        let mut holes = [(self.head.managed_fields.range(), &b"null"[..]), (list, b"[]")];
        holes.sort_by_key(|(hole, _)| hole.start);
        if holes.iter().all(|(hole, _)| hole.is_empty()) {
            return serde_json::from_slice(json);
        }
        let (mut text, mut from) = (Vec::with_capacity(json.len()), 0);
        for (hole, value) in holes.into_iter().filter(|(hole, _)| !hole.is_empty() && hole.end <= json.len()) {
            text.extend_from_slice(json.get(from..hole.start).unwrap_or_default());
            text.extend_from_slice(value);
            from = hole.end;
        }
        text.extend_from_slice(&json[from..]);
        serde_json::from_slice(&text)
    }

    /// The apiVersion, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.head.text(Text::ApiVersion)
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        self.head.text(Text::Kind)
    }

    /// The group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = self.api_version().split_once('/').unwrap_or(("", self.api_version()));
        GroupVersionKind::new(group, version, self.kind())
    }

    /// Namespace and name; shares the text of the object's own.
    pub fn key(&self) -> ObjectKey {
        self.head.key.clone()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.head.key.name()
    }

    /// `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.head.key.namespace()
    }

    /// The UID; empty before the object is created.
    pub fn uid(&self) -> &str {
        self.head.text(Text::Uid)
    }

    /// The opaque text in the document; empty if the object was never stored.
    pub fn resource_version(&self) -> &str {
        self.head.text(Text::ResourceVersion)
    }

    /// The resource version as a number, for a store whose revisions increase with every write; 0 if it is not a
    /// number.
    pub fn revision(&self) -> u64 {
        self.resource_version().parse().unwrap_or(0)
    }

    /// The generation; 0 for an object without one.
    pub fn generation(&self) -> i64 {
        self.head.generation
    }

    /// Whether a deletionTimestamp is set.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// The encoded deletionTimestamp.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        Some(self.head.text(Text::DeletionTimestamp)).filter(|time| !time.is_empty())
    }

    /// All labels.
    pub fn labels(&self) -> Labels<'_> {
        self.head.labels()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key)
    }

    /// The finalizers, in order.
    pub fn finalizers(&self) -> &[Box<str>] {
        &self.head.finalizers
    }

    /// The owners.
    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.head.owner_references
    }

    /// Parsed on each call: annotations are large and rarely read.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        serde_json::from_slice::<Option<BTreeMap<_, _>>>(&self.annotations_json()).ok().flatten().unwrap_or_default()
    }

    /// One annotation, found in the text; the others are skipped over.
    pub fn annotation(&self, key: &str) -> Option<String> {
        let json = self.annotations_json();
        match crate::raw_json::member(&json, key) {
            Some(span) => serde_json::from_slice(&json[span]).ok(),
            // A key may be spelled with escapes.
            None if crate::raw_json::members(&json).any(|(name, _)| name.contains(&b'\\')) => {
                self.annotations().remove(key)
            }
            None => None,
        }
    }

    /// The same document with one more annotation; `None` if it has no annotations, or already has this key. The text
    /// is spliced, without decoding. Neither `key` nor `value` may need escapes.
    pub fn with_annotation(&self, key: &str, value: &str) -> Option<Self> {
        let (json, span) = (self.json(), self.head.annotations.range());
        let map = json.get(span.clone()).filter(|map| map.first() == Some(&b'{'))?;
        if self.annotation(key).is_some() {
            return None;
        }
        let is_empty = map[1..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
        let entry = format!("\"{key}\":\"{value}\"{}", if is_empty { "" } else { "," });
        let at = span.start + 1;
        let text = [&json[..at], entry.as_bytes(), &json[at..]].concat();
        let head = self.head.with_insertion(at, entry.len())?;
        Some(Self::with_head(text.into(), head))
    }

    /// Empty without annotations.
    fn annotations_json(&self) -> Bytes {
        self.part(self.head.annotations).unwrap_or_default()
    }

    /// The encoded list of field owners; `None` for an object without one.
    pub fn managed_fields_json(&self) -> Option<Bytes> {
        self.part(self.head.managed_fields)
    }

    /// `None` for an empty one, without access to the document.
    fn part(&self, span: Span) -> Option<Bytes> {
        Some(span.range()).filter(|range| !range.is_empty()).map(|range| self.json().slice(range))
    }

    /// The object in an [`Arc`].
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        Self { body: Mutex::new(self.body.lock().clone()), head: self.head.clone(), rest: self.rest.clone() }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} rv={}", self.kind(), self.key(), self.resource_version())
    }
}
