//! Validation of names, labels, annotations, finalizers and owner references, with upstream's messages.
//!
//! The `is_*` functions return the errors in a text, empty if it is valid.

mod shapes;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use self::shapes::{is_valid_qualified_name, label_shaped, name_shaped, subdomain_shaped};
use crate::field::{self, ErrorList, MAX_ERRORS, Path};

/// Maximum length of a DNS-1123 label, in bytes.
pub const LABEL_MAX: usize = 63;
/// Maximum length of a DNS-1123 subdomain, in bytes.
pub const SUBDOMAIN_MAX: usize = 253;
/// All annotations of an object together: keys and values, in bytes.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;
/// Length of the random suffix of a generated name.
pub const SUFFIX_LENGTH: usize = 5;

const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// How the names of a kind are validated. The flag marks the prefix of a generated name.
pub type NameRule = fn(&str, bool) -> Vec<String>;

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// As newer functions of upstream count.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn complaints(long: Option<usize>, shape: Option<&str>) -> Vec<String> {
    long.map(too_long).into_iter().chain(shape.map(str::to_owned)).collect()
}

/// RFC 1123 label.
///
/// ```
/// use apimachinery::names::is_dns1123_label;
///
/// assert!(is_dns1123_label("web-1").is_empty());
/// assert!(is_dns1123_label("Web_1")[0].starts_with("a lowercase RFC 1123 label must consist of"));
/// ```
pub fn is_dns1123_label(text: &str) -> Vec<String> {
    let shape = match text.as_bytes() {
        label if label_shaped(label) => None,
        subdomain if subdomain_shaped(subdomain) => Some("must not contain dots"),
        _ => Some(LABEL_TEXT),
    };
    complaints((text.len() > LABEL_MAX).then_some(LABEL_MAX), shape)
}

/// RFC 1123 subdomain.
pub fn is_dns1123_subdomain(text: &str) -> Vec<String> {
    let shaped = subdomain_shaped(text.as_bytes());
    complaints((text.len() > SUBDOMAIN_MAX).then_some(SUBDOMAIN_MAX), (!shaped).then_some(SUBDOMAIN_TEXT))
}

/// As [`is_dns1123_subdomain`], where parts may begin with an underscore and contain more: search domains of resolvers.
pub fn is_dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    const TEXT: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let shaped = text.split('.').all(|part| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let inner = |byte: u8| edge(Some(byte)) || matches!(byte, b'-' | b'_');
        edge(part.bytes().next()) && edge(part.bytes().last()) && part.bytes().all(inner)
    });
    complaints((text.len() > SUBDOMAIN_MAX).then_some(SUBDOMAIN_MAX), (!shaped).then_some(TEXT))
}

/// RFC 1035 label: a 1123 label that starts with a letter.
pub fn is_dns1035_label(text: &str) -> Vec<String> {
    let shaped = label_shaped(text.as_bytes()) && text.starts_with(|c: char| c.is_ascii_lowercase());
    complaints((text.len() > LABEL_MAX).then_some(LABEL_MAX), (!shaped).then_some(LABEL_1035_TEXT))
}

/// `[prefix/]name`: keys of labels and annotations, finalizers.
pub fn is_qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if is_valid_qualified_name(text.as_bytes()) {
        return errors;
    }
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let long = (prefix.len() > SUBDOMAIN_MAX).then(|| too_many_bytes(SUBDOMAIN_MAX));
                let shape = (!subdomain_shaped(prefix.as_bytes())).then(|| SUBDOMAIN_TEXT.to_owned());
                errors.extend(long.into_iter().chain(shape).map(|e| format!("prefix part {e}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", too_many_bytes(LABEL_MAX)));
    }
    if !name_shaped(name.as_bytes()) {
        errors.push(format!("name part {QUALIFIED_TEXT}"));
    }
    errors
}

/// The value of a label.
pub fn is_label_value(text: &str) -> Vec<String> {
    let long = (text.len() > LABEL_MAX).then(|| too_many_bytes(LABEL_MAX));
    let shaped = text.is_empty() || name_shaped(text.as_bytes());
    long.into_iter().chain((!shaped).then(|| LABEL_VALUE_TEXT.to_owned())).collect()
}

/// Names that are valid as segments of a URL path.
pub fn is_path_segment(text: &str) -> Vec<String> {
    let whole = match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => Vec::new(),
    };
    whole.into_iter().chain(is_path_segment_prefix(text)).collect()
}

/// [`is_path_segment`] for the start of one.
pub fn is_path_segment_prefix(text: &str) -> Vec<String> {
    ['/', '%']
        .into_iter()
        .filter(|c| text.bytes().any(|byte| char::from(byte) == *c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// A trailing dash is fine in a prefix because a suffix follows it.
fn mask_trailing_dash(text: &str, prefix: bool) -> Cow<'_, str> {
    match text.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => Cow::Owned(format!("{rest}a")),
        _ => Cow::Borrowed(text),
    }
}

/// [`NameRule`] of most kinds.
pub fn subdomain_rule(text: &str, prefix: bool) -> Vec<String> {
    is_dns1123_subdomain(&mask_trailing_dash(text, prefix))
}

/// [`NameRule`] of kinds whose names are labels, such as Namespace.
pub fn label_rule(text: &str, prefix: bool) -> Vec<String> {
    is_dns1123_label(&mask_trailing_dash(text, prefix))
}

/// [`NameRule`] of Service, where names become DNS names of the older standard.
pub fn label_1035_rule(text: &str, prefix: bool) -> Vec<String> {
    is_dns1035_label(&mask_trailing_dash(text, prefix))
}

/// [`NameRule`] of RBAC kinds.
pub fn path_segment_rule(text: &str, prefix: bool) -> Vec<String> {
    if prefix { is_path_segment_prefix(text) } else { is_path_segment(text) }
}

/// `base` and a random `suffix` of [`SUFFIX_LENGTH`], cut so that the result is a label.
pub fn generated_name(base: &str, suffix: &str) -> String {
    let mut end = base.len().min(LABEL_MAX - SUFFIX_LENGTH);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// Labels of an object or of a pod template.
pub fn validate_labels<K: AsRef<str>, V: AsRef<str>>(labels: &BTreeMap<K, V>, path: &Path) -> ErrorList {
    validate_label_pairs(labels.iter().map(|(k, v)| (k.as_ref(), v.as_ref())), || path.clone())
}

/// `path` is built only for errors, here and below: valid metadata, the usual case, allocates nothing.
fn validate_label_pairs<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>, path: impl Fn() -> Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        errors.extend(is_qualified_name(key).into_iter().map(|e| field::Error::invalid(&path(), key, e)));
        // The path does not name the label: upstream's texts are matched by users' tests.
        errors.extend(is_label_value(value).into_iter().map(|e| field::Error::invalid(&path(), value, e)));
    }
    errors
}

/// Keys and total size of annotations. `path` is built only for errors.
pub fn validate_annotation_pairs<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    path: impl Fn() -> Path,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut size = 0usize;
    for (key, value) in pairs {
        if errors.len() < MAX_ERRORS {
            // Annotation keys may be written in upper case where label keys may not.
            let is_lower = key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
            let lower = if is_lower { Cow::Borrowed(key) } else { Cow::Owned(key.to_lowercase()) };
            errors.extend(is_qualified_name(&lower).into_iter().map(|e| field::Error::invalid(&path(), key, e)));
        }
        size = size.saturating_add(key.len()).saturating_add(value.len());
    }
    if size > ANNOTATIONS_MAX {
        errors.push(field::Error::too_long(&path(), ANNOTATIONS_MAX));
    }
    errors
}

/// Annotations of an object.
pub fn validate_annotations<K: AsRef<str>, V: AsRef<str>>(annotations: &BTreeMap<K, V>, path: &Path) -> ErrorList {
    validate_annotation_pairs(annotations.iter().map(|(k, v)| (k.as_ref(), v.as_ref())), || path.clone())
}

/// The finalizers of a core kind: without a prefix they must be standard ones. Other kinds, CustomResourceDefinition
/// among them, may have any qualified name.
pub fn validate_core_finalizers(meta: &Value, path: &Path) -> ErrorList {
    let empty = Map::new();
    let names = items(meta.as_object().unwrap_or(&empty), "finalizers").iter().filter_map(Value::as_str).enumerate();
    let path = path.child("finalizers");
    let errors = names.flat_map(|(position, finalizer)| validate_core_finalizer(finalizer, &path.index(position)));
    errors.take(MAX_ERRORS).collect()
}

fn validate_core_finalizer(finalizer: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(field::Error::invalid(path, finalizer, detail));
    }
    errors
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(meta: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    meta.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn pairs<'a>(meta: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = meta.get(key).and_then(Value::as_object);
    entries.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
}

fn validate_owners(owners: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (mut controller, mut reported) = (None::<String>, false);
    for owner in owners {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        let Some(owner) = owner.as_object() else { continue };
        // As upstream, the path has no index of the owner.
        let at = path;
        let api_version = text(owner, "apiVersion");
        let group_version = api_version.split_once('/').unwrap_or(("", api_version));
        if group_version.1.is_empty() || group_version.1.contains('/') {
            errors.push(field::Error::invalid(&at.child("apiVersion"), api_version, "version must not be empty"));
        }
        for (key, detail) in
            [("kind", "must not be empty"), ("name", "must not be empty"), ("uid", "must not be empty")]
        {
            if text(owner, key).is_empty() {
                errors.push(field::Error::invalid(&at.child(key), "", detail));
            }
        }
        if group_version == ("", "v1") && text(owner, "kind") == "Event" {
            const ORDER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
            let owner = Value::Object(owner.clone());
            let shown = field::in_order(&owner, &ORDER);
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(field::Error::invalid(at, owner, why).shown_as(shown));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            if let Some(first) = controller.as_ref().filter(|_| !reported) {
                // Once is enough: it shows all of them.
                reported = true;
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                let owners = Value::Array(owners.to_vec());
                let order = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
                let shown = field::in_order(&owners, &order);
                errors.push(field::Error::invalid(path, owners, detail).shown_as(shown));
            } else {
                controller.get_or_insert(name);
            }
        }
    }
    errors
}

fn validate_names(meta: &Map<String, Value>, namespaced: bool, rule: NameRule, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (name, base, namespace) = (text(meta, "name"), text(meta, "generateName"), text(meta, "namespace"));
    if !base.is_empty() {
        let at = path.child("generateName");
        errors.extend(rule(base, true).into_iter().map(|e| field::Error::invalid(&at, base, e)));
    }
    // Name generation precedes validation, so generateName alone is not sufficient here.
    if name.is_empty() {
        errors.push(field::Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        errors.extend(rule(name, false).into_iter().map(|e| field::Error::invalid(&path.child("name"), name, e)));
    }
    let at = || path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(field::Error::required(&at(), "")),
        (true, false) => {
            errors.extend(is_dns1123_label(namespace).into_iter().map(|e| field::Error::invalid(&at(), namespace, e)));
        }
        (false, false) => errors.push(field::Error::forbidden(&at(), "not allowed on this type")),
        (false, true) => {}
    }
    errors
}

/// The metadata of an object about to be created. `path` is usually `metadata`.
pub fn validate_object_meta(meta: &Value, namespaced: bool, rule: NameRule, path: &Path) -> ErrorList {
    let empty = Map::new();
    let meta = meta.as_object().unwrap_or(&empty);
    let mut errors = validate_names(meta, namespaced, rule, path);
    if meta.get("generation").and_then(Value::as_i64).is_some_and(|g| g < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(field::Error::invalid(&path.child("generation"), meta["generation"].clone(), detail));
    }
    errors.extend(validate_maps_and_owners(meta, path));
    let finalizers = items(meta, "finalizers").iter().filter_map(Value::as_str);
    let wrong = finalizers.flat_map(|name| is_qualified_name(name).into_iter().map(move |why| (name, why)));
    errors
        .extend(wrong.take(MAX_ERRORS).map(|(name, why)| field::Error::invalid(&path.child("finalizers"), name, why)));
    let finalizers = items(meta, "finalizers");
    if ["orphan", "foregroundDeletion"].iter().all(|name| finalizers.iter().any(|listed| listed == name)) {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(field::Error::invalid(&path.child("finalizers"), finalizers.to_vec(), why));
    }
    errors
}

fn validate_maps_and_owners(meta: &Map<String, Value>, path: &Path) -> ErrorList {
    let mut errors = validate_label_pairs(pairs(meta, "labels"), || path.child("labels"));
    errors.extend(validate_annotation_pairs(pairs(meta, "annotations"), || path.child("annotations")));
    let owners = items(meta, "ownerReferences");
    if !owners.is_empty() {
        errors.extend(validate_owners(owners, &path.child("ownerReferences")));
    }
    errors
}

/// Changes of immutable metadata, and errors in labels, annotations and owners. Immutable server-owned fields that the
/// caller fills in from the stored object pass. Names and finalizers are checked by [`validate_object_meta`].
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &Path) -> ErrorList {
    let mut errors = validate_object_meta_change(new, old, path);
    errors.extend(validate_maps_and_owners(new.as_object().unwrap_or(&Map::new()), path));
    errors
}

/// [`validate_object_meta_update`] of metadata whose labels, annotations and owners are known to be valid.
pub fn validate_object_meta_change(new: &Value, old: &Value, path: &Path) -> ErrorList {
    let empty = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let mut errors = ErrorList::new();
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (was, is) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
        if was != is {
            errors.push(field::Error::invalid(&path.child(key), is.clone(), "field is immutable"));
        }
    }
    let generation = |meta: &Map<String, Value>| meta.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation(new) < generation(old) {
        let detail = "must not be decremented";
        errors.push(field::Error::invalid(&path.child("generation"), generation(new), detail));
    }
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        let known: HashSet<&Value> = items(old, "finalizers").iter().collect();
        let added: Vec<String> =
            items(new, "finalizers").iter().filter(|f| !known.contains(f)).map(ToString::to_string).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(field::Error::forbidden(&path.child("finalizers"), detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_validated() {
        let long = "a".repeat(64);
        type Check = fn(&str) -> Vec<String>;
        let rows: &[(Check, &[&str], &[&str])] = &[
            (is_dns1123_label, &["a", "0-a", "a--b"], &["", "-a", "a-", "A", "a.b", "a_b", &long]),
            (is_dns1123_subdomain, &["a.b-c.0", "a"], &["", "a..b", ".a", "a.", "a:b", "é"]),
            (is_dns1035_label, &["a0", "a-b"], &["0a", "", "a-"]),
            (is_qualified_name, &["a", "A_b.c", "x.y/Z"], &["", "/a", "a/", "a/b/c", "X/a", "-a", &long]),
            (is_label_value, &["", "a", "A.b_c-0"], &["-", "a b", "a/b", &long]),
            (is_path_segment, &["system:node", "a b", "..."], &[".", "..", "a/b", "50%"]),
        ];
        for (check, good, bad) in rows {
            for text in *good {
                assert_eq!(check(text), Vec::<String>::new(), "{text}");
            }
            for text in *bad {
                assert!(!check(text).is_empty(), "{text}");
            }
        }
        assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
        assert!(subdomain_rule("a-", true).is_empty() && !subdomain_rule("a-", false).is_empty());
    }

    #[test]
    fn generated_names_fit_a_label() {
        assert_eq!(generated_name("a-", "bcdfg"), "a-bcdfg");
        assert_eq!(generated_name(&"x".repeat(70), "bcdfg").len(), 63);
        assert!(generated_name(&"é".repeat(40), "bcdfg").len() <= 63);
    }

    #[test]
    fn metadata() {
        let path = Path::new("metadata");
        let errors = |meta: Value| {
            let list = validate_object_meta(&meta, true, subdomain_rule, &path);
            list.iter().map(|e| e.path.to_string() + " " + e.reason()).collect::<Vec<_>>().join("; ")
        };
        for (meta, expected) in [
            (json!({"name": "a", "namespace": "b", "labels": null}), ""),
            (json!({"namespace": "b"}), "metadata.name FieldValueRequired"),
            (json!({"name": "a"}), "metadata.namespace FieldValueRequired"),
            (json!({"name": "a", "namespace": "b", "labels": {"k": "v v"}}), "metadata.labels FieldValueInvalid"),
            (
                json!({"name": "a", "namespace": "b", "annotations": {"k": "v".repeat(ANNOTATIONS_MAX)}}),
                "metadata.annotations FieldValueTooLong",
            ),
            (json!({"name": "a", "namespace": "b", "finalizers": ["x y"]}), "metadata.finalizers FieldValueInvalid"),
            (
                json!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n"}]}),
                "metadata.ownerReferences.uid FieldValueInvalid",
            ),
        ] {
            assert_eq!(errors(meta.clone()), expected, "{meta}");
        }
        let core = |finalizer: &str| validate_core_finalizers(&json!({"finalizers": [finalizer]}), &path).len();
        assert_eq!((core("x"), core("orphan"), core("a/b")), (1, 0, 0));
        let old = json!({"name": "a", "deletionTimestamp": "t", "finalizers": ["a/b"]});
        let new = json!({"name": "a", "deletionTimestamp": "t", "finalizers": ["a/b", "x/y"]});
        let list = validate_object_meta_update(&new, &old, &path);
        assert_eq!(
            list[0].to_string(),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/y\"}"
        );
        assert_eq!(list.len(), 1);
    }
}
