//! One step of a path to a field, in the three notations it has: in memory, in `fieldsV1`, and in messages.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

/// Ordered as upstream orders them: fields, keys, values, indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathElement {
    /// A member of a map.
    Field(Box<str>),
    /// An item of an associative list, by the values of its key fields in the order of the fields' names.
    Key(Vec<(Box<str>, Value)>),
    /// An item of a set.
    Value(Value),
    Index(i64),
}

/// The text is no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path element of FieldsV1")]
pub struct ParseElementError(pub String);

impl PathElement {
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// `f:NAME`, `k:{...}`, `v:VALUE`, `i:N`.
    pub fn parse(text: &str) -> Result<Self, ParseElementError> {
        let error = || ParseElementError(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(error)?;
        match kind {
            "f" => Ok(Self::field(rest)),
            "k" => {
                let map: Map<String, Value> = serde_json::from_str(rest).map_err(|_| error())?;
                Ok(Self::Key(map.into_iter().map(|(name, value)| (name.into_boxed_str(), value)).collect()))
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
            // Floats and numbers beyond i64 by their text: rare, and equality is what counts.
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
