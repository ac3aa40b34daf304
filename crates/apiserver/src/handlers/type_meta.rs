//! Checks the kind and version of a document, as kube-apiserver's decoders do: for a built-in kind they are filled in
//! if absent, a custom resource must contain them.

use apimachinery::field::{Error as FieldError, Path};
use apimachinery::go_json::type_name;
use apimachinery::{GroupVersionKind, Status};
use serde_json::Value;

use super::Call;
use crate::wire::negotiate::go_package;

/// The Go type in the messages of upstream's reader of kind and version.
const READ_INTO: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Why a document is not an object of the resource.
pub(super) enum ObjectMismatch {
    /// Its kind cannot be read.
    Unreadable(String),
    /// A custom resource without a kind.
    Kindless,
    /// Of this kind and version, which cannot be used here.
    Unusable { kind: String, version: String, why: String },
    /// In another version; of a custom resource, also of another group.
    OtherVersion(String),
    /// A custom resource of another kind is one that does not pass validation.
    OtherKind(Status),
}

/// A custom resource without a kind.
pub(super) fn kindless(document: &[u8]) -> String {
    format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(document))
}

impl Call<'_> {
    pub(super) fn mismatch(&self, object: &Value) -> Option<ObjectMismatch> {
        let (kind, api_version) = match type_meta_of(object) {
            Ok(found) => found,
            Err(why) => return Some(ObjectMismatch::Unreadable(why)),
        };
        let (group, version) = match group_version(api_version) {
            Ok(both) => both,
            Err(why) => return Some(ObjectMismatch::Unreadable(why)),
        };
        let sent = GroupVersionKind::new(group, version, kind);
        if self.resource.info.custom { self.custom_mismatch(object, &sent) } else { self.built_in_mismatch(&sent) }
    }

    fn custom_mismatch(&self, object: &Value, sent: &GroupVersionKind) -> Option<ObjectMismatch> {
        let named = &self.resource.info.resource;
        if sent.kind.is_empty() {
            return Some(ObjectMismatch::Kindless);
        }
        if (&sent.group, &sent.version) != (&named.group, &named.version) {
            return Some(ObjectMismatch::OtherVersion(text(object, "apiVersion").to_owned()));
        }
        let is_other = sent.kind != named.kind && !self.takes_only_status();
        is_other.then(|| ObjectMismatch::OtherKind(self.other_type(object)))
    }

    /// Whether the stored kind and version replace those of the document, whatever they are.
    pub(super) fn takes_only_status(&self) -> bool {
        self.resource.info.custom && self.info.subresource == "status"
    }

    /// A custom resource whose kind or version is not that of the URL, which does not pass validation.
    pub(super) fn other_type(&self, object: &Value) -> Status {
        let (kind, api_version) = (text(object, "kind"), text(object, "apiVersion"));
        let expected =
            [("kind", kind, &self.resource.info.resource.kind), ("apiVersion", api_version, &self.api_version)];
        let wrong = expected.into_iter().filter(|(_, sent, expected)| sent != expected);
        let errors: Vec<FieldError> = wrong
            .map(|(field, sent, expected)| FieldError::invalid(&Path::new(field), sent, format!("must be {expected}")))
            .collect();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Status::invalid(group, kind, text(&object["metadata"], "name"), &errors)
    }

    fn built_in_mismatch(&self, sent: &GroupVersionKind) -> Option<ObjectMismatch> {
        let named = &self.resource.info.resource;
        let mut sent = sent.clone();
        if sent.kind.is_empty() {
            sent.kind.clone_from(&named.kind);
        }
        if sent.version.is_empty() && sent.group.is_empty() {
            sent.group.clone_from(&named.group);
        }
        if sent.version.is_empty() && sent.group == named.group {
            sent.version.clone_from(&named.version);
        }
        if sent == GroupVersionKind::new(&named.group, &named.version, &named.kind) {
            return None;
        }
        let slash = if sent.group.is_empty() { "" } else { "/" };
        let api_version = format!("{}{slash}{}", sent.group, sent.version);
        let why = if sent.kind != "List" && kubernetes_api::schema_for(&sent).is_none() {
            format!("no kind {:?} is registered for version {api_version:?}", sent.kind)
        } else if sent.kind != named.kind {
            let into = go_package(&named.group);
            format!("converting ({}.{}) to ({into}.{}): unknown conversion", sent.version, sent.kind, named.kind)
        } else {
            return Some(ObjectMismatch::OtherVersion(api_version));
        };
        Some(ObjectMismatch::Unusable { kind: sent.kind, version: sent.version, why })
    }

    /// Fills in the resource's kind and version if absent, and metadata.
    pub(super) fn stamp(&self, object: &mut Value) {
        if object.is_null() {
            *object = Value::Object(Default::default());
        }
        let Some(map) = object.as_object_mut() else { return };
        let named = &self.resource.info.resource;
        for (name, value) in [("kind", named.kind.as_str()), ("apiVersion", self.api_version.as_str())] {
            if map.get(name).and_then(Value::as_str) != Some(value) {
                map.insert(name.into(), value.into());
            }
        }
        if map.get("metadata").is_none_or(Value::is_null) {
            map.insert("metadata".into(), Value::Object(Default::default()));
        }
    }

    /// The same kind in another version than the URL's.
    pub(super) fn other_version(&self, sent: &str) -> Status {
        Status::bad_request(format!(
            "the API version in the data ({sent}) does not match the expected API version ({})",
            self.resource.info.resource.api_version()
        ))
    }
}

/// Whether a body of options has their kind, if any, and a version.
pub(super) fn check_options(document: &Value, kind: &str) -> Result<(), String> {
    let (sent, api_version) = type_meta_of(document)?;
    group_version(api_version)?;
    let is_kind = sent.is_empty() || sent == kind;
    is_kind.then_some(()).ok_or_else(|| format!("no kind {sent:?} is registered for version {api_version:?}"))
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// Kind and apiVersion of the document, empty if absent.
fn type_meta_of(object: &Value) -> Result<(&str, &str), String> {
    let wrong = |found: &Value, what: &str| {
        let found = type_name(found);
        format!("couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go {what}")
    };
    if !matches!(object, Value::Object(_) | Value::Null) {
        return Err(wrong(object, &format!("value of type {READ_INTO}")));
    }
    let text = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(wrong(other, &format!("struct field .{key} of type string"))),
    };
    let api_version = text("apiVersion")?;
    Ok((text("kind")?, api_version))
}

fn group_version(api_version: &str) -> Result<(&str, &str), String> {
    let mut parts = api_version.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(version), None) => Ok((group, version)),
        (Some(version), None, _) => Ok(("", version)),
        _ => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}
