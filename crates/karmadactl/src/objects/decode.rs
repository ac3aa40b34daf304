//! Documents into manifests, with kubectl's checks before anything is sent.

use apimachinery::go_json::type_name;
use serde_json::Value;

use super::files::Manifest;
use crate::answers;
use crate::error::Error;

/// The checks of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// A document has a type, and its metadata can be read.
    #[default]
    Readable,
    /// Before that, `--validate` requires its type. The first document without one ends its file.
    Typed,
}

/// The manifests of a document: a List is its items.
///
/// # Errors
/// If no later document of the source is read.
pub fn manifests(source: &str, document: Value, check: Check) -> Result<Vec<Result<Manifest, Error>>, Error> {
    if check == Check::Typed {
        typed(&document).map_err(|why| {
            Error::message(format!(
                "error validating {source:?}: error validating data: {why}; if you choose to ignore these errors, turn \
                 validation off with --validate=false"
            ))
        })?;
    }
    if let Err(why) = readable(&document) {
        return Ok(vec![Err(Error::message(format!("unable to decode {source:?}: {why}")))]);
    }
    Ok(expanded(source, document))
}

fn expanded(source: &str, mut document: Value) -> Vec<Result<Manifest, Error>> {
    // A typed list, as servers return it, names the type of its items only once.
    let of_items = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    if let Some(kind) = of_items
        && let Some(items) = answers::take_items(&mut document)
    {
        let of_list = |item| of_list(source, item, &kind, &document["apiVersion"]);
        return items.into_iter().map(of_list).collect();
    }
    vec![Ok(Manifest { source: source.to_owned(), object: document, in_list: false })]
}

fn of_list(source: &str, mut item: Value, kind: &str, version: &Value) -> Result<Manifest, Error> {
    if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) {
        fields.entry("kind").or_insert_with(|| kind.into());
        fields.entry("apiVersion").or_insert_with(|| version.clone());
    }
    match item["kind"].as_str() {
        Some(kind) if kind.ends_with("List") && item["items"].is_array() => {
            Err(Error::message(format!("{source}: a List holds another List")))
        }
        None | Some("") => Err(Error::message(
            "unable to get type info from the object \"*unstructured.Unstructured\": Object 'Kind' is missing in 'object \
             has no kind field '",
        )),
        Some(_) => match readable(&item) {
            Ok(()) => Ok(Manifest { source: source.to_owned(), object: item, in_list: true }),
            Err(why) => Err(Error::message(format!("unable to decode {source:?}: {why}"))),
        },
    }
}

/// The check of the type, of a List that of its items.
///
/// # Errors
/// kubectl's, without the name of the source.
pub fn typed(document: &Value) -> Result<(), String> {
    let invalid = || "invalid object to validate".to_owned();
    let fields = document.as_object().ok_or_else(invalid)?;
    let wrong = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Some(format!("{name} not set")),
        Some(Value::String(_)) => None,
        Some(_) => Some(format!("{name} isn't string type")),
    };
    match (wrong("apiVersion"), wrong("kind")) {
        (None, None) => {}
        (Some(version), Some(kind)) => return Err(format!("[{version}, {kind}]")),
        (Some(why), None) | (None, Some(why)) => return Err(why),
    }
    let version = document["apiVersion"].as_str().unwrap_or_default();
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    if document["kind"] != "List" {
        return Ok(());
    }
    match &document["items"] {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter().try_for_each(typed),
        _ => Err(invalid()),
    }
}

/// Whether client-go can read the type and the metadata.
fn readable(document: &Value) -> Result<(), String> {
    let unmarshal =
        |value: &Value, into: &str| Err(format!("json: cannot unmarshal {} into Go {into}", type_name(value)));
    let Some(fields) = document.as_object() else { return unmarshal(document, "value of type unstructured.detector") };
    let kind = document["kind"].as_str().unwrap_or_default();
    let version = match fields.get("apiVersion").unwrap_or(&Value::Null) {
        Value::Null => "",
        Value::String(version) => version,
        _ if kind.is_empty() => "",
        other => return unmarshal(other, "struct field metadataOnlyObject.apiVersion of type string"),
    };
    if kind.is_empty() || version.matches('/').count() > 1 {
        return Err(format!("Object 'Kind' is missing in '{document}'"));
    }
    if kind.ends_with("List") {
        return match &document["items"] {
            Value::Null | Value::Array(_) => Ok(()),
            other => unmarshal(other, "struct field decodeList.items of type []json.RawMessage"),
        };
    }
    match &document["metadata"] {
        Value::Null => Ok(()),
        Value::Object(metadata) => METADATA.iter().try_for_each(|(field, type_)| {
            let value = metadata.get(*field).unwrap_or(&Value::Null);
            type_.mismatch(value).map_or(Ok(()), |(wrong, expected)| {
                unmarshal(wrong, &format!("struct field ObjectMeta.metadata.{field} of type {expected}"))
            })
        }),
        other => unmarshal(other, "struct field metadataOnlyObject.metadata of type v1.ObjectMeta"),
    }
}

/// The Go type of a field of the metadata.
enum Type {
    /// Of this name.
    Text(&'static str),
    Integer,
    Texts,
    TextMap,
    /// Of items with this name.
    List(&'static str),
}

const METADATA: [(&str, Type); 15] = [
    ("name", Type::Text("string")),
    ("generateName", Type::Text("string")),
    ("namespace", Type::Text("string")),
    ("selfLink", Type::Text("string")),
    ("uid", Type::Text("types.UID")),
    ("resourceVersion", Type::Text("string")),
    ("generation", Type::Integer),
    ("creationTimestamp", Type::Text("string")),
    ("deletionTimestamp", Type::Text("string")),
    ("deletionGracePeriodSeconds", Type::Integer),
    ("labels", Type::TextMap),
    ("annotations", Type::TextMap),
    ("ownerReferences", Type::List("[]v1.OwnerReference")),
    ("finalizers", Type::Texts),
    ("managedFields", Type::List("[]v1.ManagedFieldsEntry")),
];

impl Type {
    /// The value of another type, and the expected one.
    fn mismatch<'v>(&self, value: &'v Value) -> Option<(&'v Value, &'static str)> {
        let not_text = |item: &&Value| !item.is_string() && !item.is_null();
        match (self, value) {
            (_, Value::Null) | (Self::Text(_), Value::String(_)) | (Self::List(_), Value::Array(_)) => None,
            (Self::Integer, Value::Number(number)) if number.is_i64() => None,
            (Self::Texts, Value::Array(items)) => items.iter().find(not_text).map(|item| (item, "string")),
            (Self::TextMap, Value::Object(map)) => map.values().find(not_text).map(|item| (item, "string")),
            (Self::Text(name) | Self::List(name), other) => Some((other, name)),
            (Self::Integer, other) => Some((other, "int64")),
            (Self::Texts, other) => Some((other, "[]string")),
            (Self::TextMap, other) => Some((other, "map[string]string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unreadable_documents_are_refused_as_by_kubectl() {
        let meta = |metadata: Value| json!({"apiVersion": "v1", "kind": "A", "metadata": metadata});
        for (document, expected) in [
            (json!([1]), "json: cannot unmarshal array into Go value of type unstructured.detector"),
            (json!({"a": 1}), r#"Object 'Kind' is missing in '{"a":1}'"#),
            (json!({"kind": ""}), r#"Object 'Kind' is missing in '{"kind":""}'"#),
            (
                json!({"apiVersion": 1, "kind": "A"}),
                "json: cannot unmarshal number into Go struct field metadataOnlyObject.apiVersion of type string",
            ),
            (
                json!({"kind": "AList", "items": 5}),
                "json: cannot unmarshal number into Go struct field decodeList.items of type []json.RawMessage",
            ),
            (
                meta(json!([1])),
                "json: cannot unmarshal array into Go struct field metadataOnlyObject.metadata of type v1.ObjectMeta",
            ),
            (
                meta(json!({"name": 5})),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                meta(json!({"labels": {"a": 1}})),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                meta(json!({"labels": [1]})),
                "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            ),
            (
                meta(json!({"generation": "x"})),
                "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.generation of type int64",
            ),
            (
                meta(json!({"finalizers": 1})),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.finalizers of type []string",
            ),
        ] {
            assert_eq!(readable(&document), Err(expected.to_owned()), "{document}");
        }
        assert_eq!(readable(&meta(json!({"name": null, "labels": {"a": null}, "foo": 1}))), Ok(()));
        assert_eq!(readable(&json!({"kind": "A"})), Ok(()));
    }

    #[test]
    fn untyped_documents_are_refused_as_by_kubectl() {
        for (document, expected) in [
            (json!("a"), "invalid object to validate"),
            (json!({}), "[apiVersion not set, kind not set]"),
            (json!({"apiVersion": "v1"}), "kind not set"),
            (json!({"apiVersion": 1, "kind": "A"}), "apiVersion isn't string type"),
            (json!({"apiVersion": "a/b/c", "kind": "A"}), "unexpected GroupVersion string: a/b/c"),
            (json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}]}), "apiVersion not set"),
            (json!({"apiVersion": "v1", "kind": "List", "items": 5}), "invalid object to validate"),
        ] {
            assert_eq!(typed(&document), Err(expected.to_owned()), "{document}");
        }
    }
}
