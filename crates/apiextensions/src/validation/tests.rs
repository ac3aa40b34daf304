use super::*;
use serde_json::json;

fn validator() -> Validator {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["req"], "properties": {
        "req": {"type": "string"},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "format": "int32"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "port": {"x-kubernetes-int-or-string": true},
        "date": {"type": "string", "format": "date-time"},
        "ratio": {"type": "number", "exclusiveMinimum": true, "minimum": 0, "multipleOf": 0.5},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 2, "items": {"type": "string"}},
        "lm": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "minItems": 1,
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        "none": {"type": "string", "not": {"enum": ["bad"]}},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
    }}}});
    Validator::new(crate::structural::compile(Some(&schema), None))
}

#[test]
fn messages_match_upstreams() {
    let validator = validator();
    for (spec, expected) in [
        (json!({"req": "x", "replicas": 3, "port": "a", "ratio": 1.5, "one": {"a": ""}, "lm": [{"k": "a"}]}), vec![]),
        (json!({}), vec!["spec.req: Required value"]),
        (
            json!({"req": "x", "replicas": -1}),
            vec!["spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0"],
        ),
        (
            json!({"req": "x", "replicas": "1"}),
            vec![r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#],
        ),
        (
            json!({"req": "x", "name": "A"}),
            vec![
                r#"spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long"#,
                r#"spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'"#,
            ],
        ),
        (json!({"req": "x", "name": "abcdef"}), vec!["spec.name: Too long: may not be more than 5 bytes"]),
        (
            json!({"req": "x", "color": "green"}),
            vec![r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#],
        ),
        (
            json!({"req": "x", "port": true}),
            vec![r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#],
        ),
        (
            json!({"req": "x", "date": "soon"}),
            vec![r#"spec.date: Invalid value: "soon": spec.date in body must be of type date-time: "soon""#],
        ),
        (
            json!({"req": "x", "ratio": 0}),
            vec!["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
        ),
        (json!({"req": "x", "set": ["a", "a"]}), vec![r#"spec.set[1]: Duplicate value: "a""#]),
        (json!({"req": "x", "set": ["a", "b", "c"]}), vec!["spec.set: Too many: 3: must have at most 2 items"]),
        (json!({"req": "x", "lm": [{"k": "x"}, {"k": "x"}]}), vec![r#"spec.lm[1]: Duplicate value: {"k":"x"}"#]),
        (
            json!({"req": "x", "lm": []}),
            vec!["spec.lm: Invalid value: []: spec.lm in body should have at least 1 items"],
        ),
        (
            json!({"req": "x", "one": {}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.one.a: Required value",
            ],
        ),
        (
            json!({"req": "x", "one": {"a": "", "b": ""}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            json!({"req": "x", "none": "bad"}),
            vec![r#"<nil>: Invalid value: "": "spec.none" must not validate the schema (not)"#],
        ),
        (json!({"req": "x", "emb": {"kind": "Pod"}}), vec!["spec.emb.apiVersion: Required value: must not be empty"]),
        (
            json!({"req": "x", "m": {"a": 1, "b": "x"}}),
            vec![
                "spec.m: Too many: 2: must have at most 1 items",
                r#"spec.m.b: Invalid value: "string": spec.m.b in body must be of type integer: "string""#,
            ],
        ),
        (
            json!({"req": null}),
            vec![r#"spec.req: Invalid value: "null": spec.req in body must be of type string: "null""#],
        ),
    ] {
        let errors = validator.validate(&json!({"metadata": {"name": "n"}, "spec": spec}));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{spec}");
    }
}

#[test]
fn an_update_may_keep_existing_errors() {
    let validator = validator();
    for (old, new, expected) in [
        (json!({"req": "x", "color": "green"}), json!({"req": "y", "color": "green"}), 0),
        (json!({"req": "x", "color": "green"}), json!({"req": "y", "color": "pink"}), 1),
        (json!({"req": "x", "replicas": -1}), json!({"req": "y", "replicas": -1}), 0),
        (json!({"req": "x", "replicas": -1}), json!({"req": "x", "replicas": -2}), 1),
        // A missing field is an error of the object, which has changed.
        (json!({"name": "ab"}), json!({"name": "ab"}), 0),
        (json!({"name": "ab"}), json!({"name": "abc"}), 1),
        (json!({"req": "x", "one": {"a": "", "b": ""}}), json!({"req": "y", "one": {"a": "", "b": ""}}), 0),
        (json!({"req": "x", "one": {"a": "", "b": ""}}), json!({"req": "x", "one": {"a": "", "b": "c"}}), 1),
        (json!({"req": "x", "none": "bad"}), json!({"req": "y", "none": "bad"}), 0),
        // Entries of maps are correlated by key, and so are items of keyed lists, at any position.
        (json!({"req": "x", "m": {"k": "v"}}), json!({"req": "x", "m": {"k": "v", "l": 1}}), 1),
        (json!({"req": "x", "m": {"k": "v"}}), json!({"req": "y", "m": {"k": "v"}}), 0),
        (json!({"req": "x", "lm": [{"k": 1}]}), json!({"req": "x", "lm": [{"k": "a"}, {"k": 1}]}), 0),
        (json!({"req": "x", "lm": [{"k": 1}]}), json!({"req": "x", "lm": [{"k": "a"}, {"k": 2}]}), 1),
        // Items of other lists are the same only with the whole list.
        (json!({"req": "x", "set": [1]}), json!({"req": "y", "set": [1]}), 0),
        (json!({"req": "x", "set": [1]}), json!({"req": "x", "set": [1, "b"]}), 1),
        // Repeated items are let through once there were any.
        (json!({"req": "x", "set": ["a", "a"]}), json!({"req": "x", "set": ["b", "b"]}), 0),
        (json!({"req": "x", "set": ["a"]}), json!({"req": "x", "set": ["b", "b"]}), 1),
        (json!({"req": "x"}), json!({"req": "x", "color": "pink"}), 1),
    ] {
        let (errors, _) = validator.validate_update(&json!({"spec": old}), &json!({"spec": new}), ErrorList::new());
        assert_eq!(errors.len(), expected, "{old} -> {new}: {errors:?}");
    }
}
