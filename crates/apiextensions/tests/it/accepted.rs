//! Rules as published definitions have them: the estimates must let them pass.

use serde_json::{Value, json};

use crate::definitions::refused;

fn text(max: u64) -> Value {
    json!({"type": "string", "maxLength": max})
}

#[test]
fn rules_of_published_definitions_are_accepted() {
    let listener = json!({"type": "object", "required": ["name", "port", "protocol"], "properties": {
        "name": text(253), "hostname": text(253), "protocol": text(255), "port": {"type": "integer", "format": "int32"},
        "tls": {"type": "object", "properties": {"mode": {"type": "string", "enum": ["Terminate", "Passthrough"]},
            "certificateRefs": {"type": "array", "maxItems": 64, "items": {"type": "object"}}}}}});
    let listeners = json!({"type": "array", "maxItems": 64, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"], "items": listener, "x-kubernetes-validations": [
            {"rule": "self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)"},
            {"rule": "self.all(l, (l.protocol == 'TLS' && has(l.tls)) ? size(l.tls.certificateRefs) > 0 : true)"},
            {"rule": "self.all(l1, self.exists_one(l2, l1.name == l2.name))"},
            {"rule": "self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))"}]});
    let path = json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["Exact", "PathPrefix"]}, "value": text(1024)},
        "x-kubernetes-validations": [
            {"rule": "(self.type in ['Exact', 'PathPrefix']) ? self.value.startsWith('/') : true"},
            {"rule": "(self.type in ['Exact', 'PathPrefix']) ? !self.value.contains('//') : true"},
            {"rule": "(self.type in ['Exact', 'PathPrefix']) ? self.value.matches(r\"\"\"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$\"\"\") : true"}]});
    let filter = json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["RequestHeaderModifier", "URLRewrite"]},
        "requestHeaderModifier": {"type": "object"}, "urlRewrite": {"type": "object"}},
        "x-kubernetes-validations": [
            {"rule": "!(has(self.requestHeaderModifier) && self.type != 'RequestHeaderModifier')"},
            {"rule": "!(!has(self.urlRewrite) && self.type == 'URLRewrite')"}]});
    let rules = json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {
        "matches": {"type": "array", "maxItems": 64, "items": {"type": "object", "properties": {"path": path}}},
        "filters": {"type": "array", "maxItems": 16, "items": filter, "x-kubernetes-validations": [
            {"rule": "self.filter(f, f.type == 'RequestHeaderModifier').size() <= 1"}]}}},
        "x-kubernetes-validations": [{"rule": "(self.size() > 0 ? self[0].matches.size() : 0) + (self.size() > 1 ? self[1].matches.size() : 0) <= 128"}]});
    let unbounded = json!({"type": "object", "properties": {
        "size": {"x-kubernetes-int-or-string": true}, "class": {"type": "string"}, "when": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "on": {"type": "boolean"}}}}},
        "x-kubernetes-validations": [
            {"rule": "self.class == oldSelf.class", "message": "class is immutable"},
            {"rule": "type(self.size) == int ? self.size > 0 : quantity(self.size).isGreaterThan(quantity('0'))"},
            {"rule": "has(self.class) == has(oldSelf.class)"},
            {"rule": "!has(self.items) || self.items.all(i, has(i.name) || i.on)"},
            {"rule": "!has(self.labels) || self.labels.size() <= 16"},
            {"rule": "!has(self.labels) || !('a' in self.labels) || self.labels['a'] == 'b'"},
            {"rule": "self.class.matches('^[a-z]+$')"},
            {"rule": "self.when > timestamp('2020-01-01T00:00:00Z')"},
            {"rule": "[has(self.size), has(self.class)].exists_one(x, x)"},
            {"rule": "oldSelf.?class.orValue('') == ''", "optionalOldSelf": true}]});
    for schema in [listeners, rules, unbounded] {
        assert_eq!(refused(&schema), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn selectable_fields_point_to_scalars() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"},
        "o": {"type": "object"}, "l": {"type": "array", "items": {"type": "string"}}}});
    for (paths, expected) in [
        (json!([".spec.a", ".spec.n"]), None),
        (
            json!([".spec.z"]),
            Some(r#"[0].jsonPath: Invalid value: ".spec.z": is an invalid path: does not refer to a valid field"#),
        ),
        (
            json!(["spec.a"]),
            Some(r#"[0].jsonPath: Invalid value: "spec.a": is an invalid path: expected [ or . but got: spec"#),
        ),
        (
            json!([".spec['a']"]),
            Some(r#"[0].jsonPath: Invalid value: ".spec['a']": is an invalid path: array notation is not allowed"#),
        ),
        (
            json!([".spec.o"]),
            Some(
                r#"[0].jsonPath: Invalid value: ".spec.o": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
            ),
        ),
        (
            json!([".metadata.name"]),
            Some(
                r#"[0].jsonPath: Invalid value: ".metadata.name": is an invalid path: does not refer to a valid field"#,
            ),
        ),
        (json!([".spec.a", ".spec.a"]), Some(r#"[1].jsonPath: Duplicate value: ".spec.a""#)),
        (json!([""]), Some("[0].jsonPath: Required value")),
    ] {
        let fields: Vec<Value> = paths.as_array().into_iter().flatten().map(|path| json!({"jsonPath": path})).collect();
        let mut crd = crate::definitions::definition(&spec);
        crd["spec"]["versions"][0]["selectableFields"] = json!(fields);
        let errors = crate::definitions::create_errors(&crd);
        let expected: Vec<String> = expected.into_iter().map(|text| format!("spec.selectableFields{text}")).collect();
        assert_eq!(errors, expected, "{paths}");
    }
}
