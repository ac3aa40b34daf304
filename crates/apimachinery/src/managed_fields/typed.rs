//! Validation of an applied configuration against its schema, with the messages of upstream's structured merge.

use std::fmt;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::place::Place;
use super::set::MAX_DEPTH;
use crate::field::MAX_ERRORS;
use crate::schema::ListType;

/// The mismatches, each with its path; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedError(Vec<(String, String)>);

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(path, problem)] = &self.0[..] {
            return write!(f, "{path}: {problem}");
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|(path, problem)| write!(f, "\n  {path}: {problem}"))
    }
}

impl std::error::Error for TypedError {}

/// Checks a whole document.
pub(super) fn check(document: &Value, place: Place<'_>) -> Result<(), TypedError> {
    let mut check = Check::default();
    check.value(document, place);
    if check.faults.is_empty() { Ok(()) } else { Err(TypedError(check.faults)) }
}

#[derive(Default)]
struct Check {
    path: Vec<PathElement>,
    faults: Vec<(String, String)>,
}

impl Check {
    fn fault(&mut self, problem: impl Into<String>) {
        if self.faults.len() < MAX_ERRORS {
            let path = self.path.iter().map(ToString::to_string).collect();
            self.faults.push((path, problem.into()));
        }
    }

    fn at(&mut self, element: PathElement, check: impl FnOnce(&mut Self)) {
        self.path.push(element);
        check(self);
        self.path.pop();
    }

    fn value(&mut self, value: &Value, place: Place<'_>) {
        if self.path.len() >= MAX_DEPTH || place.is_deduced() {
            return;
        }
        match (place.mistyped(value), value) {
            (Some(problem), _) => self.fault(problem),
            (None, Value::Object(map)) => self.members(map, place),
            (None, Value::Array(list)) => self.items(list, place),
            _ => {}
        }
    }

    /// In a map, upstream stops at the first undeclared member.
    fn members(&mut self, map: &Map<String, Value>, place: Place<'_>) {
        for (key, value) in map {
            let (child, declared) = place.child(key);
            let known = declared || place.accepts_undeclared();
            if !known {
                return self.at(PathElement::field(key), |check| check.fault("field not declared in schema"));
            }
            self.at(PathElement::field(key), |check| check.value(value, child));
        }
    }

    /// In a list, it stops at the first item without an identity.
    fn items(&mut self, list: &[Value], place: Place<'_>) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in list.iter().enumerate() {
            let element = match nameless(item, place) {
                Some(problem) => return self.fault(format!("element {index}: {problem}")),
                None if *place.list_type() == ListType::Atomic => PathElement::Index(index.cast_signed() as i64),
                None => place.item_element(item),
            };
            if !seen.insert(element.clone()) {
                self.fault(format!("duplicate entries for key {element}"));
            }
            self.at(element, |check| check.value(item, place.items()));
        }
    }
}

/// Why an item of an associative list has no name.
fn nameless(item: &Value, place: Place<'_>) -> Option<String> {
    let problem = match (place.list_type(), item) {
        (ListType::Map(_), Value::Null) => "associative list with keys may not have a null element",
        (ListType::Map(keys), Value::Object(_)) => {
            let PathElement::Key(fields) = place.item_element(item) else { return None };
            return fields.is_empty().then(|| {
                let keys: Vec<String> = keys.iter().map(|key| crate::field::go_quoted(key)).collect();
                format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                     values for any key fields)",
                    keys.join(" ")
                )
            });
        }
        (ListType::Map(_), _) => "associative list with keys may not have non-map elements",
        (ListType::Set, Value::Object(_)) => "associative list without keys has an element that's a map type",
        (ListType::Set, Value::Array(_)) => "not supported: associative list with lists as elements",
        (ListType::Set, Value::Null) => "associative list without keys has an element that's an explicit null",
        _ => return None,
    };
    Some(problem.to_owned())
}
