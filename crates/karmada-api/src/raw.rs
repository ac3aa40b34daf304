//! Opaque JSON that is kept as text.

use std::sync::Arc;

use bytes::Bytes;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An embedded document. Decoding copies its text and builds no tree; clones share it. Documents are compared by
/// content, not by white space or order of keys.
#[derive(Clone)]
pub struct RawJson(Text);

#[derive(Clone)]
enum Text {
    Own(Arc<RawValue>),
    /// A part of a document that was valid as a whole.
    Part(Bytes),
}

impl RawJson {
    /// The text of the document.
    pub fn get(&self) -> &str {
        match &self.0 {
            Text::Own(raw) => raw.get(),
            Text::Part(bytes) => std::str::from_utf8(bytes).expect("it was UTF-8 when it was taken out"),
        }
    }

    /// The document as bytes; shared if it is a part of another document.
    pub fn bytes(&self) -> Bytes {
        match &self.0 {
            Text::Own(raw) => Bytes::copy_from_slice(raw.get().as_bytes()),
            Text::Part(bytes) => bytes.clone(),
        }
    }

    /// The document without a copy.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Own(raw) => raw.get().as_bytes(),
            Text::Part(bytes) => bytes,
        }
    }

    /// A part of a document that is known to be valid, which stays in memory as long as the part; `None` if it is not
    /// UTF-8.
    pub(crate) fn of_part(part: Bytes) -> Option<Self> {
        std::str::from_utf8(&part).is_ok().then_some(Self(Text::Part(part)))
    }

    /// Encodes a tree.
    pub fn from_value(value: &Value) -> Self {
        let raw = serde_json::value::to_raw_value(value).expect("a tree always has an encoding");
        Self(Text::Own(Arc::from(raw)))
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
        Self(Text::Own(Arc::from(RawValue::NULL.to_owned())))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        if self.as_bytes() == other.as_bytes() {
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
        match &self.0 {
            Text::Own(raw) => raw.serialize(serializer),
            Text::Part(_) => {
                serde_json::from_str::<&RawValue>(self.get()).map_err(S::Error::custom)?.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(Text::Own(Arc::from(raw))))
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
