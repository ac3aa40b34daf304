//! Opaque JSON that is kept as text.

use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An embedded document. Decoding copies its text and builds no tree; clones share it. Documents are compared by
/// content, not by white space or order of keys.
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// The text of the document.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Encodes a tree.
    pub fn from_value(value: &Value) -> Self {
        let raw = serde_json::value::to_raw_value(value).expect("a tree always has an encoding");
        Self(Arc::from(raw))
    }

    /// Builds the tree.
    ///
    /// # Errors
    /// When the document exceeds the decoder's limit of depth (128).
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// Decodes the document, or a part of it, into a typed value.
    ///
    /// # Errors
    /// When the document does not match the type.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }
}

impl From<&Value> for RawJson {
    fn from(value: &Value) -> Self {
        Self::from_value(value)
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) || self.get() == other.get() {
            return true;
        }
        matches!((self.to_value(), other.to_value()), (Ok(a), Ok(b)) if a == b)
    }
}

impl std::fmt::Debug for RawJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(Arc::from(raw)))
    }
}

impl JsonSchema for RawJson {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawJson".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text_and_compares_the_document() {
        let a: Vec<RawJson> = serde_json::from_str(r#"[{"b":1,  "a":[2]}]"#).unwrap();
        assert_eq!(a[0].get(), r#"{"b":1,  "a":[2]}"#);
        assert_eq!(a[0], RawJson::from_value(&serde_json::json!({"a": [2], "b": 1})));
        assert_ne!(a[0], RawJson::default());
        let tree = serde_json::to_value(&a).unwrap();
        assert_eq!(serde_json::from_value::<Vec<RawJson>>(tree).unwrap(), a);
    }
}
