//! YAML as kubectl and the API server read and print it: YAML 1.1 scalars in, goyaml's layout out.

mod print;
mod repeated;
mod scalar;

use crate::go_json;
use serde_json::Value;
use serde_saphyr::{Budget, DuplicateKeyPolicy, Options};

pub use print::to_string;

/// Containers in containers. The deepest known manifests (generated CRDs) have about forty, and the decoder takes some
/// 10 KB of stack for each level, of the 2 MiB that a thread has. JSON, which has its own decoder, may nest 128 deep.
const MAX_DEPTH: usize = 64;
/// A body is at most 3 MiB, and the smallest node takes two bytes of it.
const MAX_NODES: usize = 1_500_000;
/// The number of nodes that aliases may add: sufficient for any hand-written manifest, harmless for the memory (about
/// 10 MB).
const MAX_REPLAYED: usize = 100_000;
/// Documents in one stream; a file of manifests rarely has a hundred.
const MAX_DOCUMENTS: usize = 10_000;

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The YAML is malformed, or has constructs without a JSON equivalent.
    #[error("error converting YAML to JSON: yaml: {0}")]
    Syntax(String),
    /// A limit on streams was exceeded.
    #[error("the stream has more than {MAX_DOCUMENTS} YAML documents")]
    TooManyDocuments,
}

fn options(duplicate_keys: DuplicateKeyPolicy) -> Options {
    let mut budget = Budget::default();
    budget.max_depth = MAX_DEPTH;
    budget.flow_nesting_limit = MAX_DEPTH;
    budget.max_nodes = MAX_NODES;
    budget.max_events = 2 * MAX_NODES;
    budget.max_aliases = 10_000;
    budget.max_anchors = 10_000;
    // JSON keys may be longer than YAML's limit for simple keys, and JSON is valid YAML.
    budget.simple_key_max_lookahead = 64 * 1024;
    let mut options = serde_saphyr::options! {
        budget: Some(budget),
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    options.alias_limits.max_total_replayed_events = MAX_REPLAYED;
    options
}

fn syntax(error: &serde_saphyr::Error) -> YamlError {
    YamlError::Syntax(error.to_string())
}

/// Most "YAML" on the wire is JSON, which reads ten times as fast as such.
fn looks_like_json(document: &[u8]) -> bool {
    document.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{')
}

/// Reads one document of YAML or JSON. Of duplicate keys the last counts. An empty document is null.
///
/// # Errors
/// `Syntax` when the document is neither YAML nor JSON.
///
/// ```
/// use apimachinery::yaml;
/// use serde_json::json;
///
/// let value = yaml::to_json_value(b"kind: ConfigMap\ndata: {k: 'true'}\n")?;
/// assert_eq!(value, json!({"kind": "ConfigMap", "data": {"k": "true"}}));
/// # Ok::<(), yaml::YamlError>(())
/// ```
pub fn to_json_value(document: &[u8]) -> Result<Value, YamlError> {
    if looks_like_json(document)
        && let Ok(value) = crate::strict::decode_untyped(document)
    {
        return Ok(value);
    }
    let text = std::str::from_utf8(document).map_err(|e| YamlError::Syntax(e.to_string()))?;
    read(text)
}

/// [`to_json_value`] with warnings for duplicate keys in YAML's words: `line 7: key "k" already set in map`.
///
/// # Errors
/// `Syntax` when the document is neither YAML nor JSON.
pub fn to_json_value_warned(document: &[u8]) -> Result<(Value, Vec<String>), YamlError> {
    if looks_like_json(document)
        && let Ok((value, false)) = crate::strict::decode_noting_duplicates(document)
    {
        return Ok((value, Vec::new()));
    }
    let value = to_json_value(document)?;
    let text = std::str::from_utf8(document).map_err(|e| YamlError::Syntax(e.to_string()))?;
    // Most documents have no duplicates, which is cheaper to detect than the position of each key.
    let strict = serde_saphyr::from_str_with_options::<IgnoredMap>(text, options(DuplicateKeyPolicy::Error));
    Ok((value, if strict.is_err() { repeated::keys(text) } else { Vec::new() }))
}

/// Visits all values, so that duplicates at any depth are detected.
struct IgnoredMap;

impl<'de> serde::Deserialize<'de> for IgnoredMap {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|_| Self)
    }
}

fn read(text: &str) -> Result<Value, YamlError> {
    if is_blank(text) {
        return Ok(Value::Null);
    }
    let mut value: Value = serde_saphyr::from_str_with_options(text, options(DuplicateKeyPolicy::LastWins))
        .map_err(|error| syntax(&error))?;
    whole_floats(&mut value);
    Ok(value)
}

fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        // Other spaces of Unicode are text in YAML.
        let line = line.trim_matches([' ', '\t', '\r']);
        line.is_empty() || line.starts_with('#') || line == "---" || line == "..."
    })
}

/// Replaces floats without a fraction by integers, because Go sends `1000.0` to a server as `1000`.
pub fn whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(go_json::whole) {
                *value = Value::Number(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_floats),
        Value::Object(map) => map.values_mut().for_each(whole_floats),
        _ => {}
    }
}

/// The documents of a stream, split at lines that start with `---`.
pub fn split(stream: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in stream.split_inclusive('\n') {
        let rest = line.strip_prefix("---");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace())) {
            documents.push(&stream[start..at]);
            start = at + "---".len();
        }
        at += line.len();
    }
    documents.push(&stream[start..]);
    documents
}

/// All documents of a stream of YAML or JSON but the empty ones.
///
/// # Errors
/// `Syntax` for a malformed document, `TooManyDocuments` above the limit.
pub fn documents(stream: &[u8]) -> Result<Vec<Value>, YamlError> {
    let (values, error) = documents_before_error(stream);
    error.map_or(Ok(values), Err)
}

/// [`documents`] before the first malformed one, and its error.
pub fn documents_before_error(stream: &[u8]) -> (Vec<Value>, Option<YamlError>) {
    let mut values = Vec::new();
    let error = add_documents(stream, &mut values).err();
    (values, error)
}

fn add_documents(stream: &[u8], values: &mut Vec<Value>) -> Result<(), YamlError> {
    let text = std::str::from_utf8(stream).map_err(|e| YamlError::Syntax(e.to_string()))?;
    let parts = split(text);
    if parts.len() > MAX_DOCUMENTS {
        return Err(YamlError::TooManyDocuments);
    }
    for part in parts {
        let rest = if looks_like_json(part.as_bytes()) { add_json(part, values) } else { part };
        values.extend(Some(read(rest)?).filter(|value| !value.is_null()));
    }
    Ok(())
}

/// Adds the JSON documents at the beginning, which may follow each other without a separator; returns the text behind
/// them.
fn add_json<'t>(part: &'t str, values: &mut Vec<Value>) -> &'t str {
    let mut documents = serde_json::Deserializer::from_str(part).into_iter::<Value>();
    loop {
        let end = documents.byte_offset();
        match documents.next() {
            Some(Ok(mut value)) => {
                whole_floats(&mut value);
                values.push(value);
            }
            Some(Err(_)) => return &part[end..],
            None => return "",
        }
    }
}

#[cfg(test)]
mod tests;
