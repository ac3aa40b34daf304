//! The owners of an object's fields, apart from its tree: read from the encoded list and written into the encoded
//! object, so that a write never parses the list into a tree.

use std::borrow::Cow;

use serde_json::Value;

use super::entries::{self, Entry, EntryError, Operation};
use super::set::FieldSet;
use crate::raw_json::Reader;

/// The content of `metadata.managedFields`, in the list's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(pub(super) Vec<Entry>);

/// The parts of an encoded entry: where its fields stand, and whose they are.
#[derive(Default)]
pub(super) struct Parts<'l> {
    pub manager: Option<Cow<'l, str>>,
    pub operation: Option<Operation>,
    pub api_version: Option<Cow<'l, str>>,
    pub subresource: Option<Cow<'l, str>>,
    pub time: Option<Cow<'l, str>>,
    is_fields_v1: bool,
}

impl<'l> Parts<'l> {
    /// Reads an entry in the form that the server writes, its fields by `set`. An entry of another form is parsed as a
    /// tree, which yields the error.
    pub fn read(reader: &mut Reader<'l>, mut set: impl FnMut(&mut Reader<'l>) -> Option<()>) -> Option<Self> {
        let (mut parts, mut has_set, mut has_time) = (Self::default(), false, false);
        reader.members(|reader, name| {
            let is_twice = match &*name {
                "manager" => parts.manager.replace(reader.text()?).is_some(),
                "apiVersion" => parts.api_version.replace(reader.text()?).is_some(),
                "subresource" => parts.subresource.replace(reader.text()?).is_some(),
                "operation" => {
                    let operation = match &*reader.text()? {
                        "Apply" => Operation::Apply,
                        "Update" => Operation::Update,
                        _ => return None,
                    };
                    parts.operation.replace(operation).is_some()
                }
                "time" => {
                    if !reader.null() {
                        parts.time = Some(reader.text()?);
                    }
                    std::mem::replace(&mut has_time, true)
                }
                "fieldsType" => {
                    (reader.text()? == "FieldsV1").then_some(())?;
                    std::mem::replace(&mut parts.is_fields_v1, true)
                }
                "fieldsV1" => {
                    set(reader)?;
                    std::mem::replace(&mut has_set, true)
                }
                _ => reader.skip().is_none(),
            };
            (!is_twice).then_some(())
        })?;
        let is_whole = parts.manager.is_some() && parts.operation.is_some() && parts.is_fields_v1 && has_set;
        let is_versioned = parts.api_version.as_ref().is_some_and(|version| !version.is_empty());
        (is_whole && is_versioned).then_some(parts)
    }

    /// The entry with these fields.
    pub fn into_entry(self, set: FieldSet) -> Option<Entry> {
        Some(Entry {
            manager: self.manager?.into_owned(),
            operation: self.operation?,
            api_version: self.api_version?.into_owned(),
            subresource: self.subresource.unwrap_or_default().into_owned(),
            time: self.time.map(Cow::into_owned),
            set,
        })
    }
}

pub(super) fn read_entry(reader: &mut Reader<'_>) -> Option<Entry> {
    let mut set = FieldSet::default();
    let parts = Parts::read(reader, |reader| {
        set = FieldSet::read(reader)?;
        Some(())
    })?;
    parts.into_entry(set)
}

impl Owners {
    /// Reads the encoded list; an absent one has no entries.
    ///
    /// # Errors
    /// When the list or one of its entries is malformed for upstream.
    pub fn parse(list: Option<&str>) -> Result<Self, EntryError> {
        let Some(list) = list else { return Ok(Self::default()) };
        let (mut reader, mut entries) = (Reader::of(list), Vec::new());
        let read = reader.items(|reader| {
            entries.push(read_entry(reader)?);
            Some(())
        });
        if read.is_some() && reader.is_done() {
            return Ok(Self(entries));
        }
        let tree: Value = serde_json::from_str(list).map_err(|_| EntryError::NotEntries)?;
        entries::parse(Some(&tree)).map(Self)
    }

    /// Removes the list from a tree.
    ///
    /// # Errors
    /// As [`Owners::parse`]; the list is removed in any case.
    pub fn take(object: &mut Value) -> Result<Self, EntryError> {
        entries::parse(entries::remove(object).as_ref()).map(Self)
    }

    /// Adds the list to a tree without one.
    pub fn put(&self, object: &mut Value) {
        entries::put(object, &self.0);
    }

    /// Whether a field has an owner that recorded it in another version.
    pub fn are_in_other_versions(&self, api_version: &str) -> bool {
        self.0.iter().any(|entry| entry.api_version != api_version)
    }

    /// Whether no field has an owner.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the encoded list.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (position, entry) in self.0.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            entry.write(out);
        }
        out.push(b']');
    }

    /// Whether both are equal except for times. Entries are sorted by time, so they are paired by their other fields.
    pub fn equal_but_times(&self, other: &Self) -> bool {
        let same = |a: &Entry, b: &Entry| {
            a.is_of(&b.manager, b.operation, &b.api_version, &b.subresource)
                && a.api_version == b.api_version
                && a.set == b.set
        };
        self.0.len() == other.0.len() && self.0.iter().all(|entry| other.0.iter().any(|known| same(entry, known)))
    }
}
