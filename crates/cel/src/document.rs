//! Reads documents as values of their shape, one level at a time.

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::budget::EvalError;
use crate::times;
use crate::types::{ANY, Identity, Kind, Shape};
use crate::value::{Key, List, Map, Object, Text, Value, whole};

static ATOMIC: Identity = Identity::Atomic;

impl<'a> Value<'a> {
    /// Reads a document as a value. Only its outermost level is read.
    ///
    /// # Errors
    /// When the document does not match the shape.
    pub fn from_json(json: &'a Json, shape: &'a Shape) -> Result<Self, EvalError> {
        let mismatch = |expected: &str| {
            let found = match json {
                Json::Null => "null",
                Json::Bool(_) => "bool",
                Json::Number(_) => "number",
                Json::String(_) => "string",
                Json::Array(_) => "array",
                Json::Object(_) => "object",
            };
            Err(EvalError::failed(format!("invalid data, expected {expected} to match the schema, got {found}")))
        };
        Ok(match (&shape.kind, json) {
            (_, Json::Null) => Self::Null,
            (Kind::Any | Kind::Bool, Json::Bool(flag)) => Self::Bool(*flag),
            (Kind::Any | Kind::Int, Json::Number(number)) => match (number.as_i64(), number.as_f64(), &shape.kind) {
                (Some(number), _, _) => Self::Int(number),
                (None, Some(number), Kind::Any) => Self::Double(number),
                (None, Some(number), _) => match whole(number) {
                    Some(number) => Self::Int(number),
                    None => return mismatch("an integer"),
                },
                (None, None, _) => return mismatch("a number"),
            },
            (Kind::Double, Json::Number(number)) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            (Kind::Any | Kind::String, Json::String(text)) => Self::borrowed(text),
            (Kind::Bytes, Json::String(text)) => match STANDARD.decode(text) {
                Ok(data) => Self::Bytes(Rc::from(data)),
                Err(error) => return Err(EvalError::failed(format!("invalid byte formatted string {text}: {error}"))),
            },
            (Kind::Date, Json::String(text)) => match times::parse_date(text) {
                Some(time) => Self::Timestamp(time),
                None => return Err(EvalError::failed(format!("Invalid date formatted string {text}"))),
            },
            (Kind::DateTime, Json::String(text)) => match times::read_timestamp(text) {
                Some(time) => Self::Timestamp(time),
                None => return Err(EvalError::failed(format!("Invalid date-time formatted string {text}"))),
            },
            (Kind::Duration, Json::String(text)) => match times::parse_duration(text) {
                Some(nanos) => Self::Duration(nanos),
                None => return Err(EvalError::failed(format!("Invalid duration formatted string {text}"))),
            },
            (Kind::Any, Json::Array(items)) => Self::List(List::Json { items, shape: &ANY, identity: &ATOMIC }),
            (Kind::List { items: shape, identity }, Json::Array(items)) => {
                Self::List(List::Json { items, shape, identity })
            }
            (Kind::Any, Json::Object(entries)) => Self::Map(Map::Json { entries, values: &ANY }),
            (Kind::Map { values }, Json::Object(entries)) => Self::Map(Map::Json { entries, values }),
            (Kind::Object(shape), Json::Object(fields)) => Self::Object(Object { fields, shape }),
            (Kind::Bool, _) => return mismatch("a boolean"),
            (Kind::Int, _) => return mismatch("an integer"),
            (Kind::Double, _) => return mismatch("a number"),
            (Kind::String | Kind::Bytes | Kind::Date | Kind::DateTime | Kind::Duration, _) => {
                return mismatch("a string");
            }
            (Kind::List { .. }, _) => return mismatch("an array"),
            (Kind::Map { .. } | Kind::Object(_), _) => return mismatch("a map"),
        })
    }
}

impl<'a> List<'a> {
    /// The number of items.
    pub fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Owned { items, .. } => items.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How items are compared and lists are added.
    pub fn identity(&self) -> &'a Identity {
        match self {
            Self::Json { identity, .. } | Self::Owned { identity, .. } => identity,
        }
    }

    /// The item at an index.
    ///
    /// # Errors
    /// When the item does not match its shape.
    pub fn get(&self, index: usize) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Json { items, shape, .. } => items.get(index).map(|item| Value::from_json(item, shape)).transpose(),
            Self::Owned { items, .. } => Ok(items.get(index).cloned()),
        }
    }

    /// The items in their order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index).transpose())
    }
}

impl<'a> Map<'a> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Json { entries, .. } => entries.len(),
            Self::Owned(entries) => entries.len(),
        }
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When the value does not match its shape.
    pub fn get(&self, key: &Key<'a>) -> Result<Option<Value<'a>>, EvalError> {
        match (self, key) {
            (Self::Json { entries, values }, Key::String(name)) => {
                entries.get(&**name).map(|value| Value::from_json(value, values)).transpose()
            }
            (Self::Json { .. }, _) => Ok(None),
            (Self::Owned(entries), key) => Ok(entries.get(key).cloned()),
        }
    }

    /// Whether the map has a key.
    pub fn contains(&self, key: &Key<'a>) -> bool {
        match (self, key) {
            (Self::Json { entries, .. }, Key::String(name)) => entries.contains_key(&**name),
            (Self::Json { .. }, _) => false,
            (Self::Owned(entries), key) => entries.contains_key(key),
        }
    }

    /// The keys in their order.
    pub fn keys(&self) -> Vec<Key<'a>> {
        match self {
            Self::Json { entries, .. } => entries.keys().map(|name| Key::String(Text::Borrowed(name))).collect(),
            Self::Owned(entries) => entries.keys().cloned().collect(),
        }
    }
}

impl<'a> Object<'a> {
    /// The field that expressions access with `name`.
    ///
    /// # Errors
    /// When the field does not match its shape.
    pub fn get(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        let Some(field) = self.shape.field(name) else { return Ok(None) };
        self.json(&field.name).map(|value| Value::from_json(value, &field.shape)).transpose()
    }

    /// The document of a property. A property that is null counts as absent, as upstream.
    pub(crate) fn json(&self, property: &str) -> Option<&'a Json> {
        self.fields.get(property).filter(|value| !value.is_null())
    }

    /// Whether the object has a value for the field.
    pub fn has(&self, name: &str) -> bool {
        self.shape.field(name).is_some_and(|field| self.json(&field.name).is_some())
    }
}
