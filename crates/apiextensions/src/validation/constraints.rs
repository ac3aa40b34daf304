//! Validation of one value by the limits in its schema.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorKind, ErrorList, MAX_ERRORS, Path};
use apimachinery::schema::Constraints;
use serde_json::Value;

use crate::trail::Trail;

/// Adds an error once: alternatives of a schema often repeat each other.
pub(super) fn add(errors: &mut ErrorList, error: Error) {
    if errors.len() < MAX_ERRORS && !errors.contains(&error) {
        errors.push(error);
    }
}

/// `value` is the refused value, or its size.
pub(super) fn wrong(path: &Trail<'_>, value: impl Into<Value>, what: String) -> Error {
    Error::invalid(&path.path(), value, format!("{} in body {what}", path.shown()))
}

/// An error without a field in go-openapi is reported at the validated value itself, and empty.
pub(super) fn unplaced(path: &Trail<'_>, why: String) -> Error {
    let place = if path.is_of_default() { Trail::Default.path() } else { Path::root() };
    Error::invalid(&place, "", why)
}

pub(super) fn whole(path: &Trail<'_>, what: &str) -> Error {
    unplaced(path, format!("\"{}\" {what}", path.shown()))
}

pub(super) fn wrong_type(path: &Trail<'_>, expected: &str, found: &str) -> Error {
    Error::type_invalid(&path.path(), found, format!("{} in body must be of type {expected}: {found:?}", path.shown()))
}

pub(super) fn check_items(constraints: &Constraints, items: &[Value], path: &Trail<'_>, errors: &mut ErrorList) {
    let count = items.len();
    if let Some(min) = constraints.min_items.filter(|min| (count as u64) < *min) {
        add(errors, wrong(path, count, format!("should have at least {min} items")));
    }
    if let Some(max) = constraints.max_items.filter(|max| count as u64 > *max) {
        add(errors, Error::too_many(&path.path(), count, usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if constraints.unique_items {
        let distinct: BTreeSet<String> = items.iter().map(Value::to_string).collect();
        if distinct.len() < count {
            add(errors, wrong(path, "", "shouldn't contain duplicates".to_owned()));
        }
    }
}

pub(super) fn check_size(constraints: &Constraints, size: usize, path: &Trail<'_>, errors: &mut ErrorList) {
    if let Some(min) = constraints.min_properties.filter(|min| (size as u64) < *min) {
        add(errors, wrong(path, size, format!("should have at least {min} properties")));
    }
    if let Some(max) = constraints.max_properties.filter(|max| size as u64 > *max) {
        add(errors, Error::too_many(&path.path(), size, usize::try_from(max).unwrap_or(usize::MAX)));
    }
}

pub(super) fn check_enum(constraints: Option<&Constraints>, value: &Value, path: &Trail<'_>, errors: &mut ErrorList) {
    let Some(allowed) = constraints.map(|constraints| &constraints.enum_values).filter(|all| !all.is_empty()) else {
        return;
    };
    // As upstream, null is never among them.
    if value.is_null() || !allowed.iter().any(|allowed| same(allowed, value)) {
        let supported = allowed.iter().map(plain).collect();
        add(errors, Error::new(ErrorKind::NotSupported { value: value.clone(), supported }, &path.path(), ""));
    }
}

/// JSON equality in which 1 and 1.0 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
