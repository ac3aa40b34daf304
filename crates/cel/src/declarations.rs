//! Function signatures, written as text and parsed once.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::libraries::LIBRARIES;
use crate::names;
use crate::types::Type;

#[derive(Clone, Debug)]
pub struct Overload {
    /// Called as `first.name(rest)`.
    pub member: bool,
    pub params: Vec<Type>,
    pub result: Type,
    /// The number of type parameters, which are numbered from zero.
    pub type_params: u32,
}

#[derive(Debug, Default)]
pub struct Declarations {
    functions: HashMap<&'static str, Vec<Overload>>,
}

impl Declarations {
    /// The functions of all libraries.
    pub fn all() -> &'static Self {
        static ALL: OnceLock<Declarations> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut declarations = Declarations::default();
            for line in LIBRARIES.iter().flat_map(|library| library.lines()) {
                declarations.declare(line.trim());
            }
            declarations
        })
    }

    pub fn overloads(&self, name: &str) -> Option<&[Overload]> {
        self.functions.get(name).map(Vec::as_slice)
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Overload)> {
        self.functions.iter().flat_map(|(name, overloads)| overloads.iter().map(|overload| (*name, overload)))
    }

    /// Parses `name: (A, B) C | A.(B) C …`; the second form is a member function. A test ensures that no line is
    /// malformed.
    fn declare(&mut self, line: &'static str) {
        let Some((name, signatures)) = line.split_once(": ") else { return };
        for signature in signatures.split(" | ") {
            let reader = Reader { rest: signature, params: Vec::new() };
            if let Some(overload) = reader.overload() {
                self.functions.entry(name).or_default().push(overload);
            }
        }
    }
}

struct Reader {
    rest: &'static str,
    params: Vec<char>,
}

impl Reader {
    fn overload(mut self) -> Option<Overload> {
        let mut params = Vec::new();
        let member = !self.rest.starts_with('(');
        if member {
            params.push(self.type_()?);
            self.rest = self.rest.strip_prefix('.')?;
        }
        self.rest = self.rest.strip_prefix('(')?;
        params.extend(self.types()?);
        self.rest = self.rest.strip_prefix(' ')?;
        let result = self.type_()?;
        self.rest.is_empty().then_some(Overload { member, params, result, type_params: self.params.len() as u32 })
    }

    /// Types up to and including the closing bracket.
    fn types(&mut self) -> Option<Vec<Type>> {
        let mut types = Vec::new();
        while !self.rest.starts_with(')') {
            types.push(self.type_()?);
            self.rest = self.rest.strip_prefix(", ").unwrap_or(self.rest);
        }
        self.rest = &self.rest[1..];
        Some(types)
    }

    fn type_(&mut self) -> Option<Type> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if matches!(name, "list" | "map" | "optional" | "type") {
            self.rest = self.rest.strip_prefix('(')?;
            let mut inner = self.types()?.into_iter();
            return Some(match name {
                "list" => Type::list(inner.next()?),
                "map" => Type::map(inner.next()?, inner.next()?),
                "optional" => Type::optional(inner.next()?),
                _ => Type::type_of(inner.next()?),
            });
        }
        if let (Some(c), true) = (name.chars().next(), name.len() == 1) {
            let known = self.params.iter().position(|param| *param == c);
            let number = known.unwrap_or_else(|| {
                self.params.push(c);
                self.params.len() - 1
            });
            return Some(Type::Param(number as u32));
        }
        simple_type(name)
    }
}

fn simple_type(name: &str) -> Option<Type> {
    Some(match name {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "IP" => Type::Opaque(names::IP),
        "CIDR" => Type::Opaque(names::CIDR),
        "URL" => Type::Opaque(names::URL),
        "Quantity" => Type::Opaque(names::QUANTITY),
        "Semver" => Type::Opaque(names::SEMVER),
        "Format" => Type::Opaque(names::FORMAT),
        "Authorizer" => Type::Opaque(names::AUTHORIZER),
        "PathCheck" => Type::Opaque(names::PATH_CHECK),
        "GroupCheck" => Type::Opaque(names::GROUP_CHECK),
        "ResourceCheck" => Type::Opaque(names::RESOURCE_CHECK),
        "Decision" => Type::Opaque(names::DECISION),
        _ => return None,
    })
}

/// The type of a name such as `int` or `google.protobuf.Timestamp`.
pub fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::type_of(Type::Dyn),
        "null_type" => Type::Null,
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "net.IP" => Type::Opaque(names::IP),
        "net.CIDR" => Type::Opaque(names::CIDR),
        "kubernetes.URL" => Type::Opaque(names::URL),
        "kubernetes.Quantity" => Type::Opaque(names::QUANTITY),
        "kubernetes.Semver" => Type::Opaque(names::SEMVER),
        "dyn" => return None,
        "bool" | "int" | "uint" | "double" | "string" | "bytes" => return simple_type(name),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        for line in LIBRARIES.iter().flat_map(|library| library.lines()).filter(|line| !line.trim().is_empty()) {
            let (_, signatures) = line.trim().split_once(": ").unwrap_or_else(|| panic!("{line}"));
            for signature in signatures.split(" | ") {
                let read = Reader { rest: signature, params: Vec::new() }.overload();
                assert!(read.is_some(), "{line}: {signature}");
            }
        }
    }
}
