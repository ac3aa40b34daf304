use super::*;

fn document() -> Document {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let text = json!({"type": "string"});
    let kind = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    let port = json!({"oneOf": [{"type": "string"}, {"type": "integer"}], "format": "int-or-string"});
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "format": "int32"}, "paused": {"type": "boolean"}, "free": {"type": "object"},
        "port": port, "data": {"type": "object", "additionalProperties": text}, "since": {"type": "string", "format": "date-time"},
        "containers": {"type": "array", "items": reference("io.Container")}, "more": {"description": "anything"},
        "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": text}}}});
    let container = json!({"type": "object", "properties": {"image": text, "within": reference("io.Container")}});
    let metadata = json!({"type": "object", "properties": {"name": text, "labels": {"type": "object", "additionalProperties": text}}});
    let deployment = json!({"type": "object", "x-kubernetes-group-version-kind": kind, "properties": {
        "kind": text, "metadata": {"allOf": [reference("io.Meta")], "default": {}}, "spec": reference("io.Spec")}});
    Document::new(json!({"components": {"schemas": {
        "io.Meta": metadata, "io.Spec": spec, "io.Container": container, "io.Deployment": deployment}}}))
}

fn deployment() -> GroupVersionKind {
    GroupVersionKind::new("apps", "v1", "Deployment")
}

fn types() -> Types {
    Types { objects: vec![(deployment(), document().shape(&deployment()).expect("a schema"))], params: None }
}

fn rule(groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": groups, "apiVersions": versions, "resources": resources, "operations": ["*"]})
}

fn of_rules(rules: &[Value]) -> Value {
    json!({"spec": {"matchConstraints": {"resourceRules": rules}}})
}

#[test]
fn rules_name_resources() {
    for (rules, expected) in [
        (vec![rule(&["apps"], &["v1"], &["deployments"])], "apps/v1/deployments"),
        (vec![rule(&["*"], &["v1"], &["deployments"])], ""),
        (vec![rule(&["apps"], &["v1", "*"], &["deployments"])], ""),
        (vec![rule(&["apps"], &["v1"], &["*", "deployments/scale", "pods/*", "daemonsets"])], "apps/v1/daemonsets"),
        (
            vec![rule(&["b", "a"], &["v2", "v1"], &["y", "x"])],
            "a/v1/x a/v1/y a/v2/x a/v2/y b/v1/x b/v1/y b/v2/x b/v2/y",
        ),
        (vec![rule(&[""], &["v1"], &["pods"]), rule(&["*"], &["*"], &["*"])], "/v1/pods"),
        (vec![], ""),
    ] {
        let found = resources(&of_rules(&rules));
        let text = |it: &GroupVersionResource| format!("{}/{}/{}", it.group, it.version, it.resource);
        let found: Vec<String> = found.iter().flatten().map(text).collect();
        assert_eq!(found.join(" "), expected);
    }
}

#[test]
fn at_most_ten_kinds_of_a_rule_are_checked() {
    let many: Vec<String> = (0..30).map(|number| format!("r{number:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let kind = |it: &GroupVersionResource| {
        (it.resource != "absent")
            .then(|| GroupVersionKind::new(it.group.clone(), it.version.clone(), it.resource.clone()))
    };
    for (rules, expected) in [
        (vec![rule(&["g"], &["v1"], &["absent", "b", "a"])], 2),
        (vec![rule(&["g"], &["v1"], &many)], 10),
        (vec![rule(&["g"], &["v1"], &many), rule(&["g"], &["v1"], &["x"])], 10),
        (vec![rule(&["g"], &["v1"], &many[..9]), rule(&["g"], &["v1"], &many[5..12])], 12),
    ] {
        assert_eq!(kinds(&resources(&of_rules(&rules)), kind).len(), expected);
    }
}

#[test]
fn expressions_are_checked_against_schemas() {
    for (expression, expected) in [
        ("object.spec.replicas <= 5", ""),
        ("object.replicas > 1", "undefined field 'replicas'"),
        ("oldObject.spec.replica > 1", "undefined field 'replica'"),
        ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("object.spec.paused && object.spec.replicas", "expected type 'bool' but found 'int'"),
        ("object.metadata.labels['a'] == object.metadata.name", ""),
        ("object.spec.containers.all(c, c.image.startsWith('a'))", ""),
        ("object.spec.containers.all(c, c.images == 'a')", "undefined field 'images'"),
        ("object.spec.containers[0].within.within.anything == 1", ""),
        ("object.spec.since < timestamp('2026-01-01T00:00:00Z')", ""),
        ("object.spec.data.key == 'a' && object.spec.port == 1 && object.spec.port == 'a'", ""),
        ("object.spec.free.a == 1 && object.spec.more.a == 1 && object.spec.kept.b == 1", ""),
        ("oldObject == null || object.spec == oldObject.spec", ""),
        ("has(object.spec.missing)", "undefined field 'missing'"),
        ("object.spec.?replicas.orValue(1) == 1", ""),
        ("params.x == 1", "undeclared reference to 'params'"),
        ("authorizer.requestResource.check('get').allowed()", ""),
        ("request.nope == ''", "undefined field 'nope'"),
    ] {
        let policy = json!({"spec": {"validations": [{"expression": "true"}, {"expression": expression}]}});
        let found = check(&policy, &types());
        if expected.is_empty() {
            assert_eq!(found, json!({}), "{expression}");
            continue;
        }
        let warning = &found["expressionWarnings"][0];
        assert_eq!(warning["fieldRef"], "spec.validations[1].expression", "{expression}");
        assert!(warning["warning"].as_str().is_some_and(|it| it.contains(expected)), "{expression}: {warning}");
    }
}

#[test]
fn warnings_have_the_text_of_kube_apiserver() {
    let mut types = types();
    types.objects.push((GroupVersionKind::new("", "v1", "Thing"), Arc::clone(&types.objects[0].1)));
    types.params = document().shape(&deployment());
    let policy = json!({"spec": {
        "variables": [{"name": "limit", "expression": "params.spec.replicas"}, {"name": "broken", "expression": "object.x"}],
        "validations": [
            {"expression": "object.replicas > 1", "messageExpression": "'limit ' + variables.limit"},
            {"expression": "variables.broken == 1 && variables.limit > 1", "messageExpression": ""}]}});
    let of = |kind: &str, why: &str| format!("{kind}: compilation failed: ERROR: <input>:1:{why}\n");
    let both = |why: &str| format!("{}\n{}", of("apps/v1, Kind=Deployment", why), of("/v1, Kind=Thing", why));
    let expected = json!({"expressionWarnings": [
        {"fieldRef": "spec.validations[0].expression",
         "warning": both("7: undefined field 'replicas'\n | object.replicas > 1\n | ......^")},
        {"fieldRef": "spec.validations[0].messageExpression",
         "warning": both("10: found no matching overload for '_+_' applied to '(string, int)'\n | 'limit ' + variables.limit\n | .........^")},
    ]});
    assert_eq!(check(&policy, &types), expected);
    assert_eq!(check(&policy, &Types::default()), json!({}));
}

#[test]
fn malformed_documents_are_rejected() {
    let kind = deployment();
    let of = |schemas: Value| Document::new(json!({"components": {"schemas": schemas}})).shape(&kind).is_some();
    let named = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    assert!(!of(json!({})) && !of(json!(7)) && !of(json!({"a": {"type": "object", "properties": {}}})));
    assert!(!of(json!({"a": {"type": "string", "x-kubernetes-group-version-kind": named}})));
    assert!(of(json!({"a": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/a"}},
        "x-kubernetes-group-version-kind": named}})));
    let mut deep = json!({"type": "string"});
    for _ in 0..1_000 {
        deep = json!({"type": "array", "items": deep});
    }
    assert!(of(json!({"a": {"type": "object", "properties": {"b": deep}, "x-kubernetes-group-version-kind": named}})));
}
