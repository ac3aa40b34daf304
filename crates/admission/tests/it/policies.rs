//! ValidatingAdmissionPolicies: bindings, parameters, variables, messages, actions.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Plane, Reply, config_map};

pub const API: &str = "/apis/admissionregistration.k8s.io/v1";

pub fn policy(name: &str, spec: Value) -> Value {
    let mut all = json!({"matchConstraints": {"resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}});
    all.as_object_mut().expect("a map").extend(spec.as_object().cloned().expect("a map"));
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": all})
}

pub fn binding(name: &str, policy: &str, spec: Value) -> Value {
    let mut all = json!({"policyName": policy, "validationActions": ["Deny"]});
    all.as_object_mut().expect("a map").extend(spec.as_object().cloned().expect("a map"));
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": all})
}

pub async fn put(plane: &Plane, plural: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().expect("a name");
    plane.delete(&format!("{API}/{plural}/{name}")).await;
    let reply = plane.post(&format!("{API}/{plural}"), object).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    plane.observed().await;
}

/// Replaces the policy and its binding.
async fn bind(plane: &Plane, spec: Value, of_binding: Value) {
    put(plane, "validatingadmissionpolicies", &policy("p", spec)).await;
    put(plane, "validatingadmissionpolicybindings", &binding("b", "p", of_binding)).await;
}

pub async fn dry_run(plane: &Plane, object: &Value) -> Reply {
    plane.post(&format!("{CONFIG_MAPS}?dryRun=All"), object).await
}

#[tokio::test]
async fn violations_match_kube_apiservers_messages() {
    let plane = Plane::start().await;
    let object = config_map("a");
    let of = |validation: Value| json!({"validations": [validation]});
    let missing = "expression 'object.data.x == 'y'' resulted in error: no such key: x";
    for (spec, code, reason, message) in [
        (of(json!({"expression": "object.data.k == 'v'"})), 201, "", ""),
        (
            of(json!({"expression": " object.data.k == 'w' "})),
            422,
            "Invalid",
            "failed expression: object.data.k == 'w'",
        ),
        (of(json!({"expression": "false", "message": "no", "reason": "Forbidden"})), 403, "Forbidden", "no"),
        (
            of(json!({"expression": "false", "message": "no", "messageExpression": "'k is ' + object.data.k"})),
            422,
            "Invalid",
            "k is v",
        ),
        // A message that cannot be computed is replaced.
        (of(json!({"expression": "false", "message": "no", "messageExpression": "object.nope"})), 0, "", ""),
        (
            of(json!({"expression": "false", "message": "no", "messageExpression": "string(object.nope)"})),
            422,
            "Invalid",
            "no",
        ),
        (of(json!({"expression": "false", "message": "no", "messageExpression": "'a\\nb'"})), 422, "Invalid", "no"),
        (of(json!({"expression": "object.data.x == 'y'"})), 422, "Invalid", missing),
        (json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.x == 'y'"}]}), 201, "", ""),
        (
            json!({"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}],
                   "validations": [{"expression": "false"}]}),
            201,
            "",
            "",
        ),
        (
            json!({"variables": [{"name": "k", "expression": "object.data.k"}, {"name": "twice", "expression": "variables.k + variables.k"}],
                   "validations": [{"expression": "variables.twice == 'vv'"}]}),
            201,
            "",
            "",
        ),
        // A variable that fails matters only where it is used.
        (
            json!({"variables": [{"name": "x", "expression": "object.data.x"}],
                   "validations": [{"expression": "!has(object.data.x) || variables.x == 'y'"}]}),
            201,
            "",
            "",
        ),
        (
            json!({"variables": [{"name": "x", "expression": "object.data.x"}], "validations": [{"expression": "variables.x == 'y'"}]}),
            422,
            "Invalid",
            "expression 'variables.x == 'y'' resulted in error: composited variable \"x\" fails to evaluate: no such key: x",
        ),
        (of(json!({"expression": "namespaceObject.metadata.labels['env'] == 'prod'"})), 201, "", ""),
        (
            of(json!({"expression": "oldObject == null && request.dryRun && request.namespace == 'default'"})),
            201,
            "",
            "",
        ),
        (of(json!({"expression": "authorizer.group('').resource('nodes').check('delete').allowed()"})), 201, "", ""),
        (of(json!({"expression": "authorizer.requestResource.check('create').allowed()"})), 201, "", ""),
        (
            of(
                json!({"expression": "!authorizer.serviceAccount('default', 'x').group('').resource('nodes').check('get').allowed()"}),
            ),
            201,
            "",
            "",
        ),
        (
            json!({"auditAnnotations": [{"key": "a", "valueExpression": "string(object.data.x)"}]}),
            422,
            "Invalid",
            "expression 'string(object.data.x)' resulted in error: no such key: x",
        ),
        (json!({"auditAnnotations": [{"key": "a", "valueExpression": "'is ' + object.data.k"}]}), 201, "", ""),
        (
            json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, "validations": [{"expression": "true"}]}),
            422,
            "Invalid",
            "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'",
        ),
    ] {
        if code == 0 {
            let reply = plane.post(&format!("{API}/validatingadmissionpolicies"), &policy("q", spec)).await;
            assert!(reply.code == 422 && reply.message().ends_with("must evaluate to string but got dyn"), "{reply:?}");
            continue;
        }
        bind(&plane, spec.clone(), json!({})).await;
        let reply = dry_run(&plane, &object).await;
        assert_eq!((reply.code, reply.body["reason"].as_str().unwrap_or_default()), (code, reason), "{spec} {reply:?}");
        if code != 201 {
            let by = if message.starts_with("failed to configure policy") { "" } else { " with binding 'b'" };
            let text = format!("ValidatingAdmissionPolicy 'p'{by} denied request: {message}");
            assert_eq!(reply.message(), format!("configmaps \"a\" is forbidden: {text}"), "{spec}");
            assert_eq!(reply.body["details"]["causes"], json!([{"message": text}]), "{spec}");
        }
    }
}

#[tokio::test]
async fn validation_actions_apply_through_bindings() {
    let plane = Plane::start().await;
    let never = json!({"validations": [{"expression": "false", "message": "no"}]});
    put(&plane, "validatingadmissionpolicies", &policy("p", never.clone())).await;
    assert_eq!(dry_run(&plane, &config_map("a")).await.code, 201, "nothing binds the policy");
    let warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no";
    for (actions, code, warnings) in [
        (json!(["Warn"]), 201, vec![warning]),
        (json!(["Audit"]), 201, vec![]),
        (json!(["Warn", "Audit"]), 201, vec![warning]),
        (json!(["Deny", "Audit"]), 422, vec![]),
    ] {
        bind(&plane, never.clone(), json!({"validationActions": actions})).await;
        let reply = dry_run(&plane, &config_map("a")).await;
        assert_eq!(
            (reply.code, reply.warnings),
            (code, warnings.iter().map(ToString::to_string).collect()),
            "{actions}"
        );
    }
    for (resources, code) in [
        (json!({"namespaceSelector": {"matchLabels": {"env": "test"}}}), 201),
        (json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}), 422),
        (json!({"objectSelector": {"matchLabels": {"a": "b"}}}), 201),
        (
            json!({"resourceRules": [{"operations": ["DELETE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}),
            201,
        ),
        (
            json!({"excludeResourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "resourceNames": ["a"]}]}),
            201,
        ),
    ] {
        bind(&plane, never.clone(), json!({"matchResources": resources})).await;
        assert_eq!(dry_run(&plane, &config_map("a")).await.code, code, "{resources}");
    }
}

#[tokio::test]
async fn parameters_are_found_or_missing() {
    let plane = Plane::start().await;
    let mut limit = config_map("limit");
    limit["metadata"]["labels"] = json!({"use": "limit"});
    limit["data"] = json!({"k": "v"});
    assert_eq!(plane.post(CONFIG_MAPS, &limit).await.code, 201);
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                      "validations": [{"expression": "params == null || object.data.k == params.data.k"}]});
    let other = {
        let mut other = config_map("a");
        other["data"]["k"] = "w".into();
        other
    };
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (reference, expected) in [
        (
            json!({"name": "limit", "parameterNotFoundAction": "Deny"}),
            "failed expression: params == null || object.data.k == params.data.k",
        ),
        (
            json!({"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}),
            "failed expression: params == null || object.data.k == params.data.k",
        ),
        (
            json!({"selector": {"matchLabels": {"use": "limit"}}, "parameterNotFoundAction": "Deny"}),
            "failed expression: params == null || object.data.k == params.data.k",
        ),
        (json!({"name": "none", "parameterNotFoundAction": "Deny"}), missing),
        (json!({"selector": {"matchLabels": {"use": "none"}}, "parameterNotFoundAction": "Deny"}), missing),
        (json!({"name": "none", "parameterNotFoundAction": "Allow"}), ""),
        (json!(null), ""),
    ] {
        let of_binding = if reference.is_null() { json!({}) } else { json!({ "paramRef": reference }) };
        bind(&plane, spec.clone(), of_binding).await;
        let reply = dry_run(&plane, &other).await;
        assert_eq!(reply.code == 201, expected.is_empty(), "{reference} {reply:?}");
        assert!(reply.message().ends_with(expected), "{reference} {reply:?}");
    }
}

/// Policies are evaluated on deletions, and their bindings can always be removed.
#[tokio::test]
async fn deletions_are_validated_and_policies_are_exempt() {
    let plane = Plane::start().await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a")).await.code, 201);
    let everything = json!({"resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]});
    bind(
        &plane,
        json!({"matchConstraints": everything, "validations": [{"expression": "request.operation != 'DELETE'"}]}),
        json!({}),
    )
    .await;
    let one = format!("{CONFIG_MAPS}/a");
    assert_eq!(plane.delete(&one).await.code, 422);
    assert_eq!(plane.send(Method::GET, &one, "", &Value::Null).await.code, 200);
    assert_eq!(plane.delete(&format!("{API}/validatingadmissionpolicybindings/b")).await.code, 200);
    plane.observed().await;
    assert_eq!(plane.delete(&one).await.code, 200);
}

/// Null has no fields: neither `object` of a deletion, nor `params` of a binding without parameters. A collection has
/// no name.
#[tokio::test]
async fn null_has_no_fields() {
    let plane = Plane::start().await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a")).await.code, 201);
    let all = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
        {"expression": "object.data.k == 'v'"}, {"expression": "params.data.k == 'v'"}, {"expression": "!has(params.data)"}]});
    bind(&plane, all, json!({"validationActions": ["Warn"]})).await;
    let warnings = |field: &str, source: &str| {
        format!(
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': expression '{source}' resulted in \
             error: no such key: {field}"
        )
    };
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    let expected = [warnings("data", "object.data.k == 'v'"), warnings("data", "params.data.k == 'v'")];
    assert_eq!(plane.delete(&path).await.warnings, expected);
    bind(&plane, json!({"validations": [{"expression": "false", "message": "no"}]}), json!({})).await;
    let reply = plane.delete(CONFIG_MAPS).await;
    let expected =
        "configmaps \"Unknown\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    assert_eq!((reply.code, reply.message(), &reply.body["details"]["name"]), (422, expected, &json!("Unknown")));
}

/// Expressions of a policy share one budget, and none runs long.
#[tokio::test]
async fn expensive_expressions_are_aborted() {
    let plane = Plane::start().await;
    let numbers = (0..1000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let mut object = config_map("a");
    object["data"]["list"] = numbers.into();
    let source = "object.data.list.split(',').all(a, object.data.list.split(',').all(b, a != b || true))";
    bind(&plane, json!({"validations": [{"expression": source}]}), json!({})).await;
    let reply = dry_run(&plane, &object).await;
    assert!(
        reply.code == 422 && reply.message().ends_with("operation cancelled: actual cost limit exceeded"),
        "{reply:?}"
    );
    let checks = json!({"expression": "authorizer.group('').resource('x').check('get').allowed()"});
    bind(&plane, json!({"validations": vec![checks; 30]}), json!({})).await;
    let reply = dry_run(&plane, &object).await;
    assert!(
        reply.code == 422
            && reply.message().ends_with("running out of cost budget, no further validation rules will be run"),
        "{reply:?}"
    );
}

/// Users who may create parameters decide how often the expressions of a policy are evaluated.
#[tokio::test]
async fn many_parameters_delay_no_other_request() {
    let plane = Plane::start().await;
    for n in 0..300 {
        let mut limit = config_map(&format!("limit-{n}"));
        limit["metadata"]["labels"] = json!({"use": "limit"});
        assert_eq!(plane.post(CONFIG_MAPS, &limit).await.code, 201);
    }
    let numbers = (0..100).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let mut object = config_map("a");
    object["data"]["list"] = numbers.into();
    let source = "object.data.list.split(',').all(a, object.data.list.split(',').all(b, a != b || true))";
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": source}]});
    let reference = json!({"selector": {"matchLabels": {"use": "limit"}}, "parameterNotFoundAction": "Deny"});
    bind(&plane, spec, json!({ "paramRef": reference })).await;
    let (expensive, path) = (dry_run(&plane, &object), format!("{CONFIG_MAPS}/limit-1"));
    tokio::pin!(expensive);
    let mut others = 0;
    let reply = loop {
        tokio::select! {
            biased;
            reply = &mut expensive => break reply,
            other = plane.send(Method::GET, &path, "", &Value::Null) => {
                assert_eq!(other.code, 200);
                others += 1;
            }
        }
    };
    assert_eq!(reply.code, 201, "{reply:?}");
    assert!(others >= 50, "{others} other requests were served beside it");
}
