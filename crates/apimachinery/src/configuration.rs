//! Configuration files in the form of API objects, as kube-apiserver's `--authentication-config` and others take them.

use std::fmt::Display;

use serde_json::Value;

use crate::yaml;

/// Why a configuration file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is neither YAML nor JSON, has an unknown field, or a field has another type.
    #[error("it cannot be decoded: {0}")]
    Undecodable(String),
    /// The file has another kind or version.
    #[error("it is {found}, not an {expected}")]
    Kind {
        /// `apiVersion` and `kind` of the file.
        found: String,
        /// The preferred `apiVersion` and the `kind` of the files that are read.
        expected: String,
    },
    /// The invalid fields, in kube-apiserver's format.
    #[error("{0}")]
    Invalid(String),
}

impl ConfigurationError {
    /// A decoder's error.
    pub fn undecodable(error: impl Display) -> Self {
        Self::Undecodable(error.to_string())
    }

    /// The errors of fields as Go prints an aggregate: several are in brackets.
    pub fn invalid<E: Display>(errors: &[E]) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self::Invalid(match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        })
    }
}

/// A kind of configuration file.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    /// The accepted values of `apiVersion`, the preferred one first. All of them have the same fields.
    pub api_versions: &'static [&'static str],
    /// The value of `kind`.
    pub kind: &'static str,
}

impl FileKind {
    /// Reads a file of this kind, YAML or JSON. Duplicate fields are errors.
    ///
    /// # Errors
    /// If it cannot be decoded or is of another kind.
    pub fn read(&self, file: &[u8]) -> Result<Value, ConfigurationError> {
        let (tree, repeated) = yaml::to_json_value_warned(file).map_err(ConfigurationError::undecodable)?;
        self.check(&tree)?;
        if repeated.is_empty() { Ok(tree) } else { Err(ConfigurationError::Undecodable(repeated.join(", "))) }
    }

    /// Checks the kind and version of a decoded file.
    ///
    /// # Errors
    /// If they are others.
    pub fn check(&self, tree: &Value) -> Result<(), ConfigurationError> {
        let text = |field: &str| tree[field].as_str().unwrap_or_default();
        if self.api_versions.contains(&text("apiVersion")) && text("kind") == self.kind {
            return Ok(());
        }
        let preferred = self.api_versions.first().copied().unwrap_or_default();
        Err(ConfigurationError::Kind {
            found: format!("{} {}", text("apiVersion"), text("kind")),
            expected: format!("{preferred} {}", self.kind),
        })
    }
}

/// Removes fields without a value: as in Go, they are absent. Items of lists stay.
pub fn remove_nulls(tree: &mut Value) {
    match tree {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_and_versions_are_checked() {
        const KIND: FileKind = FileKind { api_versions: &["a/v1", "a/v1beta1"], kind: "K" };
        let read = |file: &str| KIND.read(file.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(
            read("{apiVersion: a/v1beta1, kind: K, x: 1}"),
            Ok(json!({"apiVersion": "a/v1beta1", "kind": "K", "x": 1}))
        );
        for (file, expected) in [
            ("{apiVersion: a/v2, kind: K}", "it is a/v2 K, not an a/v1 K"),
            ("{apiVersion: a/v1, kind: L}", "it is a/v1 L, not an a/v1 K"),
            ("[]", "it is  , not an a/v1 K"),
        ] {
            assert_eq!(read(file), Err(expected.to_owned()), "{file}");
        }
        for file in
            ["a: [b", "{apiVersion: a/v1, kind: K, kind: K}", r#"{"apiVersion": "a/v1", "kind": "K", "x": 1, "x": 2}"#]
        {
            assert!(read(file).is_err_and(|error| error.starts_with("it cannot be decoded: ")), "{file}");
        }
    }

    #[test]
    fn error_lists_match_gos() {
        for (errors, expected) in [(&["a"][..], "a"), (&["a", "b"], "[a, b]")] {
            assert_eq!(ConfigurationError::invalid(errors).to_string(), expected);
        }
    }

    #[test]
    fn fields_without_a_value_are_absent() {
        let mut tree = json!({"a": null, "b": {"c": null, "d": [null, {"e": null}]}});
        remove_nulls(&mut tree);
        assert_eq!(tree, json!({"b": {"d": [null, {}]}}));
    }
}
