//! Types of expressions, and shapes: how a JSON document is read as a typed value without converting it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::parser::RESERVED;

/// A static type. Printed as cel-go prints it.
#[derive(Clone, Debug)]
pub enum Type {
    /// Stands for an expression that was already complained about; fits everywhere.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A library's own type, by name.
    Opaque(&'static str),
    /// Objects are equal when they are the same declaration.
    Object(Arc<ObjectShape>),
    /// A parameter of a declaration, or while checking a variable to be solved.
    Param(u32),
}

impl Type {
    pub fn list(items: Type) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub fn type_of(inner: Type) -> Self {
        Self::Type(Arc::new(inner))
    }

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

/// How a JSON value is read, and how large it can be.
#[derive(Debug)]
pub struct Shape {
    pub kind: Kind,
    /// Bytes of a string, items of a list, entries of a map; `None` when nothing bounds them but the request.
    pub max_elements: Option<u64>,
    /// The least a value of this shape takes in a request.
    pub min_size: u64,
}

#[derive(Debug)]
pub enum Kind {
    /// Nothing is declared: numbers are int when they are whole and double otherwise.
    Any,
    Bool,
    Int,
    Double,
    String,
    /// A string in base64.
    Bytes,
    /// A string of the form `2006-01-02`.
    Date,
    /// A string of RFC 3339.
    DateTime,
    /// A string that Go reads as a duration.
    Duration,
    List {
        items: Arc<Shape>,
        identity: Identity,
    },
    Map {
        values: Arc<Shape>,
    },
    Object(Arc<ObjectShape>),
}

/// What makes two lists equal and how they are added (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Order counts, `+` appends.
    #[default]
    Atomic,
    Set,
    /// Items are told apart by the values of these fields.
    Map(Vec<Box<str>>),
}

/// An object with declared fields, by the names expressions use for them.
#[derive(Debug)]
pub struct ObjectShape {
    pub name: Box<str>,
    pub fields: BTreeMap<Box<str>, Field>,
}

#[derive(Debug)]
pub struct Field {
    /// The name in the document; expressions use the escaped one.
    pub name: Box<str>,
    pub shape: Arc<Shape>,
}

/// The shape of a document nothing is known about.
pub static ANY: Shape = Shape { kind: Kind::Any, max_elements: None, min_size: 1 };

impl Shape {
    pub fn new(kind: Kind, min_size: u64) -> Self {
        Self { kind, max_elements: None, min_size }
    }

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

/// The name under which expressions see a property, or `None` if they cannot see it.
pub fn escape(name: &str) -> Option<String> {
    /// These are no identifiers at all; the others are reserved.
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
