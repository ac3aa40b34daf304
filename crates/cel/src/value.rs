//! Values. Parts of documents are borrowed; constructed values are shared.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::authorization::{Authorization, Authorize, Check};
use crate::names;
use crate::opaque::Opaque;
use crate::times::Time;
use crate::types::{Identity, ObjectShape, Shape};

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// A sequence of bytes.
    Bytes(Rc<[u8]>),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// An object of a document.
    Object(Object<'a>),
    /// A point in time.
    Timestamp(Time),
    /// Nanoseconds.
    Duration(i64),
    /// A type, by name.
    Type(Cow<'a, str>),
    /// An optional value.
    Optional(Option<Rc<Value<'a>>>),
    /// A value of a library's own type.
    Opaque(Rc<Opaque>),
}

/// A string, borrowed or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// Part of a document or an expression.
    Borrowed(&'a str),
    /// A constructed string.
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

/// A list with its identity, which determines equality and addition.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Part of a document.
    Json {
        /// The document's items.
        items: &'a [Json],
        /// Their shape.
        shape: &'a Shape,
        /// How items are compared and lists are added.
        identity: &'a Identity,
    },
    /// A constructed list.
    Owned {
        /// The items.
        items: Rc<Vec<Value<'a>>>,
        /// How items are compared and lists are added.
        identity: &'a Identity,
    },
}

/// A map.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Part of a document.
    Json {
        /// The document's entries.
        entries: &'a serde_json::Map<String, Json>,
        /// The shape of the values.
        values: &'a Shape,
    },
    /// A constructed map.
    Owned(Rc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// An object, read by its declaration.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// The document's fields.
    pub fields: &'a serde_json::Map<String, Json>,
    /// The declaration.
    pub shape: &'a ObjectShape,
}

/// The key of a map. An int and a uint of the same amount are the same key.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A string.
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
    /// The key of a value; a whole double has the key of the equal integer.
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

    /// The key as a value.
    pub fn to_value(&self) -> Value<'a> {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

/// The integer that equals a double, if there is one.
pub fn whole(number: f64) -> Option<i64> {
    // 2^63 itself is out of range and is the first double that would be truncated.
    (number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number))
        .then_some(number as i64)
}

static ATOMIC: Identity = Identity::Atomic;

impl<'a> Value<'a> {
    /// A string that the value shares.
    pub fn string(text: impl Into<Rc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// A string borrowed from a document or an expression.
    pub fn borrowed(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// A constructed list; its order counts.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::Owned { items: Rc::new(items), identity: &ATOMIC })
    }

    /// A constructed map.
    pub fn map(entries: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        Self::Map(Map::Owned(Rc::new(entries)))
    }

    /// An optional with a value.
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// A value of a library's own type.
    pub fn opaque(value: Opaque) -> Self {
        Self::Opaque(Rc::new(value))
    }

    /// The name that `type(value)` prints.
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

/// The approximate memory of one element of a list or map.
pub const ELEMENT: usize = std::mem::size_of::<Value<'static>>();

impl Value<'_> {
    /// The variable `authorizer`.
    pub fn authorizer(authorize: Rc<Authorize>) -> Self {
        authorization(names::AUTHORIZER, authorize, Check::default())
    }

    /// The variable `authorizer.requestResource`: a check without a verb.
    pub fn resource_check(authorize: Rc<Authorize>, check: Check) -> Self {
        authorization(names::RESOURCE_CHECK, authorize, check)
    }
}

fn authorization<'v>(type_name: &'static str, authorize: Rc<Authorize>, check: Check) -> Value<'v> {
    Value::opaque(Opaque::Authorization(Box::new(Authorization::new(type_name, authorize, check))))
}
