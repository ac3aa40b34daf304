//! Server-side apply in members: an addition to Karmada, enabled by an annotation of the policy. The annotation's
//! values, and the fields of a manifest that are left to their owners in the member. The caller sends the requests.

use std::collections::BTreeMap;

use apimachinery::meta::Condition;
use apimachinery::status::StatusCause;
use serde_json::Value;

/// On a policy; its bindings and Works carry it along.
pub const ANNOTATION: &str = "karmada-rs.io/apply";

/// The condition of a Work that reports whether all fields of its manifests are applied.
pub const CONDITION: &str = "karmada-rs.io/AllFieldsApplied";

/// The field manager of applies, in the members' `managedFields`. Writes without server-side apply have the same name.
pub const MANAGER: &str = "karmada";

/// The modes of the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `server-side`: fields that others in the member own stay theirs.
    Yield,
    /// `server-side-force`: takes over fields that others own.
    Force,
}

impl Mode {
    /// An unknown value means no server-side apply.
    pub fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        match annotations.get(ANNOTATION)?.as_str() {
            "server-side" => Some(Self::Yield),
            "server-side-force" => Some(Self::Force),
            _ => None,
        }
    }
}

/// Copies the annotation from `from` to `to`, or removes it.
pub fn carry(from: &BTreeMap<String, String>, to: &mut BTreeMap<String, String>) {
    match from.get(ANNOTATION) {
        Some(value) => drop(to.insert(ANNOTATION.to_owned(), value.clone())),
        None => drop(to.remove(ANNOTATION)),
    }
}

/// Removes the fields that others own from a manifest, and returns each with its owner. Fields that we own from writes
/// before server-side apply stay.
///
/// # Errors
/// Names a field that cannot be omitted, such as an item of an atomic list.
pub fn yield_fields(manifest: &mut Value, conflicts: &[StatusCause]) -> Result<Vec<String>, String> {
    let mut yielded = Vec::new();
    for conflict in conflicts.iter().filter(|conflict| owner(&conflict.message) != Some(MANAGER)) {
        if !leave_out(manifest, &conflict.field) {
            return Err(format!("{}: {}", conflict.field, conflict.message));
        }
        yielded.push(format!("{} ({})", conflict.field, owner(&conflict.message).unwrap_or(&conflict.message)));
    }
    Ok(yielded)
}

/// The manager in `conflict with "NAME" using apps/v1`.
fn owner(message: &str) -> Option<&str> {
    message.split('"').nth(1)
}

/// Removes the field at a path such as `.spec.containers[name="c"].image`. False if it does not exist.
fn leave_out(tree: &mut Value, path: &str) -> bool {
    if let Some(rest) = path.strip_prefix('.') {
        let Some(map) = tree.as_object_mut() else { return false };
        // Names may contain dots, so the existing keys decide where one ends; the longest is tried first.
        let ends =
            |name: &str| rest.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let Some(name) = map.keys().filter(|name| ends(name)).max_by_key(|name| name.len()).cloned() else {
            return false;
        };
        let rest = &rest[name.len()..];
        return if rest.is_empty() { map.remove(&name).is_some() } else { leave_out(&mut map[&name], rest) };
    }
    let Some((item, rest)) = path.strip_prefix('[').and_then(bracket) else { return false };
    let Some(list) = tree.as_array_mut() else { return false };
    let Some(place) = list.iter().position(|value| is_meant(value, item)) else { return false };
    if rest.is_empty() {
        list.remove(place);
        return true;
    }
    leave_out(&mut list[place], rest)
}

/// The text before the closing bracket, and the text after it.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b']' if !quoted => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// Whether an item of a list has these keys (`a="x",b=1`), or is this value (`="x"`).
fn is_meant(value: &Value, item: &str) -> bool {
    if let Some(text) = item.strip_prefix('=') {
        return serde_json::from_str::<Value>(text).is_ok_and(|parsed| *value == parsed);
    }
    let mut rest = item;
    while !rest.is_empty() {
        let Some((key, after)) = rest.split_once('=') else { return false };
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let Some(Ok(parsed)) = values.next() else { return false };
        if value[key] != parsed {
            return false;
        }
        rest = after[values.byte_offset()..].trim_start_matches(',');
    }
    !item.is_empty()
}

/// Whether all fields are applied, and the fields left to others; `yielded` names the object with each field.
pub fn condition(yielded: &[String], generation: i64) -> Condition {
    let (status, reason, message) = if yielded.is_empty() {
        ("True", "AllFieldsApplied", "Every field of the manifests is in force".to_owned())
    } else {
        ("False", "FieldsOwnedByOthers", format!("Left to others in the member cluster: {}", yielded.join(", ")))
    };
    Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cause(field: &str, manager: &str) -> StatusCause {
        StatusCause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with \"{manager}\" using apps/v1"),
            field: field.into(),
        }
    }

    #[test]
    fn fields_owned_by_others_are_omitted() {
        let manifest = json!({
            "metadata": {"labels": {"app": "1", "app.kubernetes.io/name": "2", "finalizers": "3"}, "finalizers": ["a", "b]"]},
            "spec": {"replicas": 1, "ports": [{"port": 80, "protocol": "TCP", "x": 1}, {"port": 80, "protocol": "UDP", "x": 2}],
                "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}], "args": ["x", "y"]},
        });
        for (field, pointer, left) in [
            (".spec.replicas", "/spec/replicas", None),
            (
                ".metadata.labels.app.kubernetes.io/name",
                "/metadata/labels",
                Some(json!({"app": "1", "finalizers": "3"})),
            ),
            (".metadata.finalizers[=\"b]\"]", "/metadata/finalizers", Some(json!(["a"]))),
            (".spec.containers[name=\"b\"].image", "/spec/containers/1", Some(json!({"name": "b"}))),
            (
                ".spec.ports[port=80,protocol=\"UDP\"]",
                "/spec/ports",
                Some(json!([{"port": 80, "protocol": "TCP", "x": 1}])),
            ),
        ] {
            let mut rest = manifest.clone();
            let yielded = yield_fields(&mut rest, &[cause(field, "hpa")]).unwrap();
            assert_eq!(yielded, [format!("{field} (hpa)")]);
            assert_eq!(rest.pointer(pointer).cloned(), left, "{field}");
        }
    }

    #[test]
    fn required_fields_fail_and_own_fields_do_not_conflict() {
        let mut manifest = json!({"spec": {"args": ["x"], "replicas": 1}});
        for field in [".spec.args[0]", ".spec.none", ".spec.args[", "spec", "", "[name=]", ".spec[a=1]"] {
            assert!(yield_fields(&mut manifest, &[cause(field, "hpa")]).is_err(), "{field}");
        }
        assert_eq!(yield_fields(&mut manifest, &[cause(".spec.replicas", MANAGER)]), Ok(Vec::new()));
        assert_eq!(manifest, json!({"spec": {"args": ["x"], "replicas": 1}}));
    }

    #[test]
    fn modes_are_copied_and_removed() {
        let annotated = |value: &str| BTreeMap::from([(ANNOTATION.to_owned(), value.to_owned())]);
        assert_eq!(Mode::of(&annotated("server-side")), Some(Mode::Yield));
        assert_eq!(Mode::of(&annotated("server-side-force")), Some(Mode::Force));
        assert_eq!((Mode::of(&annotated("client")), Mode::of(&BTreeMap::new())), (None, None));
        let mut to = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        carry(&annotated("server-side"), &mut to);
        assert_eq!(Mode::of(&to), Some(Mode::Yield));
        carry(&BTreeMap::new(), &mut to);
        assert_eq!(to.len(), 1);
    }

    #[test]
    fn the_condition_names_the_omitted_fields() {
        assert_eq!(condition(&[], 3).status, "True");
        let left = condition(&["Deployment ns/a .spec.replicas (hpa)".to_owned()], 3);
        assert_eq!((left.status.as_str(), left.observed_generation), ("False", Some(3)));
        assert!(left.message.ends_with(": Deployment ns/a .spec.replicas (hpa)"));
    }
}
