//! Decodes a request body by its type: unknown and duplicate fields are reported, and dropped, in one pass.
//!
//! `fieldValidation` decides whether the findings are ignored, become warnings or refuse the request. Types of values
//! are not checked here.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::managed_fields::place::Place;
use crate::schema::TypeOf;

/// More findings are not useful to a client; upstream has the same limit.
pub const MAX_FINDINGS: usize = 100;

/// Decodes JSON. Of duplicate fields the last is used; unknown fields are dropped; so are nulls of built-in types,
/// where null means absent. Whole floats become integers.
///
/// The findings are texts for `Warning` headers, in the order of the document: `unknown field "spec.foo"`, `duplicate
/// field "data.a"`.
///
/// # Errors
/// When the document is not valid JSON.
pub fn decode(json: &[u8], type_: &TypeOf) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut findings = Findings::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Seed { place: Some(Place::root(type_)), trail: Trail::Root, findings: &mut findings }
        .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, findings.texts))
}

/// The same for a tree, such as the result of a patch, which cannot hold duplicates.
pub fn prune(value: &mut Value, type_: &TypeOf) -> Vec<String> {
    let mut findings = Findings::default();
    prune_below(value, Place::root(type_), &Trail::Root, &mut findings);
    findings.texts
}

/// The tree that [`decode`] would return for the encoded `value`, without encoding it: unknown fields are dropped and
/// reported, nulls of built-in types are dropped, numbers are Go's. One walk.
///
/// # Errors
/// [`TooDeep`], as from the decoder of documents.
pub fn adopt(value: &mut Value, type_: &TypeOf) -> Result<Vec<String>, TooDeep> {
    let mut findings = Findings::default();
    adopt_below(value, Place::root(type_), MAX_DEPTH, &Trail::Root, &mut findings)?;
    Ok(findings.texts)
}

/// [`adopt`] of a document that has no type, such as a patch.
///
/// # Errors
/// [`TooDeep`]
pub fn adopt_untyped(value: &mut Value) -> Result<(), TooDeep> {
    adopt_free(value, MAX_DEPTH)
}

/// A tree has more levels than a document may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has more than {MAX_DEPTH} levels")]
pub struct TooDeep;

/// Levels that decoders of documents accept.
const MAX_DEPTH: usize = 127;

/// `strict decoding error: unknown field "a", duplicate field "b"`: how a strict request is refused.
pub fn error_text(findings: &[String]) -> String {
    format!("strict decoding error: {}", findings.join(", "))
}

#[derive(Default)]
struct Findings {
    texts: Vec<String>,
    /// Some object has a key twice, with or without a type.
    duplicates: bool,
    /// Report duplicates without a type too.
    untyped: bool,
}

impl Findings {
    /// Each finding is reported once, even if it occurs repeatedly.
    fn report(&mut self, what: &str, trail: &Trail<'_>) {
        self.report_at(self.texts.len(), what, trail);
    }

    /// A key that its object has twice, found after the findings of its value, which are those from `place` on.
    fn repeated(&mut self, place: usize, is_typed: bool, trail: &Trail<'_>) {
        self.duplicates = true;
        if is_typed || self.untyped {
            self.report_at(place, "duplicate", trail);
        }
    }

    /// As [`Findings::report`], before the findings from `place` on.
    fn report_at(&mut self, place: usize, what: &str, trail: &Trail<'_>) {
        if place < MAX_FINDINGS {
            let text = format!("{what} field {:?}", trail.to_string());
            if !self.texts.contains(&text) {
                self.texts.insert(place, text);
                self.texts.truncate(MAX_FINDINGS);
            }
        }
    }
}

/// The path to a value, as a chain of steps: its text is built only for a finding.
#[derive(Clone, Copy)]
enum Trail<'t> {
    Root,
    Key(&'t Self, &'t str),
    Index(&'t Self, usize),
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Below an unknown field there is no position in the type, and nothing is reported: it is dropped as a whole.
struct Seed<'a, 's> {
    place: Option<Place<'s>>,
    trail: Trail<'a>,
    findings: &'a mut Findings,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// JSON numbers as Go's unstructured decoder stores and prints them.
fn number(n: f64) -> Option<Number> {
    // Up to 2^53 every whole float is exactly one integer.
    if n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0 {
        return Some((n as i64).into());
    }
    Number::from_f64(n)
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(n.into())
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        // Beyond i64 Go's decoder falls back to a float.
        Ok(i64::try_from(n).map_or_else(|_| Value::from(n as f64), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Value, E> {
        number(n).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let place = self.place.map(|place| place.items());
        let mut result = Vec::new();
        loop {
            let trail = Trail::Index(&self.trail, result.len());
            match items.next_element_seed(Seed { place, trail, findings: self.findings })? {
                Some(item) => result.push(item),
                None => return Ok(Value::Array(result)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Self { place, trail, findings } = self;
        let fields = place.map(Fields::of);
        let mut result = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let below = fields.as_ref().map(|fields| fields.below(&key));
            if let Some(None) = below {
                if !place.is_some_and(|place| place.is_lenient()) {
                    findings.report("unknown", &Trail::Key(&trail, &key));
                }
                members.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            let below = below.flatten();
            // Whether the key is there twice is known after its value, and reported before what was found in that.
            let before = findings.texts.len();
            let seed = Seed { place: below, trail: Trail::Key(&trail, &key), findings: &mut *findings };
            let value = members.next_value_seed(seed)?;
            let is_strict = below.is_some_and(|below| !below.is_lenient());
            let mut repeated = |key: &str| findings.repeated(before, is_strict, &Trail::Key(&trail, key));
            if fields.as_ref().is_some_and(|fields| fields.is_dropped(&value)) {
                if result.remove(&key).is_some() {
                    repeated(&key);
                }
                continue;
            }
            match result.entry(key) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(mut known) => {
                    repeated(known.key());
                    known.insert(value);
                }
            }
        }
        Ok(Value::Object(result))
    }
}

/// The fields that an object of a place may have.
struct Fields<'s> {
    place: Place<'s>,
    is_open: bool,
    /// Null is no value of a struct's field.
    is_struct: bool,
}

impl<'s> Fields<'s> {
    fn of(place: Place<'s>) -> Self {
        Self { place, is_open: place.keeps_unknown(), is_struct: place.is_struct() }
    }

    /// The place of a field; `None` if there is no such field.
    fn below(&self, key: &str) -> Option<Place<'s>> {
        let (child, declared) = self.place.child(key);
        (declared || self.is_open).then_some(child)
    }

    fn is_dropped(&self, value: &Value) -> bool {
        self.is_struct && value.is_null()
    }

    fn keep(&self, key: &str, value: &Value) -> bool {
        !self.is_dropped(value) && self.below(key).is_some()
    }
}

/// Reports and drops unknown fields of an object and nulls of built-in types; `below` does the same with a field's value.
fn prune_members<E>(
    map: &mut Map<String, Value>,
    place: Place<'_>,
    trail: &Trail<'_>,
    findings: &mut Findings,
    below: impl Fn(&mut Value, Place<'_>, &Trail<'_>, &mut Findings) -> Result<(), E>,
) -> Result<(), E> {
    let fields = Fields::of(place);
    let mut stay = true;
    for (key, member) in map.iter_mut() {
        let trail = Trail::Key(trail, key);
        match fields.below(key) {
            Some(child) => {
                below(member, child, &trail, findings)?;
                stay &= !fields.is_dropped(member);
            }
            None => {
                if !place.is_lenient() {
                    findings.report("unknown", &trail);
                }
                stay = false;
            }
        }
    }
    if !stay {
        map.retain(|key, member| fields.keep(key, member));
    }
    Ok(())
}

/// Trees come from decoders that bound their depth, so the recursion is bounded.
fn prune_below(value: &mut Value, place: Place<'_>, trail: &Trail<'_>, findings: &mut Findings) {
    if place.is_free() {
        return;
    }
    match value {
        Value::Object(map) => {
            let Ok(()) = prune_members(map, place, trail, findings, |member, place, trail, findings| {
                prune_below(member, place, trail, findings);
                Ok::<_, std::convert::Infallible>(())
            });
        }
        Value::Array(items) => {
            let place = place.items();
            for (index, item) in items.iter_mut().enumerate() {
                prune_below(item, place, &Trail::Index(trail, index), findings);
            }
        }
        _ => {}
    }
}

fn adopt_below(
    value: &mut Value,
    place: Place<'_>,
    levels: usize,
    trail: &Trail<'_>,
    findings: &mut Findings,
) -> Result<(), TooDeep> {
    match value {
        Value::Object(_) | Value::Array(_) if levels == 0 => return Err(TooDeep),
        Value::Object(_) | Value::Array(_) if place.is_free() => return adopt_free(value, levels),
        Value::Object(map) => prune_members(map, place, trail, findings, |member, place, trail, findings| {
            adopt_below(member, place, levels - 1, trail, findings)
        })?,
        Value::Array(items) => {
            let place = place.items();
            for (index, item) in items.iter_mut().enumerate() {
                adopt_below(item, place, levels - 1, &Trail::Index(trail, index), findings)?;
            }
        }
        Value::Number(given) => adopt_number(given),
        _ => {}
    }
    Ok(())
}

/// [`adopt_below`] where nothing is dropped or reported.
fn adopt_free(value: &mut Value, levels: usize) -> Result<(), TooDeep> {
    match value {
        Value::Object(_) | Value::Array(_) if levels == 0 => Err(TooDeep),
        Value::Object(map) => map.values_mut().try_for_each(|member| adopt_free(member, levels - 1)),
        Value::Array(items) => items.iter_mut().try_for_each(|item| adopt_free(item, levels - 1)),
        Value::Number(given) => {
            adopt_number(given);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn adopt_number(given: &mut Number) {
    if !given.is_i64()
        && let Some(read) = given.as_f64().and_then(number)
    {
        *given = read;
    }
}

/// JSON to a tree without a type: duplicates are not reported, numbers are read as by [`decode`].
///
/// # Errors
/// When the document is not valid JSON.
pub fn decode_untyped(json: &[u8]) -> Result<Value, serde_json::Error> {
    decode_noting_duplicates(json).map(|(value, _)| value)
}

/// [`decode_untyped`], and whether some object has a key twice.
///
/// # Errors
/// When the document is not valid JSON.
pub fn decode_noting_duplicates(json: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    let mut findings = Findings::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Seed { place: None, trail: Trail::Root, findings: &mut findings }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, findings.duplicates))
}

/// A document that has no type, such as a patch, with the keys that some object has twice: `duplicate field "data.a"`.
/// The last of them counts.
///
/// # Errors
/// When the document is not valid JSON.
pub fn decode_reporting_duplicates(json: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut findings = Findings { untyped: true, ..Findings::default() };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Seed { place: None, trail: Trail::Root, findings: &mut findings }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, findings.texts))
}

#[cfg(test)]
mod tests;
