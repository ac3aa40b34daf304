//! One step of a path to a field, in the three notations it has: in memory, in `fieldsV1`, and in messages.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use crate::raw_json::is_plain;

/// Ordered as upstream orders them: fields, keys, values, indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathElement {
    /// A member of a map.
    Field(Box<str>),
    /// An item of an associative list, by the values of its key fields in the order of the fields' names.
    Key(Vec<(Box<str>, Value)>),
    /// An item of a set.
    Value(Value),
    /// An item by its position (`i:`).
    Index(i64),
}

/// The text is no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path element of FieldsV1")]
pub struct ParseElementError(pub String);

impl PathElement {
    /// A field by its name.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// `f:NAME`, `k:{...}`, `v:VALUE`, `i:N`.
    ///
    /// # Errors
    /// When the prefix is unknown or the rest is malformed.
    pub fn parse(text: &str) -> Result<Self, ParseElementError> {
        if let Some(name) = text.strip_prefix("f:") {
            return Ok(Self::field(name));
        }
        let error = || ParseElementError(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(error)?;
        match kind {
            "k" => {
                let KeyFields(fields) = serde_json::from_str(rest).map_err(|_| error())?;
                Ok(Self::Key(fields))
            }
            "v" => Ok(Self::Value(serde_json::from_str(rest).map_err(|_| error())?)),
            "i" => Ok(Self::Index(rest.parse().map_err(|_| error())?)),
            _ => Err(error()),
        }
    }

    /// The inverse of [`PathElement::parse`].
    pub fn encode(&self) -> String {
        match self {
            // Most elements are fields, and formatting costs as much as the rest of them.
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(fields) => {
                let map: Map<String, Value> = fields.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
                format!("k:{}", Value::Object(map))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

impl PathElement {
    /// Appends the text of [`PathElement::encode`] as JSON. Most elements need no escapes but those of a key's own
    /// quotation marks, and formatting twice would cost more than all the rest of writing a set.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let plain = match self {
            Self::Field(name) => {
                out.extend_from_slice(b"\"f:");
                out.extend_from_slice(name.as_bytes());
                is_plain(name)
            }
            Self::Key(fields) => {
                out.extend_from_slice(b"\"k:");
                let mut before = b'{';
                let plain = fields.iter().all(|(name, value)| {
                    out.push(std::mem::replace(&mut before, b','));
                    out.extend_from_slice(b"\\\"");
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\\\":");
                    is_plain(name) && write_plain(value, out)
                });
                out.push(b'}');
                plain && !fields.is_empty()
            }
            Self::Value(_) | Self::Index(_) => false,
        };
        if plain {
            out.push(b'"');
        } else {
            out.truncate(start);
            out.extend_from_slice(Value::from(self.encode()).to_string().as_bytes());
        }
    }
}

/// Appends a value inside a text of JSON, if it is one that is simple to write there.
fn write_plain(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::String(text) => {
            out.extend_from_slice(b"\\\"");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\\\"");
            is_plain(text)
        }
        Value::Number(number) => {
            out.extend_from_slice(number.to_string().as_bytes());
            true
        }
        _ => false,
    }
}

/// The fields of a key, sorted by name; of several with one name the last counts.
struct KeyFields(Vec<(Box<str>, Value)>);

impl<'de> serde::Deserialize<'de> for KeyFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = KeyFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a key")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<KeyFields, A::Error> {
                let mut fields: Vec<(Box<str>, Value)> = Vec::new();
                while let Some((name, value)) = members.next_entry::<Box<str>, Value>()? {
                    match fields.binary_search_by(|(known, _)| known.cmp(&name)) {
                        Ok(at) => fields[at].1 = value,
                        Err(at) => fields.insert(at, (name, value)),
                    }
                }
                Ok(KeyFields(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// As conflicts name it: `.name`, `[name="c"]`, `[="v"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (position, (name, value)) in fields.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |element: &Self| match element {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        };
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                compare_all(a.iter(), b.iter(), |(k, v), (l, w)| k.cmp(l).then_with(|| compare_values(v, w)))
            }
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

fn compare_all<T>(
    mut a: impl Iterator<Item = T>,
    mut b: impl Iterator<Item = T>,
    compare: impl Fn(T, T) -> Ordering,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => match compare(x, y) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

/// Any total order that agrees with equality will do: it finds items, it is never printed.
pub(super) fn compare_values(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    };
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x.cmp(&y),
            // Floats and numbers beyond i64 are compared by their text: they are rare, and only equality matters.
            (x_int, y_int) => x_int.is_some().cmp(&y_int.is_some()).then_with(|| x.to_string().cmp(&y.to_string())),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => compare_all(a.iter(), b.iter(), compare_values),
        (Value::Object(a), Value::Object(b)) => {
            compare_all(a.iter(), b.iter(), |(k, v), (l, w)| k.cmp(l).then_with(|| compare_values(v, w)))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
