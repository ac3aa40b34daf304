//! Definitions whose rules are refused.

use apiextensions::DefinitionStrategy;
use apimachinery::resource::Strategy;
use serde_json::{Value, json};

const PLACE: &str = "spec.validation.openAPIV3Schema.properties[spec]";

pub fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let mut crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    DefinitionStrategy.default(&mut crd).expect("few defaults");
    crd
}

pub fn create_errors(crd: &Value) -> Vec<String> {
    DefinitionStrategy.validate_create(crd).iter().map(ToString::to_string).collect()
}

pub fn refused(spec: &Value) -> Vec<String> {
    create_errors(&definition(spec))
}

fn with_rule(rule: Value) -> Value {
    json!({"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}}}, "x-kubernetes-validations": [rule]})
}

#[test]
fn rules_must_compile() {
    let shown = |rule: &str, expression: &str| {
        let rule = rule.replace('>', "\\u003e");
        format!(
            r#"{{"Rule":"{rule}","Message":"","MessageExpression":"{expression}","Reason":null,"FieldPath":"","OptionalOldSelf":null}}"#
        )
    };
    for (rule, at, expected) in [
        (json!({"rule": "self.a > 0"}), "", String::new()),
        (json!({"rule": " "}), "rule", "Required value: rule is not specified".into()),
        (
            json!({"rule": "self.b > 0"}),
            "rule",
            format!(
                "Invalid value: {}: compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 0\n | ....^",
                shown("self.b > 0", "")
            ),
        ),
        (
            json!({"rule": "self.a + 1"}),
            "rule",
            format!("Invalid value: {}: cel expression must evaluate to a bool", shown("self.a + 1", "")),
        ),
        (
            json!({"rule": "self.a > 0", "messageExpression": "self.a"}),
            "messageExpression",
            format!("Invalid value: {}: messageExpression must evaluate to a string", shown("self.a > 0", "self.a")),
        ),
        (
            json!({"rule": "self.a > 0", "messageExpression": "1 +"}),
            "messageExpression",
            format!(
                "Invalid value: {}: messageExpression compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input \
                 '<EOF>' expecting {{'[', '{{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                 STRING, BYTES, IDENTIFIER}}\n | 1 +\n | ...^",
                shown("self.a > 0", "1 +")
            ),
        ),
        (
            json!({"rule": "self.a > 0", "reason": "Because"}),
            "reason",
            r#"Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#
                .into(),
        ),
        (
            json!({"rule": "self.a > 0", "message": " "}),
            "message",
            r#"Invalid value: " ": must be non-empty if specified"#.into(),
        ),
        (
            json!({"rule": "self.a > 0", "message": "a\nb"}),
            "message",
            r#"Invalid value: "a\nb": must not contain line breaks"#.into(),
        ),
        (
            json!({"rule": "self.a\n> 0"}),
            "message",
            "Required value: message must be specified if rule contains line breaks".into(),
        ),
        (
            json!({"rule": "self.a > 0", "fieldPath": ".z"}),
            "fieldPath",
            r#"Invalid value: ".z": must be a valid path"#.into(),
        ),
        (json!({"rule": "self.a > 0", "fieldPath": ".m['x.y']"}), "", String::new()),
        (
            json!({"rule": "self.a > 0", "optionalOldSelf": true}),
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule".into(),
        ),
    ] {
        let expected = if at.is_empty() {
            Vec::new()
        } else {
            vec![format!("{PLACE}.x-kubernetes-validations[0].{at}: {expected}")]
        };
        assert_eq!(refused(&with_rule(rule.clone())), expected, "{rule}");
    }
}

#[test]
fn costs_are_estimated_from_declared_sizes() {
    let unbounded = json!({"type": "array", "items": {"type": "string"}});
    let bounded = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 64}});
    let with_list = |list: &Value, rule: &str| json!({"type": "object", "properties": {"l": list}, "x-kubernetes-validations": [{"rule": rule}]});
    let twice = "self.l.all(x, self.l.exists_one(y, x == y))";
    let text = "exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, \
                and maxLength where arrays, maps, and strings are declared)";
    let whole = format!(
        "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total \
         for entire OpenAPIv3 schema {text}"
    );
    assert_eq!(
        refused(&with_list(&unbounded, twice)),
        [
            format!("{PLACE}.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost {text}"),
            format!(
                "{PLACE}.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost \
                 total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            whole,
        ]
    );
    // A number prints as long as anything, as far as estimates go.
    let printed = refused(&with_rule(json!({"rule": "self.a > 0", "messageExpression": "'x' + string(self.a)"})));
    let expected = format!(
        "{PLACE}.x-kubernetes-validations[0].messageExpression: Forbidden: estimated messageExpression cost {text}"
    );
    assert_eq!(printed.first(), Some(&expected));
    let port = json!({"x-kubernetes-int-or-string": true, "maxLength": 10});
    let ports = json!({"type": "array", "items": port, "maxItems": 1000});
    let times = json!({"type": "array", "items": {"type": "string", "format": "date-time"}, "maxItems": 60_000});
    for (list, rule) in [
        (&ports, "self.l.all(p, isQuantity(p))"),
        (&times, "self.l.all(t, t > timestamp('2020-01-01T00:00:00Z') && t == timestamp('2021-01-01T00:00:00Z'))"),
        (&unbounded, "!has(self.l) || self.l.all(x, x.charAt(0) == 'a')"),
        (&bounded, twice),
        (&unbounded, "self.l.size() < 5"),
        (&unbounded, "self.l.all(x, x.size() < 64)"),
        (&unbounded, "!has(self.l) || self.l[0] == 'a'"),
        (&bounded, "self.l.all(x, x.matches('^[a-z]+$'))"),
        (&bounded, "self.l.map(x, x.lowerAscii()).all(x, x.startsWith('a'))"),
    ] {
        assert_eq!(refused(&with_list(list, rule)), Vec::<String>::new(), "{rule} on {list}");
    }
}

#[test]
fn transition_rules_need_correlated_items() {
    let item = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": 9, "items": item}}});
    assert_eq!(
        refused(&schema),
        [format!(
            "{PLACE}.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot \
             be used on the uncorrelatable portion of the schema within {PLACE}.properties[l]"
        )]
    );
}

#[test]
fn an_update_may_keep_rules_that_no_longer_compile() {
    let old = definition(&with_rule(json!({"rule": "self.gone"})));
    let mut new = old.clone();
    new["spec"]["names"]["shortNames"] = json!(["w"]);
    let context = crate::context();
    assert!(DefinitionStrategy.validate_update(&context, &old, &new).is_empty());
    let changed = definition(&with_rule(json!({"rule": "self.lost"})));
    assert_eq!(DefinitionStrategy.validate_update(&context, &old, &changed).len(), 1);
}

#[test]
fn new_unknown_formats_are_reported() {
    let of = |format: &str| json!({"type": "string", "format": format});
    let properties = json!({
        "a": of("date-time"), "b": of("made-up"), "c": {"type": "integer", "format": "int32"},
        "d": {"type": "number", "format": "int32"}, "e": {"x-kubernetes-int-or-string": true, "format": "int64"},
        "f": {"type": "boolean", "format": "date"},
        "l": {"type": "array", "items": {"allOf": [of("made-up"), of("k8s-short-name"), of("other")]}},
    });
    let crd = definition(&json!({"type": "object", "properties": properties}));
    let context = crate::context();
    // A format of another type is as unknown as one that does not exist.
    let expected =
        ["made-up", "int32", "int64", "date", "other"].map(|format| format!("unrecognized format \"{format}\""));
    assert_eq!(DefinitionStrategy.warnings(&context, None, &crd), expected);
    assert!(DefinitionStrategy.warnings(&context, Some(&crd), &crd).is_empty());
}

#[test]
fn type_meta_of_definitions_is_checked() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
        "apiVersion": {"type": "integer"}, "kind": {"type": "string"}, "metadata": {"type": "string"}}});
    assert_eq!(
        refused(&embedded),
        [
            format!("{PLACE}.properties[apiVersion].type: Invalid value: \"integer\": must be string"),
            format!("{PLACE}.properties[metadata].type: Invalid value: \"string\": must be object"),
        ]
    );
    let mut root = definition(&json!({"type": "object"}));
    root["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["kind"] = json!({"type": "boolean"});
    let root_place = PLACE.trim_end_matches(".properties[spec]");
    assert_eq!(
        create_errors(&root),
        [format!("{root_place}.properties[kind].type: Invalid value: \"boolean\": must be string")]
    );
    // Elsewhere these are names as any others.
    let plain = json!({"type": "object", "properties": {"kind": {"type": "integer"}, "metadata": {"type": "string"}}});
    assert!(refused(&plain).is_empty());
}

#[test]
fn deprecation_warnings_are_single_lines() {
    let long = "x".repeat(257);
    let printable = "must only contain printable UTF-8 characters; non-printable character found at index";
    for (deprecated, warning, expected) in [
        (true, "use v2", vec![]),
        (false, "use v2", vec!["can only be set for deprecated versions".to_owned()]),
        (true, "", vec!["must not be an empty string".to_owned()]),
        (true, "use\nv2", vec![format!("{printable} 3")]),
        (true, "ü\u{a0}v2", vec![format!("{printable} 2")]),
        (true, &long, vec!["must be <= 256 characters long".to_owned()]),
    ] {
        let mut crd = definition(&json!({"type": "object"}));
        crd["spec"]["versions"][0]["deprecated"] = deprecated.into();
        crd["spec"]["versions"][0]["deprecationWarning"] = warning.into();
        let found = create_errors(&crd);
        let found: Vec<&str> = found.iter().filter_map(|text| text.rsplit_once("\": ")).map(|(_, why)| why).collect();
        assert_eq!(found, expected, "{warning:?}");
    }
}

#[test]
fn rules_are_checked_with_the_defaults_of_their_schema() {
    let with = |default: Value, rule: Value| {
        let integer = json!({"type": "integer"});
        json!({"type": "object", "properties": {"a": integer, "b": {"type": "string"}}, "default": default, "x-kubernetes-validations": [rule]})
    };
    for (default, rule, expected) in [
        (json!({"a": 1}), json!({"rule": "self.a > 0"}), ""),
        (json!({"a": 1}), json!({"rule": "self == oldSelf"}), ""),
        (
            json!({"a": 1}),
            json!({"rule": "self.a > 3", "fieldPath": ".a"}),
            ".default.a: Invalid value: failed rule: self.a > 3",
        ),
        (json!({"a": 1}), json!({"rule": "self != oldSelf"}), ".default: Invalid value: failed rule: self != oldSelf"),
        (
            json!({"a": 1}),
            json!({"rule": "oldSelf.hasValue()", "optionalOldSelf": true}),
            ".default: Invalid value: failed rule: oldSelf.hasValue()",
        ),
        (
            json!({"a": 1}),
            json!({"rule": "self.zz"}),
            ".default: Invalid value: \"object\": rule compile error: compilation failed: ERROR: <input>:1:5: undefined field 'zz'\n | self.zz\n | ....^",
        ),
    ] {
        let expected: Vec<String> =
            Some(format!("{PLACE}{expected}")).into_iter().filter(|_| !expected.is_empty()).collect();
        assert_eq!(refused(&with(default, rule.clone())), expected, "{rule}");
    }
    let untyped = json!({"x-kubernetes-preserve-unknown-fields": true, "default": "x", "x-kubernetes-validations": [{"rule": "true"}]});
    let why = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
    assert_eq!(refused(&untyped), [format!("{PLACE}.default: Invalid value: \"\": {why}")]);
    let of_map = json!({"type": "object", "additionalProperties": {"type": "string"}, "default": {"k": 1}});
    let why = "Invalid value: \"integer\": .k in body must be of type string: \"integer\"";
    assert_eq!(refused(&of_map), [format!("{PLACE}.default.k: {why}")], "values of maps have a dot, as upstream");
}

#[test]
fn parts_without_a_usable_schema_have_one_error() {
    let unsupported = json!({"type": "object", "properties": {"a": {"type": "string", "$ref": "#/x"}},
        "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".zz"}]});
    let forbidden = "Forbidden: $ref is not supported";
    assert_eq!(refused(&unsupported), [format!("{PLACE}.properties[a].$ref: {forbidden}")]);

    let mut old = definition(&json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}));
    old["spec"]["preserveUnknownFields"] = true.into();
    assert_eq!(
        create_errors(&old),
        [
            "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema",
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        ]
    );

    let mut bare = definition(&json!({"type": "object"}));
    bare["spec"]["versions"][0]["schema"] = Value::Null;
    bare["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.a"}]);
    let missing = "spec.versions[0].schema.openAPIV3Schema: Required value";
    let why = "spec.selectableFields: Invalid value: \"\": may only be set when validations.schema is included";
    assert_eq!(create_errors(&bare), [missing, why]);
    bare["spec"]["versions"].as_array_mut().expect("a list").push(
        json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}),
    );
    let why = "spec.versions[0].selectableFields: Invalid value: \"\": may only be set when `version.schema.openAPIV3Schema` is not included";
    assert_eq!(create_errors(&bare), [missing, why]);
}
