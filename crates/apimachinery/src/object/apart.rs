//! An object's tree without its list of field owners: the list is often the larger half of an object, and most
//! operations on trees (copying, comparing, defaulting, validating) do not need it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::raw_json::{LEVELS, Reader};

/// A decoded object whose `metadata.managedFields` is still as it was encoded.
#[derive(Debug)]
pub struct Apart<'j> {
    /// Without the list.
    pub tree: Value,
    /// The encoded list of field owners.
    pub owners: Option<&'j str>,
}

impl<'j> Apart<'j> {
    /// Of a document that is known to be valid.
    ///
    /// # Errors
    /// When it is not an object with metadata.
    pub fn read(json: &'j [u8]) -> Result<Self, serde_json::Error> {
        let Ok(text) = std::str::from_utf8(json) else { return serde_json::from_slice(json) };
        let mut reader = Reader::of(text);
        let found = Self::of(&mut reader).filter(|_| reader.is_done());
        found.map_or_else(|| serde_json::from_str(text), Ok)
    }

    fn of(reader: &mut Reader<'j>) -> Option<Self> {
        let (mut tree, mut owners) = (Map::new(), None);
        reader.members(|reader, key| {
            let value = if key == "metadata" {
                let mut fields = Map::new();
                reader.members(|reader, key| {
                    if key == "managedFields" {
                        owners = Some(reader.skipped()?);
                    } else {
                        fields.insert(key.into_owned(), reader.value(LEVELS)?);
                    }
                    Some(())
                })?;
                Value::Object(fields)
            } else {
                reader.value(LEVELS)?
            };
            tree.insert(key.into_owned(), value);
            Some(())
        })?;
        Some(Self { tree: Value::Object(tree), owners })
    }
}

impl<'de> Deserialize<'de> for Apart<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Document)
    }
}

struct Document;

impl<'de> Visitor<'de> for Document {
    type Value = Apart<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut tree, mut owners) = (Map::new(), None);
        while let Some(key) = members.next_key::<String>()? {
            let value = if key == "metadata" {
                let Metadata { fields, list } = members.next_value()?;
                owners = list;
                fields
            } else {
                members.next_value()?
            };
            tree.insert(key, value);
        }
        Ok(Apart { tree: Value::Object(tree), owners })
    }
}

struct Metadata<'j> {
    fields: Value,
    list: Option<&'j str>,
}

impl<'de> Deserialize<'de> for Metadata<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Metadata<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut list) = (Map::new(), None);
        while let Some(key) = members.next_key::<String>()? {
            if key == "managedFields" {
                list = Some(members.next_value::<&RawValue>()?.get());
            } else {
                fields.insert(key, members.next_value()?);
            }
        }
        Ok(Metadata { fields: Value::Object(fields), list })
    }
}
