//! Errors of values that the endpoint `scale` could not show: replica counts are 32-bit integers, the selector is text.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go_json::go_type;
use apimachinery::go_print::GoPrint;
use serde_json::Value;

use crate::definition::Scale;

/// `old` is the object before an update: a value from before the definition had this endpoint may stay.
pub(crate) fn errors(scale: &Scale, old: Option<&Value>, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut check = |path: &str, absent: Value, validate: &dyn Fn(&Value) -> Option<(Value, String)>| {
        let found = at(object, path);
        if found == Ok(None) || old.is_some_and(|old| at(old, path) == found) {
            return;
        }
        let wrong = match found {
            Ok(found) => found.and_then(validate),
            Err(why) => Some((absent, why)),
        };
        errors.extend(wrong.map(|(shown, why)| Error::invalid(&Path::new(path), shown, why)));
    };
    for path in [&scale.spec_replicas_path, &scale.status_replicas_path] {
        check(path, 0.into(), &|value| {
            let Some(count) = value.as_i64() else { return Some((0.into(), mistyped(path, value, "int64"))) };
            let why = match count {
                ..0 => "should be a non-negative integer".to_owned(),
                count if count > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
                _ => return None,
            };
            Some((count.into(), why))
        });
    }
    if let Some(path) = scale.label_selector_path.as_deref().filter(|path| !path.is_empty()) {
        check(path, "".into(), &|value| (!value.is_string()).then(|| ("".into(), mistyped(path, value, "string"))));
    }
    errors
}

/// The value at a simple path (`.spec.replicas`), or the error about the first part of it that is not an object.
fn at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let (mut found, mut walked) = (object, String::new());
    for name in path.trim_start_matches('.').split('.') {
        walked = format!("{walked}.{name}");
        found = match found {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(name) {
                Some(member) => member,
                None => return Ok(None),
            },
            other => return Err(mistyped(&walked, other, "map[string]interface{}")),
        };
    }
    Ok(Some(found))
}

/// In the words of upstream's accessors.
fn mistyped(path: &str, value: &Value, expected: &str) -> String {
    let found = go_type(value);
    format!("{path} accessor error: {} is of the type {found}, expected {expected}", GoPrint(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_a_scale_could_not_show_are_errors() {
        let scale = Scale {
            spec_replicas_path: ".spec.part.replicas".into(),
            status_replicas_path: ".status.replicas".into(),
            label_selector_path: Some(".status.selector".into()),
        };
        for (object, expected) in [
            (json!({"spec": {"part": {"replicas": 3}}, "status": {"replicas": 0, "selector": "a=b"}}), &[][..]),
            (json!({"spec": {"part": null}}), &[]),
            (
                json!({"spec": {"part": {"replicas": -1}}}),
                &[".spec.part.replicas: Invalid value: -1: should be a non-negative integer"],
            ),
            (
                json!({"spec": [1, null]}),
                &[
                    ".spec.part.replicas: Invalid value: 0: .spec.part accessor error: [1 <nil>] is of the type []interface {}, expected map[string]interface{}",
                ],
            ),
            (
                json!({"status": {"replicas": {"a": 1e-7}, "selector": 7}}),
                &[
                    ".status.replicas: Invalid value: 0: .status.replicas accessor error: map[a:1e-07] is of the type map[string]interface {}, expected int64",
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: 7 is of the type int64, expected string",
                ],
            ),
            (
                json!({"status": 1.5}),
                &[
                    ".status.replicas: Invalid value: 0: .status.replicas accessor error: 1.5 is of the type float64, expected map[string]interface{}",
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: 1.5 is of the type float64, expected map[string]interface{}",
                ],
            ),
        ] {
            let found: Vec<String> = errors(&scale, None, &object).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{object}");
            assert_eq!(errors(&scale, Some(&object), &object), ErrorList::new(), "unchanged: {object}");
        }
    }
}
