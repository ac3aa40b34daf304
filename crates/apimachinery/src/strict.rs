//! Decoding a request body along its type: unknown and duplicate fields are found, and left out, in one pass.
//!
//! Whether the findings are ignored, become warnings or refuse the request is up to `fieldValidation`. Types of values
//! are not checked here.

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::managed_fields::place::Place;
use crate::schema::TypeOf;

/// More findings are not useful to a client; upstream has the same limit.
pub const MAX_FINDINGS: usize = 100;

/// Decodes JSON. Of duplicate fields the last counts; fields that the type does not know are dropped; so are nulls of
/// built-in types, where null means absent. Whole floats become integers.
///
/// The findings are texts for `Warning` headers, in the order of the document: `unknown field "spec.foo"`,
/// `duplicate field "data.a"`.
///
/// # Errors
/// When the document is not valid JSON.
pub fn decode(json: &[u8], type_: &TypeOf) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut findings = Findings::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Seed { place: Some(Place::root(type_)), findings: &mut findings }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, findings.texts))
}

/// The same for a tree, such as the result of a patch, which cannot hold duplicates.
pub fn prune(value: &mut Value, type_: &TypeOf) -> Vec<String> {
    let mut findings = Findings::default();
    prune_below(value, Place::root(type_), &mut findings);
    findings.texts
}

/// The tree that [`decode`] would make of the document that `value` encodes to, without encoding it: fields that the type does
/// not know are dropped and reported, nulls of built-in types are dropped, numbers are Go's. One walk.
///
/// # Errors
/// [`TooDeep`], as readers of documents refuse it.
pub fn adopt(value: &mut Value, type_: &TypeOf) -> Result<Vec<String>, TooDeep> {
    let mut findings = Findings::default();
    adopt_below(value, Some(Place::root(type_)), MAX_DEPTH, &mut findings)?;
    Ok(findings.texts)
}

/// [`adopt`] of a document that has no type, such as a patch.
///
/// # Errors
/// [`TooDeep`]
pub fn adopt_untyped(value: &mut Value) -> Result<(), TooDeep> {
    adopt_below(value, None, MAX_DEPTH, &mut Findings::default())
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
    /// The path to the present value, kept up as one text so that only findings allocate.
    path: String,
    texts: Vec<String>,
    /// Some object has a key twice, with or without a type.
    duplicates: bool,
    /// Report duplicates without a type too.
    untyped: bool,
}

impl Findings {
    /// Each finding is reported once, even if it occurs repeatedly.
    fn report(&mut self, what: &str) {
        if self.texts.len() < MAX_FINDINGS {
            let text = format!("{what} field {:?}", self.path);
            if !self.texts.contains(&text) {
                self.texts.push(text);
            }
        }
    }

    fn enter_key(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }

    fn enter_index(&mut self, index: usize) -> usize {
        use std::fmt::Write;
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        length
    }
}

/// Below an unknown field there is no place, and nothing is reported: it goes as a whole.
struct Seed<'a, 's> {
    place: Option<Place<'s>>,
    findings: &'a mut Findings,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// JSON numbers as Go's unstructured decoder keeps and prints them.
fn number(n: f64) -> Option<Number> {
    // Up to 2^53 every whole float is exactly one integer.
    if n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0 {
        return Some((n as i64).into());
    }
    Number::from_f64(n)
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
            let length = self.findings.enter_index(result.len());
            let item = items.next_element_seed(Seed { place, findings: self.findings })?;
            self.findings.path.truncate(length);
            match item {
                Some(item) => result.push(item),
                None => return Ok(Value::Array(result)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut result = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let length = self.findings.enter_key(&key);
            let child = self.place.map(|place| (place, place.child(&key)));
            match child {
                Some((place, (_, declared))) if !declared && !place.is_open() => {
                    self.findings.report("unknown");
                    members.next_value::<serde::de::IgnoredAny>()?;
                }
                _ => {
                    if result.contains_key(&key) {
                        self.findings.duplicates = true;
                        if child.is_some() || self.findings.untyped {
                            self.findings.report("duplicate");
                        }
                    }
                    let below = child.map(|(_, (below, _))| below);
                    let value = members.next_value_seed(Seed { place: below, findings: self.findings })?;
                    if value.is_null() && child.is_some_and(|(place, _)| place.is_struct()) {
                        result.remove(&key);
                    } else {
                        result.insert(key, value);
                    }
                }
            }
            self.findings.path.truncate(length);
        }
        Ok(Value::Object(result))
    }
}

/// Trees come from decoders that bound their depth, so the recursion is bounded.
fn prune_below(value: &mut Value, place: Place<'_>, findings: &mut Findings) {
    match value {
        Value::Object(map) => {
            map.retain(|key, member| {
                let length = findings.enter_key(key);
                let (child, declared) = place.child(key);
                let known = declared || place.is_open();
                if known {
                    prune_below(member, child, findings);
                } else {
                    findings.report("unknown");
                }
                findings.path.truncate(length);
                known && !(member.is_null() && place.is_struct())
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let length = findings.enter_index(index);
                prune_below(item, place.items(), findings);
                findings.path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Without a place nothing is dropped or reported.
fn adopt_below(
    value: &mut Value,
    place: Option<Place<'_>>,
    levels: usize,
    findings: &mut Findings,
) -> Result<(), TooDeep> {
    match value {
        Value::Object(_) | Value::Array(_) if levels == 0 => return Err(TooDeep),
        Value::Object(map) => {
            let mut outcome = Ok(());
            map.retain(|key, member| {
                let length = findings.enter_key(key);
                let child = place.map(|place| (place, place.child(key)));
                let known = child.is_none_or(|(place, (_, declared))| declared || place.is_open());
                if !known {
                    findings.report("unknown");
                } else if outcome.is_ok() {
                    outcome = adopt_below(member, child.map(|(_, (below, _))| below), levels - 1, findings);
                }
                findings.path.truncate(length);
                known && !(member.is_null() && place.is_some_and(|place| place.is_struct()))
            });
            return outcome;
        }
        Value::Array(items) => {
            let place = place.map(|place| place.items());
            for (index, item) in items.iter_mut().enumerate() {
                let length = findings.enter_index(index);
                adopt_below(item, place, levels - 1, findings)?;
                findings.path.truncate(length);
            }
        }
        Value::Number(given) if !given.is_i64() => {
            if let Some(read) = given.as_f64().and_then(number) {
                *given = read;
            }
        }
        _ => {}
    }
    Ok(())
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
    let value = Seed { place: None, findings: &mut findings }.deserialize(&mut deserializer)?;
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
    let value = Seed { place: None, findings: &mut findings }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, findings.texts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_schemas::{config_map, deployment};
    use serde_json::json;

    #[test]
    fn findings_come_in_the_order_of_the_document() {
        let json = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","foo":1},"data":{"a":"1","a":"2"},"bar":{"x":1}}"#;
        let (value, findings) = decode(json, &config_map()).expect("valid");
        assert_eq!(value["data"], json!({"a": "2"}));
        assert_eq!(value.get("bar"), None);
        assert_eq!(
            error_text(&findings),
            r#"strict decoding error: unknown field "metadata.foo", duplicate field "data.a", unknown field "bar""#
        );
        let json = br#"{"bar":1,"bar":2,"data":{"a":"1","a":"2","a":"3"}}"#;
        let (_, findings) = decode(json, &config_map()).expect("valid");
        assert_eq!(findings, [r#"unknown field "bar""#, r#"duplicate field "data.a""#], "each is reported once");
        let json = br#"{"spec":{"replicas":2.0,"paused":null,"template":{"spec":{"containers":[{"name":"a"},{"name":"b","imagee":"x"}]}}}}"#;
        let (value, findings) = decode(json, &deployment()).expect("valid");
        assert_eq!(findings, [r#"unknown field "spec.template.spec.containers[1].imagee""#]);
        assert_eq!(value["spec"]["replicas"], json!(2));
        assert_eq!(value["spec"].get("paused"), None);
        let mut tree: Value = serde_json::from_slice(json).expect("valid");
        assert_eq!(prune(&mut tree, &deployment()), findings);
        tree["spec"]["replicas"] = json!(2);
        assert_eq!(tree, value);
    }

    #[test]
    fn a_tree_is_adopted_as_its_document_would_be_decoded() {
        for type_ in [config_map(), deployment()] {
            for tree in [
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "foo": 1}, "data": {"a": null}}),
                json!({"spec": {"replicas": 2.0, "paused": null, "x": [{}], "template": {"spec": {"containers": [{"y": 1.5}]}}}}),
                json!({"spec": {"replicas": u64::MAX, "minReadySeconds": 1e300, "revisionHistoryLimit": -0.0}}),
                json!({"spec": {"selector": {"matchLabels": {"a": 1e3}}}, "status": [[null, 4.0, {"x": null}]]}),
                json!([1.0]),
                json!(null),
            ] {
                let text = serde_json::to_vec(&tree).expect("a tree encodes");
                let mut adopted = tree.clone();
                let findings = adopt(&mut adopted, &type_).expect("not deep");
                assert_eq!(decode(&text, &type_).expect("valid"), (adopted, findings), "{tree}");
                let mut adopted = tree;
                adopt_untyped(&mut adopted).expect("not deep");
                assert_eq!(decode_untyped(&text).expect("valid"), adopted);
            }
        }
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        for (levels, fits) in [(127, true), (128, false)] {
            assert_eq!(adopt_untyped(&mut nested(levels)).is_ok(), fits, "{levels}");
            assert_eq!(decode_untyped(nested(levels).to_string().as_bytes()).is_ok(), fits, "{levels}");
        }
    }

    #[test]
    fn findings_and_depth_are_bounded() {
        let members: Vec<String> = (0..1000).map(|n| format!("\"x{n}\":1")).collect();
        let (_, findings) = decode(format!("{{{}}}", members.join(",")).as_bytes(), &config_map()).expect("valid");
        assert_eq!(findings.len(), MAX_FINDINGS);
        assert!(decode("[".repeat(100_000).as_bytes(), &config_map()).is_err());
        assert!(decode_untyped(br#"{"a":1} x"#).is_err());
        for (text, twice) in [(r#"{"a":{"b":1},"c":[{"b":1}]}"#, false), (r#"{"c":[{"b":1,"b":1}]}"#, true)] {
            assert_eq!(decode_noting_duplicates(text.as_bytes()).map(|(_, found)| found).ok(), Some(twice), "{text}");
        }
        for (text, printed) in [("1e3", "1000"), ("1.5", "1.5"), ("-0", "0"), ("9007199254740993", "9007199254740993")]
        {
            assert_eq!(decode_untyped(text.as_bytes()).map(|v| v.to_string()).ok().as_deref(), Some(printed));
        }
    }
}
