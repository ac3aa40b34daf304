//! The form of a stored value, from its first bytes.

/// The prefix of the protobuf form.
const PROTOBUF: &[u8] = b"k8s\0";
/// The prefix of encrypted values.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// How a value is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// As JSON.
    Json,
    /// As protobuf, in the envelope `runtime.Unknown`.
    Protobuf,
    /// Encrypted, with the provider and the name of its key: `aescbc:v1:key1`.
    Encrypted(String),
    /// Not a form of an object.
    Other,
}

impl Form {
    /// The form of a value.
    pub fn of(value: &[u8]) -> Self {
        if let Some(rest) = value.strip_prefix(ENCRYPTED) {
            return Self::Encrypted(provider(rest));
        }
        if value.starts_with(PROTOBUF) {
            return Self::Protobuf;
        }
        match value.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => Self::Json,
            _ => Self::Other,
        }
    }
}

/// `aescbc:v1:key1` of `aescbc:v1:key1:CIPHERTEXT`.
fn provider(rest: &[u8]) -> String {
    /// The longest name that is shown.
    const SHOWN: usize = 200;
    let parts: Vec<_> = rest.get(..SHOWN.min(rest.len())).unwrap_or_default().splitn(4, |byte| *byte == b':').collect();
    let known = if parts.len() == 4 { &parts[..3] } else { &parts[..parts.len().min(1)] };
    known.iter().map(|part| String::from_utf8_lossy(part)).collect::<Vec<_>>().join(":")
}

/// Whether a value has this program's spelling of objects: `apiVersion`, `kind` and `metadata` are first, and nothing
/// follows the last brace. Reads the first hundred bytes.
pub(crate) fn is_own(value: &[u8]) -> Option<&[u8]> {
    let rest = value.strip_prefix(b"{\"apiVersion\":\"")?;
    let (api_version, rest) = text(rest)?;
    let (_, rest) = text(rest.strip_prefix(b",\"kind\":\"")?)?;
    (rest.starts_with(b",\"metadata\":{") && value.ends_with(b"}")).then_some(api_version)
}

/// A string without escapes, and the text after its quote.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(256).position(|byte| matches!(byte, b'"' | b'\\'))?;
    (bytes[end] == b'"').then(|| (&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_detected_by_their_first_bytes() {
        let encrypted = |name: &str| Form::Encrypted(name.to_owned());
        for (value, expected) in [
            (&b"k8s\0\n\x0c"[..], Form::Protobuf),
            (b"{\"kind\":\"Cluster\"}\n", Form::Json),
            (b" {}", Form::Json),
            (b"k8s:enc:aescbc:v1:key1:\x00:\xff", encrypted("aescbc:v1:key1")),
            (b"k8s:enc:kms:v2:cloud:\x0a", encrypted("kms:v2:cloud")),
            (b"k8s:enc:later", encrypted("later")),
            (b"k8s:enc:", encrypted("")),
            (b"k8s", Form::Other),
            (b"", Form::Other),
            (b"1", Form::Other),
        ] {
            assert_eq!(Form::of(value), expected, "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn canonical_json_is_recognized() {
        for (value, expected) in [
            (r#"{"apiVersion":"v1","kind":"X","metadata":{"name":"a"}}"#, Some("v1")),
            (r#"{"apiVersion":"g.io/v1","kind":"X","metadata":{},"spec":{}}"#, Some("g.io/v1")),
            ("{\"apiVersion\":\"v1\",\"kind\":\"X\",\"metadata\":{\"name\":\"a\"}}\n", None),
            (r#"{"kind":"X","apiVersion":"v1","metadata":{"name":"a"}}"#, None),
            (r#"{"apiVersion":"v1","data":{},"kind":"X","metadata":{"name":"a"}}"#, None),
            (r#"{"apiVersion":"v\u0031","kind":"X","metadata":{}}"#, None),
            (r#"{"apiVersion":"v1","kind":"X","metadata":null}"#, None),
            (r#"{"apiVersion":"v1"#, None),
        ] {
            assert_eq!(is_own(value.as_bytes()), expected.map(str::as_bytes), "{value}");
        }
    }
}
