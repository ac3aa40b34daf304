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
            // Only the first restriction of a text is reported.
            vec![r#"spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long"#],
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
        (
            json!({"req": "x", "set": ["a", "b", "a", "a", "b"]}),
            vec![
                "spec.set: Too many: 5: must have at most 2 items",
                r#"spec.set[2]: Duplicate value: "a""#,
                r#"spec.set[4]: Duplicate value: "b""#,
            ],
        ),
        (json!({"req": "x", "set": ["a", "b", "c"]}), vec!["spec.set: Too many: 3: must have at most 2 items"]),
        (json!({"req": "x", "lm": [{"k": "x"}, {"k": "x"}]}), vec![r#"spec.lm[1]: Duplicate value: {"k":"x"}"#]),
        (
            json!({"req": "x", "lm": [1]}),
            vec![
                r#"spec.lm[0]: Invalid value: "integer": spec.lm[0] in body must be of type object: "integer""#,
                "spec.lm[0]: Invalid value: 1: must be an object for an array of list-type map",
            ],
        ),
        (
            json!({"req": "x", "lm": []}),
            vec!["spec.lm: Invalid value: 0: spec.lm in body should have at least 1 items"],
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
        (json!({"req": "x", "emb": {"kind": "Pod"}}), vec!["spec.emb.apiVersion: Required value"]),
        (
            json!({"req": "x", "m": {"a": 1, "b": "x"}}),
            vec![
                "spec.m: Too many: 2: must have at most 1 item",
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

fn check(schema: Value, value: Value, expected: &[&str]) {
    let whole = json!({"type": "object", "properties": {"f": schema}});
    let validator = Validator::new(crate::structural::compile(Some(&whole), None));
    let errors = validator.validate(&json!({"f": value}));
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{value} by {schema}");
}

#[test]
fn numbers_are_validated_as_by_upstream() {
    let integer = |more: Value| {
        let mut schema = json!({"type": "integer"});
        schema.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        schema
    };
    let fraction = [
        r#"f: Invalid value: "number": f in body must be of type integer: "number""#,
        r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in f"#,
    ];
    check(integer(json!({})), json!(1.5), &fraction);
    check(integer(json!({})), json!(2.0), &[]);
    // Beyond 53 bits a float is not known to be whole.
    check(
        integer(json!({"format": "int64"})),
        json!(9.3e18),
        &[
            r#"f: Invalid value: "float64": f in body must be of type int64: "float64""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int64 in f"#,
        ],
    );
    check(
        integer(json!({"format": "int32"})),
        json!(3_000_000_000_i64),
        &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in f"#],
    );
    // A format of another type does not apply.
    check(json!({"type": "number", "format": "int32"}), json!(1e21), &[]);
    check(
        integer(json!({"minimum": 1.5})),
        json!(1),
        &[
            r#"<nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in f"#,
            "f: Invalid value: 1: f in body should be greater than or equal to 1.5",
        ],
    );
    // The bound of a number is compared with a whole number as a whole number.
    check(json!({"type": "number", "minimum": 1.5}), json!(1), &[]);
    check(json!({"type": "number", "minimum": 0, "maximum": 0}), json!(-0.0), &[]);
    check(
        json!({"type": "number", "maximum": 3.5}),
        json!(4),
        &["f: Invalid value: 4: f in body should be less than or equal to 3"],
    );
}

#[test]
fn a_value_of_a_wrong_type_violates_other_restrictions_too() {
    check(
        json!({"type": "string", "enum": ["a"]}),
        json!({}),
        &[
            r#"f: Invalid value: "object": f in body must be of type string: "object""#,
            r#"f: Unsupported value: {}: supported values: "a""#,
        ],
    );
    check(
        json!({"type": "string", "format": "date-time"}),
        json!(1),
        &[r#"f: Invalid value: "int64": f in body must be of type date-time: "int64""#],
    );
    check(
        json!({"type": "string", "nullable": true, "enum": ["a", null]}),
        Value::Null,
        &[r#"f: Unsupported value: null: supported values: "a", "null""#],
    );
    // Items come before the size of their list.
    check(
        json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
        json!(["a", 1]),
        &[
            r#"f[1]: Invalid value: "integer": f[1] in body must be of type string: "integer""#,
            "f: Too many: 2: must have at most 1 item",
        ],
    );
}

#[test]
fn the_alternative_with_the_most_checks_is_reported() {
    let members = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let alternatives = json!([{"required": ["c"]}, {"properties": {"a": {"minLength": 1}}, "required": ["d"]}]);
    check(
        json!({"type": "object", "properties": members, "anyOf": alternatives}),
        json!({"a": "x"}),
        &[r#"<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)"#, "f.d: Required value"],
    );
    // What several schemas report is reported once.
    check(
        json!({"type": "object", "properties": members, "allOf": [{"required": ["c"]}, {"required": ["c"]}]}),
        json!({}),
        &[
            "f.c: Required value",
            r#"<nil>: Invalid value: "": "f" must validate all the schemas (allOf). None validated"#,
        ],
    );
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
