//! Types of expressions, and shapes: how a JSON document is read as a typed value without conversion.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::parser::RESERVED;

/// A static type. Displays as in cel-go.
#[derive(Clone, Debug)]
pub enum Type {
    /// The type of an expression with a reported error; assignable to every type.
    Error,
    /// Any type, checked at run time.
    Dyn,
    /// The type of `null`.
    Null,
    /// `bool`.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    Uint,
    /// A 64-bit floating-point number.
    Double,
    /// A string of Unicode characters.
    String,
    /// A sequence of bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A duration.
    Duration,
    /// A list of items.
    List(Arc<Type>),
    /// A map with its key and value types.
    Map(Arc<(Type, Type)>),
    /// An optional value.
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A library's own type, by name.
    Opaque(&'static str),
    /// An object. Equal only to the same declaration.
    Object(Arc<ObjectShape>),
    /// A parameter of a declaration, or a type variable while checking.
    Param(u32),
}

impl Type {
    /// The type of the variable `authorizer`.
    pub const AUTHORIZER: Self = Self::Opaque(crate::names::AUTHORIZER);
    /// The type of the variable `authorizer.requestResource`.
    pub const RESOURCE_CHECK: Self = Self::Opaque(crate::names::RESOURCE_CHECK);

    /// The type of `Object{...}`, see [`crate::Env::with_mutations`].
    pub const OBJECT: Self = Self::Opaque("Object");
    /// The type of `JSONPatch{...}`.
    pub const JSON_PATCH: Self = Self::Opaque("JSONPatch");

    /// A list of `items`.
    pub fn list(items: Type) -> Self {
        Self::List(Arc::new(items))
    }

    /// A map of `keys` and `values`.
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// An optional of `inner`.
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// The type of the type `inner`.
    pub fn type_of(inner: Type) -> Self {
        Self::Type(Arc::new(inner))
    }

    /// Whether the type is known only at run time.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Object(object) => f.write_str(&object.name),
            Self::Param(number) => write!(f, "_var{number}"),
        }
    }
}

impl Type {
    /// The name of the type at run time, which messages about the result of an expression use.
    pub fn runtime_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(items) => format!("list({})", items.runtime_name()),
            Self::Map(entry) => format!("map({}, {})", entry.0.runtime_name(), entry.1.runtime_name()),
            Self::Optional(inner) => format!("optional_type({})", inner.runtime_name()),
            Self::Type(inner) => format!("type({})", inner.runtime_name()),
            other => other.to_string(),
        }
    }
}

/// How a JSON value is read, and its size limits.
#[derive(Debug)]
pub struct Shape {
    /// The type.
    pub kind: Kind,
    /// The maximum number of bytes of a string, items of a list or entries of a map; `None` without a limit other than
    /// the request's.
    pub max_elements: Option<u64>,
    /// The minimum size of a value of this shape in a request, in bytes.
    pub min_size: u64,
}

/// The type of a JSON value.
#[derive(Debug)]
pub enum Kind {
    /// Undeclared: whole numbers are int, others double.
    Any,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Double,
    /// A string.
    String,
    /// A string in base64.
    Bytes,
    /// A string of the form `2006-01-02`.
    Date,
    /// A string of RFC 3339.
    DateTime,
    /// A string in Go's notation of durations.
    Duration,
    /// A list.
    List {
        /// The shape of its items.
        items: Arc<Shape>,
        /// How items are compared and lists are added.
        identity: Identity,
    },
    /// A map with string keys.
    Map {
        /// The shape of its values.
        values: Arc<Shape>,
    },
    /// An object with declared fields.
    Object(Arc<ObjectShape>),
}

/// How lists are compared and added (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Order counts, `+` appends.
    #[default]
    Atomic,
    /// Order does not count, and items are unique.
    Set,
    /// Items are identified by the values of these fields.
    Map(Vec<Box<str>>),
}

/// An object with declared fields, by the names that expressions use.
#[derive(Debug)]
pub struct ObjectShape {
    /// The name of the type in messages.
    pub name: Box<str>,
    /// The fields by their escaped names.
    pub fields: BTreeMap<Box<str>, Field>,
}

impl ObjectShape {
    /// The field that expressions access with `name`: its escaped name, or the name itself if it is a reserved word.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let escaped = || RESERVED.contains(&name).then(|| self.fields.get(&*format!("__{name}__"))).flatten();
        self.fields.get(name).or_else(escaped)
    }
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    /// The name in the document; expressions use the escaped one.
    pub name: Box<str>,
    /// The shape of its value.
    pub shape: Arc<Shape>,
}

/// The shape of an undeclared document.
pub static ANY: Shape = Shape { kind: Kind::Any, max_elements: None, min_size: 1 };

impl Shape {
    /// A shape without a size limit.
    pub fn new(kind: Kind, min_size: u64) -> Self {
        Self { kind, max_elements: None, min_size }
    }

    /// The static type of values of this shape.
    pub fn type_(&self) -> Type {
        match &self.kind {
            Kind::Any => Type::Dyn,
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::String => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::Duration => Type::Duration,
            Kind::List { items, .. } => Type::list(items.type_()),
            Kind::Map { values } => Type::map(Type::String, values.type_()),
            Kind::Object(object) => Type::Object(Arc::clone(object)),
        }
    }
}

/// The name of a property in expressions, or `None` if expressions cannot access it.
pub fn escape(name: &str) -> Option<String> {
    /// These are literals; the others are reserved words.
    const LITERALS: [&str; 3] = ["true", "false", "null"];
    if LITERALS.contains(&name) || RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '_' if rest.starts_with('_') => {
                rest = &rest[1..];
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c == '_' || c.is_ascii_alphanumeric() => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        for (name, escaped) in [
            ("foo", Some("foo")),
            ("foo_bar", Some("foo_bar")),
            ("foo__bar", Some("foo__underscores__bar")),
            ("foo___bar", Some("foo__underscores___bar")),
            ("foo-bar.baz/qux", Some("foo__dash__bar__dot__baz__slash__qux")),
            ("in", Some("__in__")),
            ("namespace", Some("__namespace__")),
            ("int", Some("int")),
            ("9", None),
            ("a b", None),
            ("", None),
            ("ä", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
