//! Refused schemas: the errors and their order.

use serde_json::{Value, json};

use crate::definitions::{create_errors, definition, refused};

const ROOT: &str = "spec.validation.openAPIV3Schema";

/// Each complaint about the schema of `spec`, whose own place is `p`.
fn messages(schema: &Value) -> Vec<String> {
    let here = format!("{ROOT}.properties[spec]");
    refused(schema).into_iter().map(|text| text.replace(&here, "p")).collect()
}

fn list(type_: &str, items: Value) -> Value {
    json!({"type": "array", "x-kubernetes-list-type": type_, "items": items})
}

fn keyed(keys: &[&str], key: Value) -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "required": ["k"], "properties": {"k": key}}})
}

#[test]
fn accepted_schemas() {
    for schema in [
        json!({"type": "string"}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}]}),
        json!({"type": "string", "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"type": "integer", "x-kubernetes-int-or-string": true}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]}),
        json!({"type": "object", "oneOf": [{"properties": {"undeclared": {"minLength": 1}}}]}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": {"type": "integer", "default": "not checked"}}),
        json!({"type": "string", "default": null}),
        json!({"type": "string", "anyOf": [{"externalDocs": {"url": "u"}}]}),
        // As upstream, defaults of these two may violate the type and the uniqueness.
        json!({"x-kubernetes-int-or-string": true, "default": 1.5}),
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "default": ["a", "a"]}),
        json!({"type": "object", "properties": {"kind": {"type": "integer"}, "metadata": {"type": "string"}}}),
        list("set", json!({"type": "string"})),
        list("set", json!({"type": "array", "items": {"type": "string"}})),
        list("set", json!({"type": "object", "x-kubernetes-map-type": "atomic"})),
        keyed(&["k"], json!({"type": "string"})),
    ] {
        assert_eq!(messages(&schema), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn schemas_that_are_not_structural() {
    for (schema, expected) in [
        (json!({}), vec!["p.type: Required value: must not be empty for specified object fields"]),
        (
            json!({"type": "array", "items": {}}),
            vec!["p.items.type: Required value: must not be empty for specified array items"],
        ),
        (json!({"type": "array"}), vec!["p.items: Required value: must be specified"]),
        (
            json!({"type": "string", "allOf": [{"description": "d"}]}),
            vec!["p.allOf[0].description: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            vec!["p.anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "not": {"anyOf": [{"type": "integer"}, {"type": "string"}], "externalDocs": {"url": "u"}}}),
            vec![
                "p.not.anyOf[0].type: Forbidden: must be empty to be structural",
                "p.not.anyOf[1].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"type": "object", "allOf": [{"x-kubernetes-list-type": "set", "x-kubernetes-map-type": "atomic",
                "additionalProperties": {"minLength": 1}, "default": {}, "nullable": true, "properties": {"metadata": {}}}]}),
            vec![
                "p.allOf[0].additionalProperties: Forbidden: must be undefined to be structural",
                "p.allOf[0].default: Forbidden: must be undefined to be structural",
                "p.allOf[0].nullable: Forbidden: must be false to be structural",
                "p.allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
                "p.allOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural",
                "p.allOf[0].x-kubernetes-map-type: Forbidden: must be undefined to be structural",
                "p.allOf[0].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
                "p.allOf[0].type: Required value: must be object if x-kubernetes-map-type is specified",
                "p.allOf[0].type: Required value: must be array if x-kubernetes-list-type is specified",
            ],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![
                "p.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![
                "p.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "additionalProperties": true}),
            vec![
                "p.additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set",
                "p.type: Required value: must be object if x-kubernetes-embedded-resource is true",
            ],
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "array"}, "a": {}, "c": {"type": "string", "pattern": "("}}}),
            vec![
                "p.properties[a].type: Required value: must not be empty for specified object fields",
                "p.properties[b].items: Required value: must be specified",
                r#"p.properties[c].pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
            ],
        ),
    ] {
        assert_eq!(messages(&schema), expected, "{schema}");
    }
}

#[test]
fn schemas_of_the_wrong_kind() {
    let types = r#"supported values: "array", "boolean", "integer", "number", "object", "string""#;
    for (schema, expected) in [
        (json!({"type": "text"}), vec![format!(r#"p.type: Unsupported value: "text": {types}"#)]),
        (
            json!({"type": "null"}),
            vec![
                format!(r#"p.type: Unsupported value: "null": {types}"#),
                "p.type: Forbidden: type cannot be set to null, use nullable as an alternative".into(),
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec!["p.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive".into()],
        ),
        (
            json!({"type": "integer", "default": "x"}),
            vec![r#"p.default: Invalid value: "string":  in body must be of type integer: "string""#.into()],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "default": ["a", 1]}),
            vec![r#"p.default.[1]: Invalid value: "integer": [1] in body must be of type string: "integer""#.into()],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": 1}}),
            vec![r#"p.default.a: Invalid value: "integer": a in body must be of type string: "integer""#.into()],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                "default": {"kind": 1}}),
            vec![
                "p.default.apiVersion: Required value".into(),
                "p.default.kind: Invalid value: 1: must be a string".into(),
            ],
        ),
        (
            json!({"type": "object", "default": {"a": 1}}),
            vec![r#"p.default: Invalid value: {"a":1}: must not have unknown fields"#.into()],
        ),
        (json!({"type": "string", "$ref": "#/x"}), vec!["p.$ref: Forbidden: $ref is not supported".into()]),
        (
            json!({"type": "object", "$schema": "s"}),
            vec![format!(r#"{ROOT}: Invalid value: "": OpenAPIV3Schema 'schema' is not supported"#)],
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}]}),
            vec!["p.items: Forbidden: items must be a schema object and not an array".into()],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            vec!["p.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined".into()],
        ),
    ] {
        assert_eq!(messages(&schema), expected, "{schema}");
    }
}

#[test]
fn lists_and_maps_of_the_wrong_kind() {
    for (schema, expected) in [
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
            "p.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
            r#"p.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#,
        ),
        (
            list("tree", json!({"type": "string"})),
            r#"p.x-kubernetes-list-type: Unsupported value: "tree": supported values: "atomic", "set", "map""#,
        ),
        (
            list("set", json!({"type": "object"})),
            "p.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            list("set", json!({"type": "string", "nullable": true})),
            "p.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (
            keyed(&["k", "k"], json!({"type": "string"})),
            r#"p.x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain duplicate entries"#,
        ),
        (
            keyed(&["k", "l"], json!({"type": "string"})),
            r#"p.x-kubernetes-list-map-keys: Invalid value: ["k","l"]: entries must all be names of item properties"#,
        ),
        (
            keyed(&["k"], json!({"type": "object"})),
            r#"p.items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
        ),
        (
            keyed(&["k"], json!({"type": "string", "nullable": true})),
            "p.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}),
            r#"p.items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map"#,
        ),
    ] {
        assert_eq!(messages(&schema), [expected], "{schema}");
    }
}

/// Complaints about a definition with this schema, the root of it as `p`.
fn root_messages(schema: &Value, has_status: bool) -> Vec<String> {
    let mut crd = definition(&json!({"type": "object"}));
    let version = &mut crd["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"] = schema.clone();
    if has_status {
        version["subresources"] = json!({"status": {}});
    }
    create_errors(&crd).into_iter().map(|text| text.replace(ROOT, "p")).collect()
}

#[test]
fn the_root_of_a_schema_is_an_object_with_metadata() {
    let with = |properties: Value| json!({"type": "object", "properties": properties});
    let implied = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    for (schema, expected) in [
        (
            json!({"type": "object", "oneOf": [{"properties": {"a": {"minLength": 1}}}]}),
            vec!["p.properties[a]: Required value: because it is defined in p.oneOf[0].properties[a]".to_owned()],
        ),
        (
            json!({"type": "object", "nullable": true, "additionalProperties": {"type": "string"}}),
            vec![
                "p.nullable: Forbidden: nullable cannot be true at the root".into(),
                "p.additionalProperties: Forbidden: must not be used at the root".into(),
            ],
        ),
        (json!({"type": "array", "items": {"type": "string"}}), vec![
            r#"p.type: Invalid value: "array": must be object at the root"#.into(),
        ]),
        (with(json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}})), vec![]),
        (with(json!({"metadata": {"type": "object", "description": "d"}})), vec![
            format!("p.properties[metadata]: Forbidden: {implied}"),
        ]),
        (with(json!({"metadata": {"type": "object", "additionalProperties": false}})), vec![
            format!("p.properties[metadata]: Forbidden: {implied}"),
        ]),
        (json!({"type": "object", "default": {}}), vec![
            "p.default.apiVersion: Required value".into(),
            "p.default.kind: Required value".into(),
        ]),
        (with(json!({"metadata": {"type": "object", "default": {"name": "n"}}, "kind": {"type": "string", "default": "K"}})), vec![
            "p.properties[kind].default: Forbidden: must not be set in top-level kind".into(),
            "p.properties[metadata].default: Forbidden: must not be set in top-level metadata".into(),
        ]),
        (with(json!({"spec": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "metadata": {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}}}}}}})), vec![
            "p.properties[spec].properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set inside additionalProperties applying to object metadata".into(),
        ]),
    ] {
        assert_eq!(root_messages(&schema, false), expected, "{schema}");
    }
}

#[test]
fn with_a_status_subresource_the_root_has_few_fields() {
    let messages = root_messages(&json!({"type": "array", "items": {"type": "string"}, "maxProperties": 1}), true);
    assert_eq!(
        messages,
        [
            r#"p.type: Invalid value: "array": only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#,
            r#"p.type: Invalid value: "array": must be object at the root"#,
        ]
    );
    let messages = root_messages(&json!({"type": "object", "maxProperties": 0}), true);
    assert!(messages.len() == 1 && messages[0].contains(": only [Description Type Format "), "{messages:?}");
    assert_eq!(root_messages(&json!({"type": "object", "required": ["spec"], "description": "d"}), true), [""; 0]);
}

#[test]
fn rules_are_compiled_in_valid_schemas_only() {
    let rule = |text: &str| json!([{"rule": text}]);
    let schema = json!({"type": "object", "properties": {
        "fine": {"type": "integer", "x-kubernetes-validations": rule("self.x")},
        "wrong": {"type": "string", "x-kubernetes-list-type": "set", "x-kubernetes-validations": rule("self.x")}},
        "x-kubernetes-validations": rule("self.y")});
    let texts = messages(&schema);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("p.properties[wrong].type: Invalid value: \"string\": must be array"), "{texts:?}");
    assert!(texts[1].starts_with("p.properties[fine].x-kubernetes-validations[0].rule: Invalid value:"), "{texts:?}");
    let untyped = json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": rule("true")});
    assert_eq!(
        messages(&untyped),
        [
            "p.x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
        ]
    );
}
