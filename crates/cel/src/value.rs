//! Values. What comes from a document is borrowed from it; what an expression makes is shared.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::opaque::Opaque;
use crate::types::{Identity, ObjectShape, Shape};

#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    Object(Object<'a>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    /// A type, by name.
    Type(Cow<'a, str>),
    Optional(Option<Rc<Value<'a>>>),
    Opaque(Rc<Opaque>),
}

/// A string, borrowed or shared.
#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

/// A list, with what its equality and addition go by.
#[derive(Clone, Debug)]
pub enum List<'a> {
    Json { items: &'a [Json], shape: &'a Shape, identity: &'a Identity },
    Owned { items: Rc<Vec<Value<'a>>>, identity: &'a Identity },
}

#[derive(Clone, Debug)]
pub enum Map<'a> {
    Json { entries: &'a serde_json::Map<String, Json>, values: &'a Shape },
    Owned(Rc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// An object read by its declaration.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    pub fields: &'a serde_json::Map<String, Json>,
    pub shape: &'a ObjectShape,
}

/// Key of a map. An int and a uint of the same amount are the same key.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'a>),
}

impl Key<'_> {
    fn order(&self) -> (u8, i128, &str) {
        match self {
            Self::Bool(flag) => (0, i128::from(*flag), ""),
            Self::Int(number) => (1, i128::from(*number), ""),
            Self::Uint(number) => (1, i128::from(*number), ""),
            Self::String(text) => (2, 0, text),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl<'a> Key<'a> {
    /// The key a value stands for; a whole double is the key of its amount.
    pub fn from_value(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Int(number) => Self::Int(*number),
            Value::Uint(number) => Self::Uint(*number),
            Value::Double(number) => Self::Int(whole(*number)?),
            Value::String(text) => Self::String(text.clone()),
            _ => return None,
        })
    }

    pub fn to_value(&self) -> Value<'a> {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

/// The integer a double is exactly, if it is one.
pub fn whole(number: f64) -> Option<i64> {
    // 2^63 itself is out of range and is the first double that would be cut.
    (number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number))
        .then_some(number as i64)
}

static ATOMIC: Identity = Identity::Atomic;

impl<'a> Value<'a> {
    pub fn string(text: impl Into<Rc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub fn borrowed(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::Owned { items: Rc::new(items), identity: &ATOMIC })
    }

    pub fn map(entries: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        Self::Map(Map::Owned(Rc::new(entries)))
    }

    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub fn opaque(value: Opaque) -> Self {
        Self::Opaque(Rc::new(value))
    }

    /// The name `type(value)` prints with.
    pub fn type_name(&self) -> Cow<'a, str> {
        Cow::Borrowed(match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Object(object) => return Cow::Borrowed(&object.shape.name),
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
        })
    }
}

/// An approximation of what one element of a list or map takes in memory.
pub const ELEMENT: usize = std::mem::size_of::<Value<'static>>();
