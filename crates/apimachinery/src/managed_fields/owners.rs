//! The owners of an object's fields, apart from its tree: read from the encoded list and written into the encoded
//! object, so that a write never parses the list into a tree.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::entries::{self, Entry, EntryError, Operation};
use super::set::FieldSet;

/// The content of `metadata.managedFields`, in the list's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(pub(super) Vec<Entry>);

/// An entry in the form that the server writes. An entry of another form is parsed as a tree, which yields the error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Encoded {
    manager: String,
    operation: Operation,
    api_version: String,
    #[serde(default)]
    time: Option<String>,
    fields_type: FieldsType,
    #[serde(rename = "fieldsV1")]
    set: FieldSet,
    #[serde(default)]
    subresource: String,
}

#[derive(Deserialize)]
enum FieldsType {
    FieldsV1,
}

impl From<Encoded> for Entry {
    fn from(encoded: Encoded) -> Self {
        let Encoded { manager, operation, api_version, time, fields_type: FieldsType::FieldsV1, set, subresource } =
            encoded;
        Self { manager, operation, api_version, subresource, time, set }
    }
}

impl Owners {
    /// Reads the encoded list; an absent one has no entries.
    ///
    /// # Errors
    /// When the list or one of its entries is malformed for upstream.
    pub fn parse(list: Option<&RawValue>) -> Result<Self, EntryError> {
        let Some(list) = list else { return Ok(Self::default()) };
        if let Ok(encoded) = serde_json::from_str::<Vec<Encoded>>(list.get())
            && encoded.iter().all(|entry| !entry.api_version.is_empty())
        {
            return Ok(Self(encoded.into_iter().map(Entry::from).collect()));
        }
        let tree: Value = serde_json::from_str(list.get()).map_err(|_| EntryError::NotEntries)?;
        entries::parse(Some(&tree)).map(Self)
    }

    /// Takes the list out of a tree.
    ///
    /// # Errors
    /// As [`Owners::parse`]; the list is gone all the same.
    pub fn take(object: &mut Value) -> Result<Self, EntryError> {
        entries::parse(entries::remove(object).as_ref()).map(Self)
    }

    /// Puts the list into a tree that has none.
    pub fn put(&self, object: &mut Value) {
        entries::put(object, &self.0);
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
