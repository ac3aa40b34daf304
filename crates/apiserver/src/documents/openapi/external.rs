//! The OpenAPI v2 documents of other servers, merged into this server's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::rendered::Rendered;

/// An OpenAPI v2 document of another server, compressed.
#[derive(Debug, PartialEq)]
pub struct ExternalSpec {
    document: Rendered,
    hash: String,
}

/// Bytes that a document may take while it is merged. This server's own takes 15 MiB, and a document of the largest
/// length with the same structure 180. `[0,0,0` and `{"":{"":{` take many times their length.
const MAX_DECODED: usize = 320 << 20;
/// A value in a list or map, with its key, and the node that each map allocates.
const VALUE: usize = 64;
const MAP: usize = 640;

/// About the bytes that a document takes once it is decoded.
fn decoded_size(document: &[u8]) -> usize {
    let (mut size, mut in_text, mut is_escaped) = (document.len(), false, false);
    for byte in document {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' if !in_text => size += VALUE + MAP,
            b',' | b'[' if !in_text => size += VALUE,
            _ => {}
        }
    }
    size
}

impl ExternalSpec {
    /// # Errors
    /// The document is not JSON, or takes too much memory.
    pub fn new(document: Vec<u8>) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<serde::de::IgnoredAny>(&document)?;
        let size = decoded_size(&document);
        if size > MAX_DECODED {
            let why = format!("decoded it takes {size} bytes, more than {MAX_DECODED}");
            return Err(serde::de::Error::custom(why));
        }
        let hash = crate::documents::discovery::entity_tag(&document);
        Ok(Self { document: Rendered::new(document), hash })
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn read(&self) -> Option<Value> {
        serde_json::from_slice(&self.document.plain().ok()?).ok()
    }
}

const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Adds the paths of `other` below `prefix`, and the parameters and definitions that they use. One that differs from a
/// known one of its name is renamed.
pub(super) fn merge(into: &mut Value, mut other: Value, prefix: &str) {
    let Some(Value::Object(paths)) = other.get_mut("paths").map(Value::take) else { return };
    let below = |path: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut paths: Map<String, Value> = paths.into_iter().filter(|(path, _)| below(path)).collect();
    let mut used = Vec::new();
    paths.values().for_each(|path| references(path, PARAMETERS, &mut used));
    let mut parameters = section(&mut other, "parameters");
    parameters.retain(|name, _| used.contains(name));
    let renamed = conflicts(into.get("parameters").unwrap_or(&Value::Null), &mut parameters);
    if !renamed.is_empty() {
        paths.values_mut().for_each(|value| rename(value, PARAMETERS, &renamed));
        parameters = with_names(parameters, &renamed);
    }
    let mut definitions = section(&mut other, "definitions");
    let mut pending = Vec::new();
    let mut used = BTreeSet::new();
    paths.values().chain(parameters.values()).for_each(|value| references(value, DEFINITIONS, &mut pending));
    while let Some(name) = pending.pop() {
        if let Some(definition) = definitions.get(&name)
            && used.insert(name)
        {
            references(definition, DEFINITIONS, &mut pending);
        }
    }
    definitions.retain(|name, _| used.contains(name));
    let renamed = conflicts(&into["definitions"], &mut definitions);
    if !renamed.is_empty() {
        let all = paths.values_mut().chain(parameters.values_mut()).chain(definitions.values_mut());
        all.for_each(|value| rename(value, DEFINITIONS, &renamed));
        definitions = with_names(definitions, &renamed);
    }
    add_all(into, "paths", paths);
    if !parameters.is_empty() && into.get("parameters").is_none() {
        into["parameters"] = Map::new().into();
    }
    add_all(into, "parameters", parameters);
    add_all(into, "definitions", definitions);
}

fn section(document: &mut Value, name: &str) -> Map<String, Value> {
    match document.get_mut(name).map(Value::take) {
        Some(Value::Object(entries)) => entries,
        _ => Map::new(),
    }
}

fn with_names(entries: Map<String, Value>, names: &BTreeMap<String, String>) -> Map<String, Value> {
    entries.into_iter().map(|(name, value)| (names.get(&name).cloned().unwrap_or(name), value)).collect()
}

/// Removes known entries from `added`, and returns new names for differing ones.
fn conflicts(known: &Value, added: &mut Map<String, Value>) -> BTreeMap<String, String> {
    let mut renamed = BTreeMap::new();
    added.retain(|name, definition| match known.get(name) {
        Some(own) => {
            let is_same = is_same(own, definition);
            if !is_same {
                let free = (2..).map(|number| format!("{name}_v{number}")).find(|other| known.get(other).is_none());
                renamed.extend(free.map(|free| (name.clone(), free)));
            }
            !is_same
        }
        None => true,
    });
    renamed
}

/// Whether two definitions are equal, except for the kinds that they belong to.
fn is_same(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return one == other };
    let fields = |map: &Map<String, Value>| map.keys().filter(|name| *name != KINDS).count();
    fields(one) == fields(other)
        && one.iter().filter(|(name, _)| *name != KINDS).all(|(name, value)| other.get(name) == Some(value))
}

/// Present entries stay.
fn add_all(into: &mut Value, field: &str, entries: Map<String, Value>) {
    if let Some(known) = into.get_mut(field).and_then(Value::as_object_mut) {
        for (name, value) in entries {
            known.entry(name).or_insert(value);
        }
    }
}

fn references(value: &Value, prefix: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(|it| it.strip_prefix(prefix)).map(str::to_owned));
            map.values().for_each(|value| references(value, prefix, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, prefix, found)),
        _ => {}
    }
}

fn rename(value: &mut Value, prefix: &str, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(prefix).and_then(|name| names.get(name))
            {
                *reference = format!("{prefix}{name}");
            }
            map.values_mut().for_each(|value| rename(value, prefix, names));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename(value, prefix, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aggregated_paths_include_referenced_definitions() {
        let of = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let mut document = json!({
            "paths": {"/api/v1/": 1},
            "definitions": {"meta": {"type": "object"}, "other": {"type": "string", KINDS: [1]}, "other_v2": {}},
        });
        let external = json!({
            "paths": {
                "/apis/g/v1/xs": {"get": of("x")},
                "/apis/g/v10/ys": {"get": of("y")},
                "/api/v1/": 2,
            },
            "definitions": {
                "x": {"properties": {"meta": of("meta"), "other": of("other"), "next": of("x")}},
                "y": {},
                "meta": {"type": "object", KINDS: [2]},
                "other": {"type": "integer"},
            },
        });
        merge(&mut document, external, "/apis/g/v1");
        let expected = json!({
            "paths": {"/api/v1/": 1, "/apis/g/v1/xs": {"get": of("x")}},
            "definitions": {
                "meta": {"type": "object"},
                "other": {"type": "string", KINDS: [1]},
                "other_v2": {},
                "other_v3": {"type": "integer"},
                "x": {"properties": {"meta": of("meta"), "other": of("other_v3"), "next": of("x")}},
            },
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn shared_parameters_are_included() {
        let by = |name: &str| json!([{"$ref": format!("#/parameters/{name}")}]);
        let mut document = json!({"paths": {}, "definitions": {}, "parameters": {"limit": 1, "pretty": 2}});
        let external = json!({
            "paths": {"/apis/g/v1/xs": {"parameters": by("pretty"), "get": by("limit"), "delete": by("body")}},
            "definitions": {"Options": {}},
            "parameters": {"limit": 3, "pretty": 2, "unused": 4, "body": {"schema": {"$ref": "#/definitions/Options"}}},
        });
        merge(&mut document, external, "/apis/g/v1");
        let expected = json!({
            "paths": {"/apis/g/v1/xs": {"parameters": by("pretty"), "get": by("limit_v2"), "delete": by("body")}},
            "definitions": {"Options": {}},
            "parameters": {"limit": 1, "pretty": 2, "limit_v2": 3, "body": {"schema": {"$ref": "#/definitions/Options"}}},
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn malformed_documents_add_nothing() {
        for external in [json!(3), json!({"paths": []}), json!({"paths": {"/apis/h/v1": {}}, "definitions": 3})] {
            let mut document = json!({"paths": {}, "definitions": {}});
            merge(&mut document, external.clone(), "/apis/g/v1");
            assert_eq!(document, json!({"paths": {}, "definitions": {}}), "{external}");
        }
        assert!(ExternalSpec::new(b"{".to_vec()).is_err());
        // It is JSON, and nested too deeply to be decoded.
        let deep = ExternalSpec::new([vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat()).expect("JSON");
        assert_eq!(deep.read(), None);
    }

    #[test]
    fn documents_that_grow_when_they_are_decoded_are_refused() {
        let of = |item: &str, count: usize| ExternalSpec::new(format!("[{}0]", item.repeat(count)).into_bytes());
        for item in ["0,", "{},", "[],", "{\"\":0},"] {
            let refused = of(item, 6 << 20).expect_err(item).to_string();
            assert!(refused.contains("more than 335544320"), "{refused}");
            of(item, 100_000).expect(item);
        }
        of("\"{,[\\\"{,[\",", 1 << 20).expect("texts are no values");
        let document = br#"{"a":[1,2],"b\"{":"{,"}"#;
        assert_eq!(decoded_size(document), document.len() + 4 * VALUE + MAP);
    }
}
