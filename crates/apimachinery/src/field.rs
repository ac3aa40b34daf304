//! Field errors of validation, with upstream's messages (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use serde_json::Value;

use crate::go_print::GoPrint;

/// A path to a field, e.g. `spec.containers[0].name` or `data[key]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// The path of the object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path of a field of the object.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of a field of this value.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { self.then([".", name, ""]) }
    }

    /// The path of an item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(["[", &index.to_string(), "]"])
    }

    /// An entry of a map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.then(["[", key, "]"])
    }

    /// Without formatting: validation builds paths of valid fields too.
    fn then(&self, parts: [&str; 3]) -> Self {
        let mut path = String::with_capacity(self.0.len() + parts.iter().map(|part| part.len()).sum::<usize>());
        path.push_str(&self.0);
        parts.iter().for_each(|part| path.push_str(part));
        Self(path)
    }

    /// Upstream prints an empty path as `<nil>`.
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "<nil>" } else { &self.0 }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of an error, with the refused value where the message shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum ErrorKind {
    /// A required field is absent or empty.
    Required,
    /// The value is malformed.
    Invalid(Value),
    /// As `Invalid`, with the value printed in another form than JSON.
    InvalidShown(String),
    /// As `Invalid`, without the value.
    InvalidOmitted,
    /// The value is not among the supported ones.
    NotSupported {
        /// The refused value.
        value: Value,
        /// The supported values.
        supported: Vec<String>,
    },
    /// The value occurs twice in a set.
    Duplicate(Value),
    /// As `Duplicate`, without the value.
    DuplicateOmitted,
    /// The field may not be set here.
    Forbidden,
    /// The referenced value does not exist.
    NotFound(Value),
    /// The bound is in bytes.
    TooLong {
        /// The maximum length, in bytes.
        max: usize,
    },
    /// A list has too many items.
    TooMany {
        /// The number of items.
        actual: usize,
        /// The maximum number of items.
        max: usize,
    },
    /// The value has the wrong type.
    TypeInvalid(Value),
    /// The server failed to check the value.
    /// The server failed to check the value.
    Internal,
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The field.
    pub path: Path,
    /// The explanation after the kind; may be empty.
    pub detail: String,
    /// The value as upstream shows it, where that is not its JSON with sorted keys.
    pub shown: Option<String>,
}

/// Checks of lists stop when they have found so much. A body of 3 MiB can hold millions of mistakes, and a report of
/// all of them would take gigabytes.
pub const MAX_ERRORS: usize = 1000;

/// The errors of an object, in the order in which they are reported.
pub type ErrorList = Vec<Error>;

impl Error {
    /// An error of any kind.
    pub fn new(kind: ErrorKind, path: &Path, detail: impl Into<String>) -> Self {
        Self { kind, path: path.clone(), detail: detail.into(), shown: None }
    }

    /// Shows the value in these words.
    #[must_use]
    pub fn shown_as(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }

    /// The field is required.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, path, detail)
    }

    /// The value is malformed.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid(value.into()), path, detail)
    }

    /// Invalid, where upstream does not show the value.
    pub fn without_value(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidOmitted, path, detail)
    }

    /// The value is not among `supported`.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|s| (*s).to_owned()).collect();
        Self::new(ErrorKind::NotSupported { value: value.into(), supported }, path, "")
    }

    /// The value occurs twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate(value.into()), path, "")
    }

    /// The field may not be set.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, path, detail)
    }

    /// The referenced value does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::NotFound(value.into()), path, "")
    }

    /// The value is longer than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Self {
        Self::new(ErrorKind::TooLong { max }, path, "")
    }

    /// The list has more than `max` items.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        Self::new(ErrorKind::TooMany { actual, max }, path, "")
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid(value.into()), path, detail)
    }

    /// The `reason` of the cause in a Status.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid(_) | ErrorKind::InvalidShown(_) | ErrorKind::InvalidOmitted => "FieldValueInvalid",
            ErrorKind::NotSupported { .. } => "FieldValueNotSupported",
            ErrorKind::Duplicate(_) | ErrorKind::DuplicateOmitted => "FieldValueDuplicate",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::NotFound(_) => "FieldValueNotFound",
            ErrorKind::TooLong { .. } => "FieldValueTooLong",
            ErrorKind::TooMany { .. } => "FieldValueTooMany",
            ErrorKind::TypeInvalid(_) => "FieldValueTypeInvalid",
            ErrorKind::Internal => "InternalError",
        }
    }

    /// The text without the path.
    pub fn body(&self) -> String {
        let shown = |value: &Value| self.shown.clone().unwrap_or_else(|| shown(value));
        let head = match &self.kind {
            ErrorKind::Required => "Required value".to_owned(),
            ErrorKind::Invalid(value) | ErrorKind::TypeInvalid(value) => format!("Invalid value: {}", shown(value)),
            ErrorKind::InvalidShown(text) => format!("Invalid value: {text}"),
            ErrorKind::InvalidOmitted => "Invalid value".to_owned(),
            ErrorKind::NotSupported { value, supported } => {
                let quoted: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
                format!("Unsupported value: {}: supported values: {}", shown(value), quoted.join(", "))
            }
            ErrorKind::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            ErrorKind::DuplicateOmitted => "Duplicate value".to_owned(),
            ErrorKind::Forbidden => "Forbidden".to_owned(),
            ErrorKind::NotFound(value) => format!("Not found: {}", shown(value)),
            ErrorKind::TooLong { max } => format!("Too long: may not be more than {max} byte{}", plural(*max)),
            ErrorKind::TooMany { actual, max } => {
                format!("Too many: {actual}: must have at most {max} item{}", plural(*max))
            }
            ErrorKind::Internal => "Internal error".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The JSON of an object with its members in the declaration order of a Go struct; other members are last.
pub fn in_order(value: &Value, order: &[&str]) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| in_order(item, order)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => {
            let named = order.iter().filter_map(|name| Some((*name, map.get(*name)?)));
            let rest = map.iter().filter(|(name, _)| !order.contains(&name.as_str())).map(|(n, v)| (n.as_str(), v));
            let members: Vec<String> =
                named.chain(rest).map(|(name, value)| format!("{}:{}", Value::from(name), json_of_go(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// A value as printed by upstream: strings quoted as in Go, other values as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quoted(text),
        Value::Number(_) => GoPrint(value).to_string(),
        other => json_of_go(other),
    }
}

/// JSON as encoded by Go.
pub fn json_of_go(value: &Value) -> String {
    escaped_as_by_go(value.to_string())
}

/// Compact JSON with the escapes of Go's encoder for characters that could end a script in a web page.
pub fn escaped_as_by_go(text: String) -> String {
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    // Outside of strings JSON contains none of these.
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// A text as Go's `%q` prints it.
pub fn go_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_upstreams() {
        let path = Path::new("spec").child("containers").index(1).child("name");
        assert_eq!(Error::required(&path, "").to_string(), "spec.containers[1].name: Required value");
        assert_eq!(
            Error::not_supported(&Path::new("type"), "X", &["A", "B"]).to_string(),
            r#"type: Unsupported value: "X": supported values: "A", "B""#
        );
        assert_eq!(
            Error::invalid(&Path::new("data").key("k"), -1, "must be positive").to_string(),
            "data[k]: Invalid value: -1: must be positive"
        );
        assert_eq!(
            Error::invalid(&Path::new("name"), "a\u{7}\"\n\u{1}é", "no").to_string(),
            r#"name: Invalid value: "a\a\"\n\x01é": no"#
        );
        assert_eq!(
            Error::invalid(&Path::new("a"), serde_json::json!(["<&>"]), "no").to_string(),
            r#"a: Invalid value: ["\u003c\u0026\u003e"]: no"#
        );
    }
}
