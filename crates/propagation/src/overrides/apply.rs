//! The overriders of one rule, in their fixed order.

use apimachinery::{json_patch, yaml};
use karmada_api::policy::v1alpha1::{
    CommandArgsOverrider, ContainerOperator, FieldOverrider, FieldPatchOperation, LabelAnnotationOverrider,
    OverriderOperator, Overriders, PlaintextOverrider,
};
use serde_json::{Value, json};

use super::ordered::{self, Node};
use super::{OverrideError, image};

/// Kinds whose containers are known, and where.
pub(super) fn containers_path(object: &Value) -> Option<&'static str> {
    match object["kind"].as_str()? {
        "Pod" => Some("/spec/containers"),
        "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => Some("/spec/template/spec/containers"),
        _ => None,
    }
}

/// Applies image, command, args, labels, annotations, field and plaintext overriders.
///
/// # Errors
/// The first overrider that fails; the object may then be partly changed.
pub fn apply_overriders(overriders: &Overriders, object: &mut Value) -> Result<(), OverrideError> {
    for overrider in &overriders.image_overrider {
        image::apply(overrider, object)?;
    }
    for overrider in &overriders.command_overrider {
        words(overrider, "command", object);
    }
    for overrider in &overriders.args_overrider {
        words(overrider, "args", object);
    }
    for overrider in &overriders.labels_overrider {
        metadata(overrider, "labels", object);
    }
    for overrider in &overriders.annotations_overrider {
        metadata(overrider, "annotations", object);
    }
    for overrider in &overriders.field_overrider {
        field(overrider, object)?;
    }
    plaintext(&overriders.plaintext, object)?;
    if object["kind"].as_str().is_none_or(str::is_empty) {
        return Err(OverrideError::NoKind);
    }
    Ok(())
}

/// Command and arguments of the containers with a name.
fn words(overrider: &CommandArgsOverrider, field: &str, object: &mut Value) {
    let containers = containers_path(object).and_then(|path| object.pointer_mut(path)).and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if container["name"] != overrider.container_name.as_str() {
            continue;
        }
        let mut list: Vec<String> = container[field].as_array().into_iter().flatten().map(word).collect();
        match overrider.operator {
            ContainerOperator::Add => list.extend(overrider.value.iter().cloned()),
            ContainerOperator::Remove => list.retain(|word| !overrider.value.contains(word)),
        }
        container[field] = json!(list);
    }
}

/// A word of a command line, which a careless template may have written as a number or a boolean.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn metadata(overrider: &LabelAnnotationOverrider, field: &str, object: &mut Value) {
    match overrider.operator {
        OverriderOperator::Add => {
            let map = karmada_api::manifest::metadata_map(object, field);
            map.extend(overrider.value.iter().map(|(key, value)| (key.clone(), json!(value))));
        }
        OverriderOperator::Replace | OverriderOperator::Remove => {
            let map = object.get_mut("metadata").and_then(|meta| meta.get_mut(field)).and_then(Value::as_object_mut);
            let Some(map) = map else { return };
            for (key, value) in &overrider.value {
                if !map.contains_key(key) {
                    continue;
                }
                if overrider.operator == OverriderOperator::Remove {
                    map.remove(key);
                } else {
                    map.insert(key.clone(), json!(value));
                }
            }
        }
    }
}

/// A change inside a string that holds a JSON or YAML document. YAML loses its comments and the order of its keys.
fn field(overrider: &FieldOverrider, object: &mut Value) -> Result<(), OverrideError> {
    let path = &overrider.field_path;
    let fail = |detail: String| OverrideError::Field { path: path.clone(), detail };
    let Some(Value::String(text)) = object.pointer_mut(path) else {
        return Err(fail("there is no string at this path".to_owned()));
    };
    if !overrider.yaml.is_empty() {
        let document = yaml::to_json_value(text.as_bytes()).map_err(|error| fail(error.to_string()))?;
        *text = yaml::to_string(&patched(document, &overrider.yaml)?);
    } else if !overrider.json.is_empty() {
        // Upstream's library leaves an empty document as it is.
        if text.is_empty() {
            return Ok(());
        }
        let mut document = Node::parse(text).map_err(fail)?;
        for operation in &overrider.json {
            change(&mut document, operation)?;
        }
        *text = document.print();
    } else {
        text.clear();
    }
    Ok(())
}

fn change(document: &mut Node, operation: &FieldPatchOperation) -> Result<(), OverrideError> {
    let FieldPatchOperation { operator, sub_path: path, value } = operation;
    let value = || Node::of(value.as_ref().unwrap_or(&Value::Null));
    let (name, done) = match operator {
        OverriderOperator::Add => ("add", value().and_then(|value| document.add(path, value))),
        OverriderOperator::Replace => ("replace", value().and_then(|value| document.replace(path, value))),
        OverriderOperator::Remove => ("remove", document.remove(path)),
    };
    done.map_err(|detail| OverrideError::Patch { operation: name, path: path.clone(), detail })
}

fn patched(mut document: Value, operations: &[FieldPatchOperation]) -> Result<Value, OverrideError> {
    for FieldPatchOperation { operator, sub_path, value } in operations {
        patch(*operator, sub_path, value.as_ref(), &mut document)?;
    }
    Ok(document)
}

fn plaintext(overriders: &[PlaintextOverrider], object: &mut Value) -> Result<(), OverrideError> {
    for PlaintextOverrider { operator, path, value } in overriders {
        patch(*operator, path, value.as_ref(), object)?;
    }
    Ok(())
}

/// One operation of RFC 6902. Unlike the API server's patches, `replace` demands a target.
fn patch(
    operator: OverriderOperator,
    path: &str,
    value: Option<&Value>,
    target: &mut Value,
) -> Result<(), OverrideError> {
    let operation = match operator {
        OverriderOperator::Add => "add",
        OverriderOperator::Remove => "remove",
        OverriderOperator::Replace => "replace",
    };
    let fail = |detail: String| OverrideError::Patch { operation, path: path.to_owned(), detail };
    if !path.is_empty() && !path.starts_with('/') {
        return Err(fail(format!("a path begins with '/': /{path}")));
    }
    if path.is_empty() && operator != OverriderOperator::Remove {
        *target = value.cloned().unwrap_or_default();
        return Ok(());
    }
    let (settled, exists) = settled(target, path, operator == OverriderOperator::Add);
    if operator == OverriderOperator::Replace && !exists {
        return Err(fail(format!("replace operation does not apply: doc is missing key: {path}: missing value")));
    }
    let value = value.cloned().unwrap_or_default();
    let document = json!([{ "op": operation, "path": settled, "value": value }]);
    let patch = json_patch::from_value(&document).map_err(|error| fail(error.to_string()))?;
    patch.apply(target).map_err(|error| fail(error.to_string()))
}

/// The path with indexes from the start of a list instead of negative ones, which count from its end; and whether it
/// leads to something. `inserting`: the last index may be one past the end.
fn settled(target: &Value, path: &str, inserting: bool) -> (String, bool) {
    let Some(rest) = path.strip_prefix('/') else { return (path.to_owned(), path.is_empty()) };
    let (mut place, mut settled) = (Some(target), String::new());
    let last = rest.split('/').count() - 1;
    for (at, token) in rest.split('/').enumerate() {
        settled.push('/');
        let list = place.and_then(Value::as_array).filter(|_| token.starts_with('-'));
        let length = list.map_or(0, |list| list.len() + usize::from(inserting && at == last));
        match ordered::index(token, length) {
            Some(index) => settled += &index.to_string(),
            None => settled += token,
        }
        let own = settled.rsplit('/').next().unwrap_or_default();
        place = match place {
            Some(Value::Object(map)) => map.get(&own.replace("~1", "/").replace("~0", "~")),
            Some(Value::Array(list)) => own.parse().ok().and_then(|at: usize| list.get(at)),
            _ => None,
        };
    }
    (settled, place.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(overriders: Value, before: Value, after: Value) {
        let overriders: Overriders = serde_json::from_value(overriders).unwrap();
        let mut object = before;
        apply_overriders(&overriders, &mut object).unwrap();
        assert_eq!(object, after);
    }

    #[test]
    fn each_kind_of_override() {
        let pod = |container: Value| json!({"kind": "Pod", "spec": {"containers": [container]}});
        check(
            json!({"commandOverrider": [{"containerName": "a", "operator": "add", "value": ["x"]}], "argsOverrider": [{"containerName": "a", "operator": "remove", "value": ["1"]}]}),
            pod(json!({"name": "a", "args": ["1", "2"]})),
            pod(json!({"name": "a", "args": ["2"], "command": ["x"]})),
        );
        check(
            json!({"labelsOverrider": [
                {"operator": "add", "value": {"foo": "bar"}},
                {"operator": "replace", "value": {"a": "2", "absent": "1"}},
                {"operator": "remove", "value": {"b": "whatever", "absent": "1"}},
            ]}),
            json!({"kind": "X", "metadata": {"labels": {"a": "1", "b": "1"}}}),
            json!({"kind": "X", "metadata": {"labels": {"a": "2", "foo": "bar"}}}),
        );
        check(
            json!({"fieldOverrider": [{"fieldPath": "/data/c.json", "json": [{"subPath": "/a", "operator": "replace", "value": 2}, {"subPath": "/l/-", "operator": "add", "value": "<"}]}]}),
            json!({"kind": "ConfigMap", "data": {"c.json": "{\"l\": [], \"a\": 1}"}}),
            json!({"kind": "ConfigMap", "data": {"c.json": "{\"l\":[\"\\u003c\"],\"a\":2}"}}),
        );
        let operation = json!({"subPath": "/a", "operator": "replace", "value": 2});
        check(
            json!({"fieldOverrider": [{"fieldPath": "/data/empty", "json": [operation]}]}),
            json!({"kind": "ConfigMap", "data": {"empty": ""}}),
            json!({"kind": "ConfigMap", "data": {"empty": ""}}),
        );
        check(
            json!({"fieldOverrider": [{"fieldPath": "/data/c.yaml", "yaml": [{"subPath": "/b/0", "operator": "remove"}, {"subPath": "/a", "operator": "add", "value": "yes"}]}]}),
            json!({"kind": "ConfigMap", "data": {"c.yaml": "b: [1, 2] # two\n"}}),
            json!({"kind": "ConfigMap", "data": {"c.yaml": "a: \"yes\"\nb:\n- 2\n"}}),
        );
        check(
            json!({"plaintext": [{"path": "/metadata/labels", "operator": "add", "value": {}}, {"path": "/metadata/labels/a~1b", "operator": "add", "value": "c"}]}),
            json!({"kind": "X", "metadata": {}}),
            json!({"kind": "X", "metadata": {"labels": {"a/b": "c"}}}),
        );
    }

    #[test]
    fn edge_cases_of_paths() {
        let list = |list: Value| json!({"kind": "X", "l": list});
        for (operator, path, value, expected) in [
            ("add", "/l/-", json!(3), json!([1, 2, 3])),
            ("add", "/l/-1", json!(3), json!([1, 2, 3])),
            ("add", "/l/0", json!(3), json!([3, 1, 2])),
            ("replace", "/l/-1", json!(3), json!([1, 3])),
            ("replace", "/l/-2", json!(3), json!([3, 2])),
            ("remove", "/l/-1", json!(null), json!([1])),
        ] {
            let overriders = json!({"plaintext": [{"path": path, "operator": operator, "value": value}]});
            check(overriders, list(json!([1, 2])), list(expected));
        }
        let pod = |container: Value| json!({"kind": "Pod", "spec": {"containers": [container]}});
        for (operator, before, after) in [
            ("add", json!([1, true, "x"]), json!(["1", "true", "x", "1"])),
            ("remove", json!([1, true, "x"]), json!(["true", "x"])),
            ("remove", json!(null), json!([])),
        ] {
            check(
                json!({"argsOverrider": [{"containerName": "a", "operator": operator, "value": ["1"]}]}),
                pod(json!({"name": "a", "args": before})),
                pod(json!({"name": "a", "args": after})),
            );
        }
        // Escapes of a pointer are decoded where an image is read, too.
        check(
            json!({"imageOverrider": [{"predicate": {"path": "/spec/a~1b"}, "component": "Tag", "operator": "replace", "value": "2"}]}),
            json!({"kind": "X", "spec": {"a/b": "nginx:1"}}),
            json!({"kind": "X", "spec": {"a/b": "nginx:2"}}),
        );
    }

    #[test]
    fn the_empty_path_is_the_whole_document() {
        for operator in ["add", "replace"] {
            for (field, document) in [("json", r#"{"a":[1]}"#), ("yaml", "a:\n- 1\n")] {
                let operation = json!({"subPath": "", "operator": operator, "value": {"a": [1]}});
                let mut overrider = json!({"fieldPath": "/data/c"});
                overrider[field] = json!([operation]);
                let config = |text: &str| json!({"kind": "ConfigMap", "data": {"c": text}});
                check(json!({"fieldOverrider": [overrider]}), config("{}"), config(document));
            }
            let object = json!({"kind": "X", "spec": 1});
            let overriders = json!({"plaintext": [{"path": "", "operator": operator, "value": object}]});
            check(overriders, json!({"kind": "X", "status": 1}), object);
        }
    }

    #[test]
    fn a_path_without_its_slash_is_named() {
        for operator in ["add", "replace", "remove"] {
            let overriders = json!({"plaintext": [{"path": "spec/replicas", "operator": operator, "value": 3}]});
            let overriders: Overriders = serde_json::from_value(overriders).unwrap();
            let mut object = json!({"kind": "Deployment", "spec": {"replicas": 1}});
            let error = apply_overriders(&overriders, &mut object).unwrap_err().to_string();
            assert_eq!(error, format!("{operator} spec/replicas: a path begins with '/': /spec/replicas"));
        }
    }

    #[test]
    fn inapplicable_overrides_fail() {
        for overriders in [
            json!({"plaintext": [{"path": "/absent", "operator": "replace", "value": 1}]}),
            json!({"plaintext": [{"path": "/absent", "operator": "remove"}]}),
            json!({"plaintext": [{"path": "/absent/child", "operator": "add", "value": 1}]}),
            json!({"plaintext": [{"path": "/kind", "operator": "remove"}]}),
            json!({"fieldOverrider": [{"fieldPath": "/absent", "json": [{"subPath": "/a", "operator": "remove"}]}]}),
            json!({"imageOverrider": [{"predicate": {"path": "/spec/image"}, "component": "Tag", "operator": "remove"}]}),
            json!({"plaintext": [{"path": "/l/-3", "operator": "replace", "value": 1}]}),
            json!({"plaintext": [{"path": "/l/2", "operator": "remove"}]}),
        ] {
            let parsed: Overriders = serde_json::from_value(overriders.clone()).unwrap();
            assert!(apply_overriders(&parsed, &mut json!({"kind": "X", "l": [1, 2]})).is_err(), "{overriders}");
        }
        // A container without an image is not changed.
        let image = json!({"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "1"}]});
        let image: Overriders = serde_json::from_value(image).unwrap();
        let mut pod = json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}});
        assert!(apply_overriders(&image, &mut pod).is_err());
    }

    #[test]
    fn only_containers_of_that_name() {
        let pod = |args: [Value; 2]| {
            let [a, b] = args;
            json!({"kind": "Pod", "spec": {"containers": [{"name": "a", "args": a}, {"name": "b", "args": b}]}})
        };
        check(
            json!({"argsOverrider": [{"containerName": "b", "operator": "add", "value": ["x"]}]}),
            pod([json!(["1"]), json!(["2"])]),
            pod([json!(["1"]), json!(["2", "x"])]),
        );
    }
}
