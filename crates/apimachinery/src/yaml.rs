//! YAML as kubectl and the API server read and print it: YAML 1.1 scalars in, goyaml's layout out.

mod print;
mod read;
mod scalar;

use serde_json::{Number, Value};

use crate::go_json;
use scalar::Booleans;

pub use print::to_string;

/// Documents in one stream; a file of manifests rarely has a hundred.
const MAX_DOCUMENTS: usize = 10_000;

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The YAML is malformed, or has constructs without a JSON equivalent.
    #[error("error converting YAML to JSON: yaml: {0}")]
    Syntax(String),
    /// A key or number that JSON does not have.
    #[error("error converting YAML to JSON: {0}")]
    NotJson(String),
    /// A limit on streams was exceeded.
    #[error("the stream has more than {MAX_DOCUMENTS} YAML documents")]
    TooManyDocuments,
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
    read(utf8(document)?, Booleans::Yaml11).map(|document| document.value)
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
    read(utf8(document)?, Booleans::Yaml11).map(|document| (document.value, document.repeated))
}

/// Reads one document as kustomize does: `yes`, `on` and `y` are strings, as in YAML 1.2, and a duplicate key is an
/// error. An empty document is null.
///
/// # Errors
/// `Syntax` when the document is not YAML, or repeats a key.
pub fn to_json_value_for_kustomize(text: &str) -> Result<Value, YamlError> {
    let mut document = read(text, Booleans::Yaml12)?;
    match document.repeated.is_empty() {
        true => Ok(document.value),
        false => Err(YamlError::Syntax(document.repeated.swap_remove(0))),
    }
}

fn utf8(document: &[u8]) -> Result<&str, YamlError> {
    std::str::from_utf8(document).map_err(|error| YamlError::Syntax(error.to_string()))
}

fn read(text: &str, booleans: Booleans) -> Result<read::Document, YamlError> {
    if is_blank(text) {
        return Ok(read::Document { value: Value::Null, repeated: Vec::new() });
    }
    read::document(text, booleans)
}

fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        // Other spaces of Unicode are text in YAML.
        let line = line.trim_matches([' ', '\t', '\r']);
        line.is_empty() || line.starts_with('#') || line == "---" || line == "..."
    })
}

/// What a float without a fraction is when Go reads its JSON again, if that fits into 64 bits with a sign.
fn whole(float: f64) -> Option<Number> {
    go_json::whole(float).filter(Number::is_i64)
}

/// Replaces floats without a fraction by integers, because Go sends `1000.0` to a server as `1000`. What does not fit
/// into 64 bits with a sign stays a float, as when Go reads it again.
pub fn whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
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
    let parts = split(utf8(stream)?);
    if parts.len() > MAX_DOCUMENTS {
        return Err(YamlError::TooManyDocuments);
    }
    for part in parts {
        let rest = if looks_like_json(part.as_bytes()) { add_json(part, values) } else { part };
        values.extend(Some(read(rest, Booleans::Yaml11)?.value).filter(|value| !value.is_null()));
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
