//! Objects and the rules of their schema.

use apiextensions::{Compilation, CustomResourceDefinition, resources};
use apimachinery::resource::Resource;
use serde_json::{Value, json};

/// A resource whose `spec` has this schema.
pub fn resource(spec: &Value) -> Resource {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let crd = CustomResourceDefinition::from_value(&crd).expect("a definition");
    resources(&crd, &Compilation::default()).remove(0)
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "g.example/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

pub fn created(schema: &Value, spec: &Value) -> Vec<String> {
    let errors = resource(schema).strategy.validate_create(&object(spec));
    errors.iter().map(ToString::to_string).collect()
}

pub fn updated(schema: &Value, old: &Value, new: &Value) -> Vec<String> {
    let context = crate::context();
    let errors = resource(schema).strategy.validate_update(&context, &object(old), &object(new));
    errors.iter().map(ToString::to_string).collect()
}

/// An object with one rule on it.
fn with_rule(properties: Value, rule: Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]})
}

#[test]
fn a_broken_rule_is_reported_with_its_message() {
    let numbers = json!({"a": {"type": "integer"}, "b": {"type": "integer"}, "color": {"type": "string"}});
    for (rule, spec, expected) in [
        (json!({"rule": "self.a < self.b"}), json!({"a": 1, "b": 2}), None),
        (
            json!({"rule": " self.a < self.b "}),
            json!({"a": 2, "b": 2}),
            Some(r#"spec: Invalid value: failed rule: self.a < self.b"#),
        ),
        (
            json!({"rule": "self.a < self.b", "message": "a must be less than b"}),
            json!({"a": 2, "b": 2}),
            Some(r#"spec: Invalid value: a must be less than b"#),
        ),
        (
            json!({"rule": "self.a < self.b", "messageExpression": "'a is ' + string(self.a)"}),
            json!({"a": 2, "b": 2}),
            Some(r#"spec: Invalid value: a is 2"#),
        ),
        (
            json!({"rule": "self.a < self.b", "message": "plain", "messageExpression": "'a\\nb'"}),
            json!({"a": 2, "b": 2}),
            Some(r#"spec: Invalid value: plain"#),
        ),
        (
            json!({"rule": "self.a < self.b", "message": "plain", "messageExpression": "self.color"}),
            json!({"a": 2, "b": 2}),
            Some(r#"spec: Invalid value: plain"#),
        ),
        (
            json!({"rule": "self.a < self.b", "message": "no", "reason": "FieldValueForbidden", "fieldPath": ".color"}),
            json!({"a": 2, "b": 2}),
            Some("spec.color: Forbidden: no"),
        ),
        (
            json!({"rule": "self.a < self.b", "message": "no", "reason": "FieldValueRequired", "fieldPath": ".b"}),
            json!({"a": 2, "b": 2}),
            Some("spec.b: Required value: no"),
        ),
        (
            json!({"rule": "self.a < self.b", "reason": "FieldValueDuplicate"}),
            json!({"a": 2, "b": 2}),
            Some("spec: Duplicate value"),
        ),
        (
            json!({"rule": "self.color.find(')') == ''"}),
            json!({"color": "red"}),
            Some(
                "spec: Invalid value: \"object\": rule compile error: program instantiation failed: error parsing \
                 regexp: unexpected ): `)`",
            ),
        ),
        (
            json!({"rule": "self.a < self.b"}),
            json!({"a": 1}),
            Some(r#"spec: Invalid value: "object": no such key: b evaluating rule: self.a < self.b"#),
        ),
        (
            json!({"rule": "10 / self.a > 1", "message": "m"}),
            json!({"a": 0}),
            Some(r#"spec: Invalid value: "object": division by zero evaluating rule: m"#),
        ),
    ] {
        let found = created(&with_rule(numbers.clone(), rule.clone()), &spec);
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{rule} on {spec}");
    }
}

#[test]
fn null_properties_are_absent() {
    let schema = with_rule(
        json!({"a": {"type": "string", "nullable": true}, "m": {"type": "object", "additionalProperties": {
            "type": "string", "nullable": true}}}),
        json!({"rule": "(!has(self.a) || self.a != '') && self.?a.orValue('x') != ''
            && (!has(self.m) || self.m.all(k, type(self.m[k]) == null_type))", "message": "no"}),
    );
    assert_eq!(created(&schema, &json!({"a": null, "m": {"x": null}})), Vec::<String>::new());
    assert_eq!(created(&schema, &json!({"a": ""})), ["spec: Invalid value: no"]);
}

#[test]
fn undeclared_fields_count_in_comparisons() {
    let schema = with_rule(
        json!({"l": {"type": "array", "items": {"type": "object", "properties": {"known": {"type": "integer"},
            "any": {"x-kubernetes-preserve-unknown-fields": true}}, "x-kubernetes-preserve-unknown-fields": true}}}),
        json!({"rule": "self.l[0] == self.l[1]", "message": "differ"}),
    );
    for (a, b, is_same) in [
        (json!({"known": 1, "x": [{"y": "a"}]}), json!({"known": 1, "x": [{"y": "a"}]}), true),
        (json!({"known": 1, "x": [{"y": "a"}]}), json!({"known": 1, "x": [{"y": "b"}]}), false),
        (json!({"known": 1, "any": "a"}), json!({"known": 1, "any": 1}), false),
        (json!({"known": 1, "x": 1}), json!({"known": 1}), false),
        (json!({"known": 1, "x": 1}), json!({"known": 1, "y": 1}), false),
        (json!({"x": {}}), json!({"x": {}}), true),
    ] {
        let expected: &[&str] = if is_same { &[] } else { &["spec: Invalid value: differ"] };
        assert_eq!(created(&schema, &json!({"l": [a, b]})), expected, "{a} {b}");
    }
}

#[test]
fn reserved_words_name_fields() {
    let schema = with_rule(
        json!({"namespace": {"type": "string"}, "if": {"type": "object", "properties": {"for": {"type": "integer"}}}}),
        json!({"rule": "has(self.namespace) && self.namespace == self.__namespace__ && self.if.for > 1", "message": "no"}),
    );
    assert_eq!(created(&schema, &json!({"namespace": "a", "if": {"for": 2}})), Vec::<String>::new());
    assert_eq!(created(&schema, &json!({"namespace": "a", "if": {"for": 1}})), ["spec: Invalid value: no"]);
}

#[test]
fn rules_apply_where_they_are_written() {
    let positive = json!([{"rule": "self > 0", "message": "must be positive"}]);
    let number = json!({"type": "integer", "x-kubernetes-validations": positive});
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": number},
        "map": {"type": "object", "additionalProperties": number},
        "deep": {"type": "object", "properties": {"a-b": number}},
        "port": {"x-kubernetes-int-or-string": true,
            "x-kubernetes-validations": [{"rule": "type(self) == int ? self > 0 : self != ''", "message": "port"}]},
        "nul": {"type": "integer", "nullable": true, "x-kubernetes-validations": positive},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "self.kind == 'Pod' && self.metadata.name.startsWith('p')", "message": "pods"}]}}});
    for (spec, expected) in [
        (json!({"list": [1, 2], "map": {"x": 1}, "deep": {"a-b": 1}, "port": "http", "nul": null}), vec![]),
        (json!({"list": [1, 0]}), vec![r#"spec.list[1]: Invalid value: 0: must be positive"#]),
        (json!({"map": {"x": 0}}), vec![r#"spec.map[x]: Invalid value: 0: must be positive"#]),
        (json!({"deep": {"a-b": 0}}), vec![r#"spec.deep.a-b: Invalid value: 0: must be positive"#]),
        (json!({"port": 0}), vec![r#"spec.port: Invalid value: 0: port"#]),
        (json!({"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}}), vec![]),
        (
            json!({"emb": {"apiVersion": "v1", "kind": "Job", "metadata": {"name": "p"}}}),
            vec![r#"spec.emb: Invalid value: pods"#],
        ),
    ] {
        assert_eq!(created(&schema, &spec), expected, "{spec}");
    }
}

#[test]
fn the_root_sees_type_and_names_only() {
    let schema = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {
        "type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "bad name"}]}}}},
        "x-kubernetes-validations": [{"rule": "self.kind == 'Widget' && self.metadata.name.size() < 5", "message": "long"}]});
    let crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let crd = CustomResourceDefinition::from_value(&crd).expect("a definition");
    let strategy = resources(&crd, &Compilation::default()).remove(0).strategy;
    for (name, expected) in [
        ("good", vec![]),
        ("longer", vec![r#"<nil>: Invalid value: long"#]),
        ("bad", vec![r#"metadata.name: Invalid value: "bad": bad name"#]),
    ] {
        let object = json!({"apiVersion": "g.example/v1", "kind": "Widget", "metadata": {"name": name, "labels": {}}});
        let errors: Vec<String> = strategy.validate_create(&object).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{name}");
    }
}

#[test]
fn transition_rules_compare_with_the_old_value() {
    let fixed =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]});
    let schema = json!({"type": "object", "properties": {
        "imm": fixed,
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": fixed}}},
        "map": {"type": "object", "additionalProperties": fixed},
        "opt": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true, "message": "starts at 1"}]}}});
    assert_eq!(created(&schema, &json!({"imm": "a", "opt": 1})), Vec::<String>::new());
    assert_eq!(created(&schema, &json!({"opt": 2})), [r#"spec.opt: Invalid value: 2: starts at 1"#]);
    for (old, new, expected) in [
        (json!({"imm": "a"}), json!({"imm": "a"}), vec![]),
        (json!({"imm": "a"}), json!({"imm": "b"}), vec![r#"spec.imm: Invalid value: "b": is immutable"#]),
        (json!({}), json!({"imm": "b"}), vec![]),
        (json!({"imm": "a"}), json!({}), vec![]),
        (
            json!({"keyed": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]}),
            json!({"keyed": [{"k": "b", "v": "2"}, {"k": "a", "v": "9"}, {"k": "c", "v": "3"}]}),
            vec![r#"spec.keyed[1].v: Invalid value: "9": is immutable"#],
        ),
        (
            json!({"map": {"a": "1"}}),
            json!({"map": {"a": "2", "b": "1"}}),
            vec![r#"spec.map[a]: Invalid value: "2": is immutable"#],
        ),
        (json!({"opt": 1}), json!({"opt": 7}), vec![]),
    ] {
        assert_eq!(updated(&schema, &old, &new), expected, "{old} -> {new}");
    }
}

#[test]
fn failures_on_unchanged_values_are_tolerated() {
    let small = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "too big"}]});
    let schema = json!({"type": "object", "properties": {"a": small, "b": small, "list": {"type": "array", "items": small},
            "outer": {"type": "object", "x-kubernetes-validations": [{"rule": "self.keyed.size() > 2", "message": "too big"}],
                "properties": {"keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}}}}});
    let keyed = |v: i64| json!({"outer": {"keyed": [{"k": "b", "v": v}, {"k": "a"}]}});
    let reordered = json!({"outer": {"keyed": [{"k": "a"}, {"k": "b", "v": 1}]}});
    for (old, new, expected) in [
        (json!({"a": 9, "b": 1}), json!({"a": 9, "b": 2}), (None, Some("a: Invalid value: 9"))),
        (json!({"a": 9}), json!({"a": 8}), (Some("a: Invalid value: 8"), None)),
        (json!({"list": [9, 1]}), json!({"list": [9, 1], "a": 1}), (None, Some("list[0]: Invalid value: 9"))),
        (json!({"list": [9, 1]}), json!({"list": [9, 2]}), (Some("list[0]: Invalid value: 9"), None)),
        // The order of items with keys does not count.
        (keyed(1), reordered.clone(), (None, Some("outer: Invalid value"))),
        (keyed(2), reordered, (Some("outer: Invalid value"), None)),
    ] {
        let strategy = resource(&schema).strategy;
        let (errors, warnings) = strategy.check_update(&crate::context(), &object(&old), &object(&new));
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = |at: Option<&str>| at.map(|at| format!("spec.{at}: too big"));
        let one = |texts: Vec<String>| (texts.len() < 2).then(|| texts.into_iter().next());
        assert_eq!((one(errors), one(warnings)), (Some(text(expected.0)), Some(text(expected.1))), "{old} -> {new}");
    }
}

#[test]
fn failures_of_the_objects_own_kind_are_not_tolerated() {
    let rule = json!([{"rule": "self == 'Pod'", "message": "no pod"}]);
    let kind = json!({"kind": {"type": "string", "x-kubernetes-validations": rule}});
    let nested = json!({"type": "object", "properties": kind});
    let schema = json!({"type": "object", "properties": {"kind": kind["kind"], "spec": nested}});
    let crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let crd = CustomResourceDefinition::from_value(&crd).expect("a definition");
    let strategy = &resources(&crd, &Compilation::default())[0].strategy;
    let mut new = object(&json!({"kind": "Job"}));
    let old = new.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    let (errors, warnings) = strategy.check_update(&crate::context(), &old, &new);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, [r#"kind: Invalid value: "Widget": no pod"#]);
    assert_eq!(warnings, [r#"spec.kind: Invalid value: "Job": no pod"#]);
}

#[test]
fn rules_run_on_schema_valid_objects_only() {
    let schema = with_rule(
        json!({"a": {"type": "integer", "maximum": 10}, "s": {"type": "string"}}),
        json!({"rule": "self.a < 5"}),
    );
    let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
                     correct the existing errors to complete validation";
    let wrong_type = r#"spec.s: Invalid value: "integer": spec.s in body must be of type string: "integer""#;
    assert_eq!(created(&schema, &json!({"a": 7, "s": 1})), [wrong_type, unchecked]);
    // A value out of range still has its type, so the rules are evaluated.
    assert_eq!(
        created(&schema, &json!({"a": 70})),
        [
            "spec.a: Invalid value: 70: spec.a in body should be less than or equal to 10",
            r#"spec: Invalid value: failed rule: self.a < 5"#
        ]
    );
}

#[test]
fn evaluation_is_bounded_for_large_objects() {
    let schema = with_rule(
        json!({"list": {"type": "array", "items": {"type": "integer"}}}),
        json!({"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))"}),
    );
    let numbers: Vec<u32> = (0..2_000).collect();
    let errors = created(&schema, &json!({"list": numbers}));
    assert_eq!(errors.len(), 1);
    let expected = r#"spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.list.all"#;
    assert!(errors[0].starts_with(expected), "{}", errors[0]);
}

/// The replica count is validated with the schema, so its error precedes those of duplicate items and rules.
#[test]
fn rule_errors_are_reported_last() {
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}, "replicas": {"type": "integer"},
        "set": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
        "x-kubernetes-validations": [{"rule": "self.n > 5", "message": "too small"}]});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"scale": scale}}]}});
    let crd = CustomResourceDefinition::from_value(&crd).expect("a definition");
    let widgets = resources(&crd, &Compilation::default()).remove(0);
    let wrong = object(&json!({"n": -1, "replicas": -1, "set": ["a", "a"]}));
    let expected = [
        "spec.n: Invalid value: -1: spec.n in body should be greater than or equal to 0",
        ".spec.replicas: Invalid value: -1: should be a non-negative integer",
        "spec.set[1]: Duplicate value: \"a\"",
        "spec: Invalid value: too small",
    ];
    let messages = |errors: apimachinery::field::ErrorList| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(messages(widgets.strategy.validate_create(&wrong)), expected);
    let fine = object(&json!({"n": 9}));
    assert_eq!(messages(widgets.strategy.validate_update(&crate::context(), &fine, &wrong)), expected);
}
