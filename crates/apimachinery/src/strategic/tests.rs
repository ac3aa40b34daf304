//! Directives and list strategies. Expectations follow a kube-apiserver 1.36.

use serde_json::{Value, json};

use super::*;
use crate::test_schemas::deployment;

fn pod(containers: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

fn run(live: &Value, patch: &Value) -> Result<Value, PatchError> {
    let mut result = live.clone();
    apply(&mut result, patch, &deployment()).map(|()| result)
}

#[test]
fn patches() {
    let named = |names: &str| pod(names.split_whitespace().map(|n| json!({"name": n})).collect());
    let spec = |key: &str, value: Value| json!({"spec": {"template": {"spec": {key: value}}}});
    let rows = [
        // Maps and scalars.
        (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null, "d": 3}}), json!({"a": {"c": 2, "d": 3}})),
        (json!({"a": {"b": 1}}), json!({"a": {"c": 2, "$patch": "replace"}}), json!({"a": {"c": 2}})),
        (json!({"a": {"b": 1}}), json!({"a": {"$patch": "delete"}}), json!({"a": {}})),
        (json!({}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
        (json!({"x": [1, 2]}), json!({"x": [3]}), json!({"x": [3]})),
        // Lists by key: additions of the patch precede the items only in the live list.
        (
            pod(json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}])),
            pod(json!([{"name": "a", "image": "2", "args": ["y"]}, {"name": "c"}])),
            pod(json!([{"name": "a", "image": "2", "args": ["y"]}, {"name": "c"}, {"name": "b"}])),
        ),
        (named("a b c"), pod(json!([{"name": "b", "$patch": "delete"}])), named("a c")),
        (named("a b"), pod(json!([{"$patch": "replace"}, {"name": "z"}])), named("z")),
        (json!({}), pod(json!([{"name": "b", "$patch": "delete"}, {"name": "a"}])), named("a")),
        // Ports merge by containerPort alone: the first of two equal ports takes the change.
        (
            pod(
                json!([{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]}]),
            ),
            pod(json!([{"name": "a", "ports": [{"containerPort": 80, "name": "n"}]}])),
            pod(
                json!([{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "n"}, {"containerPort": 80, "protocol": "UDP"}]}]),
            ),
        ),
        // Sets of primitives.
        (
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b", "a"], "$setElementOrder/finalizers": ["b", "a"]}}),
            json!({"metadata": {"finalizers": ["b", "a"]}}),
        ),
        (
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        // Keys of unions.
        (
            spec("volumes", json!([{"name": "v", "emptyDir": {}}])),
            spec("volumes", json!([{"name": "v", "configMap": {"name": "c"}, "$retainKeys": ["name", "configMap"]}])),
            spec("volumes", json!([{"name": "v", "configMap": {"name": "c"}}])),
        ),
        (
            spec("volumes", json!([{"name": "v", "emptyDir": {}}])),
            spec(
                "volumes",
                json!([{"name": "v", "emptyDir": null, "configMap": {"name": "c"},
                "$retainKeys": ["configMap", "name"]}]),
            ),
            spec("volumes", json!([{"name": "v", "configMap": {"name": "c"}}])),
        ),
        (
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
    ];
    for (live, patch, expected) in rows {
        assert_eq!(run(&live, &patch), Ok(expected), "{live} + {patch}");
    }
}

#[test]
fn element_order() {
    let list = |names: &str| -> Vec<Value> { names.split_whitespace().map(|n| json!({"name": n})).collect() };
    for (live, patch, order, expected) in [
        ("a b", "", "b a", Some("b a")),
        ("a b c", "d", "d a", Some("d a b c")),
        ("a b c", "c", "c a", Some("b c a")),
        ("x a y b", "", "b a", Some("x y b a")),
        ("a b", "b a", "a b", None),
        ("a", "q", "a", None),
    ] {
        let mut document = pod(list(patch).into());
        let spec = &mut document["spec"]["template"]["spec"];
        spec["$setElementOrder/containers"] = list(order).into();
        if patch.is_empty() {
            spec.as_object_mut().expect("a map").remove("containers");
        }
        let result = run(&pod(list(live).into()), &document);
        let expected = expected.map(|names| pod(list(names).into()));
        assert_eq!(result.ok(), expected, "{live} + {patch} in the order {order}");
    }
    // The order of a list that is replaced is checked as well.
    let args = |args: Value| pod(json!([{"name": "a", "args": args, "$setElementOrder/args": ["y", "z"]}]));
    let live = pod(json!([{"name": "a", "args": ["x"]}]));
    assert_eq!(run(&live, &args(json!(["y", "z"]))), Ok(pod(json!([{"name": "a", "args": ["y", "z"]}]))));
    let why = "The order in patch list:\n[z y]\n doesn't match $setElementOrder list:\n[y z]\n";
    assert_eq!(run(&live, &args(json!(["z", "y"]))).map_err(|e| e.to_string()), Err(why.to_owned()));
}

#[test]
fn refused_patches() {
    let live = json!({"data": {}, "spec": {"strategy": {}, "template": {"spec": {"containers": []}}}});
    for (patch, expected) in [
        (json!({"data": {"$patch": "frob"}}), "unknown patch type: frob in map: map[$patch:frob]"),
        (json!({"data": {"$patch": "merge", "s": "1"}}), "unknown patch type: merge in map: map[$patch:merge s:1]"),
        (pod(json!([{"image": "x"}])), "map: map[image:x] does not contain declared merge key: name"),
        (
            pod(json!([{"image": "x", "$patch": "delete"}])),
            "map: map[$patch:delete image:x] does not contain declared merge key: name",
        ),
        (pod(json!([{"name": "x", "$patch": "merge"}])), "merging lists cannot yet be specified in the patch"),
        (pod(json!(["x"])), "expected a map[string]interface {}, but received a string"),
        (json!({"spec": {"strategy": {"type": "R", "$retainKeys": []}}}), "invalid patch format of retainKeys"),
        (json!([]), "error decoding patch: a strategic merge patch is an object"),
    ] {
        assert_eq!(run(&live, &patch).map_err(|e| e.to_string()), Err(expected.to_owned()), "{patch}");
    }
}

/// Lists with items of several types, directives without a list, and orders with missing or additional items.
#[test]
fn refused_lists() {
    let named = |names: &str| -> Value { names.split_whitespace().map(|n| json!({"name": n})).collect() };
    let live = json!({"metadata": {"name": "a", "finalizers": ["a", "b"]},
        "spec": {"template": {"spec": {"containers": named("a b")}}}});
    let meta = |key: &str, value: Value| json!({"metadata": {key: value}});
    let spec = |key: &str, value: Value| json!({"spec": {"template": {"spec": {key: value}}}});
    let both = |list: Value, order: Value| json!({"spec": {"template": {"spec": {"containers": list, "$setElementOrder/containers": order}}}});
    for (patch, expected) in [
        (spec("containers", json!(["x"])), "list element types are not identical: [[map[name:a] map[name:b]] [x]]"),
        (meta("finalizers", json!([1])), "list element types are not identical: [[a b] [1]]"),
        (meta("$deleteFromPrimitiveList/finalizers", json!([1])), "list element types are not identical: [[a b] [1]]"),
        (meta("$deleteFromPrimitiveList", json!(["a"])), "invalid patch format of primitive list"),
        (meta("$deleteFromPrimitiveListfinalizers", json!(["a"])), "invalid patch format of primitive list"),
        (meta("$setElementOrder", json!(["a"])), "invalid patch format of setElementOrder list"),
        (meta("$setElementOrder/finalizers", json!("a")), "expected a []interface {}, but received a string"),
        (meta("$setElementOrder/name", json!(["a"])), "expected a []interface {}, but received a string"),
        (both(json!({}), json!([])), "expected a []interface {}, but received a map[string]interface {}"),
        (both(json!(null), json!([])), "expected a []interface {}, but received a %!s(<nil>)"),
        (both(named("a"), json!(["a"])), "expected a map[string]interface {}, but received a string"),
        (both(named("a"), json!([{"x": 1}])), "map: map[x:1] does not contain declared merge key: name"),
        (
            both(named("b a"), named("a b")),
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n\
             [map[name:a] map[name:b]]\n",
        ),
        (
            meta("$setElementOrder/bogus", json!(["a"])),
            "unable to find api field in struct ObjectMeta for the json field \"bogus\"",
        ),
    ] {
        assert_eq!(run(&live, &patch).map_err(|e| e.to_string()), Err(expected.to_owned()), "{patch}");
    }
    for (patch, finalizers, containers) in [
        (meta("$deleteFromPrimitiveList/finalizers", json!(null)), json!(null), "a b"),
        (meta("$deleteFromPrimitiveList/finalizers", json!("a")), json!(["a", "b"]), "a b"),
        (meta("$deleteFromPrimitiveList/labels", json!(["a"])), json!(["a", "b"]), "a b"),
        (both(named("c"), json!([])), json!(["a", "b"]), "a b c"),
        (both(json!([]), named("b a")), json!(["a", "b"]), "b a"),
    ] {
        let result = run(&live, &patch).expect("fine");
        assert_eq!(result["metadata"]["finalizers"], finalizers, "{patch}");
        assert_eq!(result["spec"]["template"]["spec"]["containers"], named(containers), "{patch}");
    }
}

/// A value without a counterpart is taken without nulls and `$patch` directives.
#[test]
fn patches_of_absent_values() {
    for (live, patch, expected) in [
        (json!({}), json!({"data": {"$patch": "frob"}}), json!({})),
        (json!({}), json!({"data": {"$patch": "replace", "a": "b"}}), json!({})),
        (json!({"data": 1}), json!({"data": {"$patch": "delete"}}), json!({})),
        (
            json!({}),
            json!({"data": {"a": null, "b": {"c": null, "d": [{"e": null}]}}}),
            json!({"data": {"b": {"d": [{}]}}}),
        ),
        (json!({}), pod(json!([{"image": "x"}])), pod(json!([{"image": "x"}]))),
        (json!({}), pod(json!([{"name": "a", "$patch": "delete"}, {"name": "b"}])), pod(json!([{"name": "b"}]))),
        (
            json!({}),
            json!({"spec": {"strategy": {"type": "R", "$retainKeys": ["x"]}}}),
            json!({"spec": {"strategy": {"type": "R"}}}),
        ),
        (json!({}), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}), json!({"metadata": {}})),
        // In an item that is added to a list, directives have no effect.
        (
            pod(json!([{"name": "a"}])),
            pod(json!([{"name": "b", "$retainKeys": ["name"], "x": null, "y": [{"z": 1, "$patch": "delete"}]}])),
            pod(json!([{"name": "b", "y": [{"z": 1}]}, {"name": "a"}])),
        ),
        (
            pod(json!([{"name": "a"}])),
            pod(json!([{"name": "b", "y": {"$patch": "delete"}}, {"$patch": "replace"}])),
            pod(json!([{"name": "b", "y": {}}])),
        ),
    ] {
        assert_eq!(run(&live, &patch), Ok(expected), "{live} + {patch}");
    }
}
