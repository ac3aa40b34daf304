//! MutatingAdmissionPolicies: patches, configurations, their order and their failures.

use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Plane, config_map};
use crate::policies::{API, binding, dry_run, policy, put};

fn mutating(name: &str, spec: Value) -> Value {
    let mut policy = policy(name, spec);
    policy["kind"] = "MutatingAdmissionPolicy".into();
    if policy["spec"].get("reinvocationPolicy").is_none() {
        policy["spec"]["reinvocationPolicy"] = "Never".into();
    }
    policy
}

async fn bind_mutating(plane: &Plane, spec: Value, of_binding: Value) {
    put(plane, "mutatingadmissionpolicies", &mutating("p", spec)).await;
    put(plane, "mutatingadmissionpolicybindings", &mutating_binding("b", "p", of_binding)).await;
}

fn mutating_binding(name: &str, policy: &str, spec: Value) -> Value {
    let mut binding = binding(name, policy, spec);
    binding["kind"] = "MutatingAdmissionPolicyBinding".into();
    binding["spec"].as_object_mut().expect("a map").remove("validationActions");
    binding
}

fn configuration(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn operations(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

#[tokio::test]
async fn mutating_policies_change_objects() {
    let plane = Plane::start().await;
    let labels = "Object{metadata: Object.metadata{labels: {'by': object.data.k}}}";
    let patch = "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('more'), value: 'x'}]";
    for (spec, code, expected) in [
        (json!({"mutations": [configuration(labels)]}), 201, json!({"by": "v"})),
        (
            json!({"mutations": [operations(patch), configuration("Object{metadata: Object.metadata{labels: {'by': object.data.more}}}")]}),
            201,
            json!({"by": "x"}),
        ),
        (
            json!({"variables": [{"name": "k", "expression": "object.data.k"}],
                   "mutations": [operations("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': variables.k}}]")]}),
            201,
            json!({"by": "v"}),
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "false"}], "mutations": [configuration(labels)]}),
            201,
            json!(null),
        ),
        (
            json!({"failurePolicy": "Ignore", "mutations": [configuration("Object{metadata: Object.metadata{labels: {'a': object.data.x}}}")]}),
            201,
            json!(null),
        ),
        (
            json!({"mutations": [operations("[JSONPatch{op: 'remove', path: '/data/x'}]")]}),
            403,
            json!(
                "policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/data/x': Unable to \
                 remove nonexistent key: x: missing value"
            ),
        ),
        // A test that fails leaves the object unchanged.
        (
            json!({"mutations": [operations("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}, \
                                             JSONPatch{op: 'test', path: '/data/k', value: 'w'}]")]}),
            201,
            json!(null),
        ),
        // No value passes a test for null.
        (
            json!({"mutations": [operations("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}, \
                                             JSONPatch{op: 'test', path: '/data/x', value: null}, \
                                             JSONPatch{op: 'remove', path: '/data/x'}]")]}),
            201,
            json!(null),
        ),
        // The next mutation is applied all the same.
        (
            json!({"failurePolicy": "Ignore", "mutations": [operations("[JSONPatch{op: 'remove', path: '/data/x'}]"), configuration(labels)]}),
            201,
            json!({"by": "v"}),
        ),
        (
            json!({"mutations": [operations("[JSONPatch{op: 'add', path: '/data/x', value: quantity('1')}]")]}),
            403,
            json!(
                "policy 'p' with binding 'b' denied request: JSONPath valueExpression evaluated to a type that could not \
                 marshal to JSON: type conversion error from 'Quantity' to '*structpb.Value'"
            ),
        ),
        (
            json!({"mutations": [operations("[JSONPatch{op: 'replace', path: '/kind', value: 'Secret'}]")]}),
            422,
            json!("Secret \"a\" is invalid: kind: Invalid value: \"Secret\": must be ConfigMap"),
        ),
        (
            json!({"mutations": [operations("[JSONPatch{op: 'remove', path: '/kind'}]")]}),
            500,
            json!("Internal error occurred: Object 'Kind' is missing in '"),
        ),
        (
            json!({"mutations": [operations("[JSONPatch{op: 'replace', path: '/metadata/namespace', value: 'other'}]")]}),
            400,
            json!("the namespace of the provided object does not match the namespace sent on the request"),
        ),
        (
            json!({"mutations": [configuration("Object{metadata: Object.metadata{managedFields: []}}")]}),
            403,
            json!(
                "policy 'p' with binding 'b' denied request: error applying patch: invalid ApplyConfiguration: may not \
                 mutate atomic arrays, maps or structs: .metadata.managedFields"
            ),
        ),
        (
            json!({"mutations": [configuration("Object{data: Object.data{k: 5}}")]}),
            403,
            json!(
                "policy 'p' with binding 'b' denied request: error applying patch: failed to convert patch object to typed \
                 object: .data.k: expected string, got "
            ),
        ),
        // The kind is the object's, whatever the configuration has.
        (
            json!({"mutations": [configuration("Object{kind: 'Secret', metadata: Object.metadata{labels: {'by': 'x'}}}")]}),
            201,
            json!({"by": "x"}),
        ),
        (
            json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, "mutations": [configuration(labels)]}),
            403,
            json!(
                "policy \"p\" denied request: failed to configure policy: failed to find resource referenced by paramKind: \
                 'example.com/v1, Kind=Limit'"
            ),
        ),
        (
            json!({"mutations": [configuration("Object{metadata: Object.metadata{labels: {'a': object.data.x}}}")]}),
            403,
            json!(
                "policy 'p' with binding 'b' denied request: expression 'Object{metadata: Object.metadata{labels: {'a': object.data.x}}}' resulted in error: no such key: x"
            ),
        ),
    ] {
        bind_mutating(&plane, spec.clone(), json!({})).await;
        let reply = dry_run(&plane, &config_map("a")).await;
        assert_eq!(reply.code, code, "{spec} {reply:?}");
        match code {
            201 => assert_eq!(reply.body["metadata"]["labels"], expected, "{spec}"),
            _ => assert!(reply.message().starts_with(expected.as_str().expect("a text")), "{spec} {reply:?}"),
        }
    }
    for (mutation, expected) in [
        (configuration("{'a': 'b'}"), "must evaluate to Object but got map(string, string)"),
        (operations("Object{}"), "must evaluate to list(JSONPatch) but got Object"),
        (operations("[]"), "must evaluate to list(JSONPatch) but got list(dyn)"),
        (operations("[JSONPatch{op: 'add', path: '/a', value: [1, 'b']}]"), "expected type 'int' but found 'string'"),
        (operations("[JSONPatch{nope: 1}]"), "undefined field 'nope'"),
    ] {
        let reply = plane
            .post(&format!("{API}/mutatingadmissionpolicies"), &mutating("q", json!({"mutations": [mutation]})))
            .await;
        assert!(reply.code == 422 && reply.message().contains(expected), "{reply:?}");
    }
}

/// All failures are causes; the first one is the message.
#[tokio::test]
async fn failures_of_policies_are_collected() {
    let plane = Plane::start().await;
    let remove = |field: &str| operations(&format!("[JSONPatch{{op: 'remove', path: '/data/{field}'}}]"));
    bind_mutating(&plane, json!({"mutations": [remove("x"), remove("y")]}), json!({})).await;
    let reply = dry_run(&plane, &config_map("a")).await;
    let failed = |field: &str| {
        format!(
            "policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/data/{field}': Unable to \
             remove nonexistent key: {field}: missing value"
        )
    };
    assert_eq!((reply.code, &reply.body["reason"], reply.message()), (403, &json!("Invalid"), failed("x").as_str()));
    assert_eq!(reply.body["details"]["causes"], json!([{"message": failed("x")}, {"message": failed("y")}]));
    // Without a name, the policy's refusal has the prefix of the names.
    let mut unnamed = config_map("a");
    unnamed["metadata"] = json!({"generateName": "a-", "namespace": "default"});
    assert_eq!(dry_run(&plane, &unnamed).await.body["details"]["name"], "a-");
}

/// Which policies match is decided before the first one changes the object; one that requests it is called again after
/// its own change.
#[tokio::test]
async fn policies_match_the_object_of_the_request() {
    let plane = Plane::start().await;
    let append = |letter: &str| {
        operations(&format!("[JSONPatch{{op: 'add', path: '/data/k', value: object.data.k + '{letter}'}}]"))
    };
    let label = operations("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'late': 'yes'}}]");
    let late = json!({"matchConstraints": {"objectSelector": {"matchLabels": {"late": "yes"}}, "resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "mutations": [append("z")]});
    put(&plane, "mutatingadmissionpolicies", &mutating("q", late)).await;
    put(&plane, "mutatingadmissionpolicybindings", &mutating_binding("c", "q", json!({}))).await;
    for (reinvocation, expected) in [("Never", "va"), ("IfNeeded", "vaa")] {
        let spec = json!({"mutations": [label, append("a")], "reinvocationPolicy": reinvocation});
        bind_mutating(&plane, spec, json!({})).await;
        let reply = dry_run(&plane, &config_map("a")).await;
        assert_eq!(reply.body["data"]["k"], expected, "{reinvocation} {reply:?}");
    }
}

/// Lists of objects are merged by their keys, as by server-side apply.
#[tokio::test]
async fn configurations_are_merged_by_the_schema() {
    let plane = Plane::start().await;
    let spec = json!({
    "matchConstraints": {"resourceRules": [
        {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]},
    "mutations": [configuration(
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [\
         Object.spec.template.spec.containers{name: 'side', image: 's'}]}}}}",
    )]});
    bind_mutating(&plane, spec, json!({})).await;
    let labels = json!({"app": "web"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let reply = plane.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    let containers = reply.body["spec"]["template"]["spec"]["containers"].as_array().expect("containers");
    let names: Vec<&str> = containers.iter().filter_map(|container| container["name"].as_str()).collect();
    assert_eq!((reply.code, names), (201, vec!["c", "side"]), "{reply:?}");
    assert_eq!(containers[1]["imagePullPolicy"], "Always", "defaults are filled in");
}

/// A policy sees the patch of a later webhook, if it requests reinvocation.
#[tokio::test]
async fn policies_run_again_after_webhooks() {
    let (plane, hooks) = (Plane::start().await, crate::harness::Hooks::start().await);
    plane.configure("Mutating", "m", vec![hooks.webhook("w", "label/hook", json!({}))]).await;
    let seen = "[JSONPatch{op: 'add', path: '/data/seen', value: object.metadata.?labels['by'].orValue('none')}]";
    for (reinvocation, expected) in [("Never", "none"), ("IfNeeded", "hook")] {
        let spec = json!({"mutations": [operations(seen)], "reinvocationPolicy": reinvocation});
        bind_mutating(&plane, spec, json!({})).await;
        let reply = dry_run(&plane, &config_map("a")).await;
        assert_eq!(reply.body["data"]["seen"], expected, "{reinvocation} {reply:?}");
    }
}

/// Each mutation may add as much as all before it, and users may create as many parameters as they like.
#[tokio::test]
async fn mutations_end_at_the_size_of_the_largest_object() {
    let plane = Plane::start().await;
    for n in 0..100 {
        let mut param = config_map(&format!("param-{n}"));
        param["metadata"]["labels"] = json!({"use": "grow"});
        assert_eq!(plane.post(CONFIG_MAPS, &param).await.code, 201);
    }
    let mut object = config_map("a");
    object["data"]["big"] = "x".repeat(100 << 10).into();
    let grow = operations("[JSONPatch{op: 'add', path: '/data/' + params.metadata.name, value: object.data.big}]");
    let of_params = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "mutations": [grow]});
    let reference = json!({"selector": {"matchLabels": {"use": "grow"}}, "parameterNotFoundAction": "Deny"});
    // A list of lists of one value takes little memory until it is a document.
    let level =
        |n: usize, of: &str| json!({"name": format!("v{n}"), "expression": format!("[{}]", [of; 10].join(", "))});
    let mut variables = vec![level(0, "object.data.big")];
    variables.extend((1..9).map(|n| level(n, &format!("variables.v{}", n - 1))));
    let repeat = operations("[JSONPatch{op: 'add', path: '/data/x', value: variables.v8}]");
    let repeated = json!({"variables": variables, "mutations": [repeat]});
    for (spec, of_binding, code, expected) in [
        (
            of_params,
            json!({ "paramRef": reference }),
            413,
            "Request entity too large: the object takes more than 4194304 bytes",
        ),
        (
            repeated,
            json!({}),
            403,
            "policy 'p' with binding 'b' denied request: JSONPath valueExpression evaluated to a type that could not \
             marshal to JSON: the computed document is too large",
        ),
    ] {
        bind_mutating(&plane, spec, of_binding).await;
        let reply = dry_run(&plane, &object).await;
        assert_eq!((reply.code, reply.message()), (code, expected));
    }
}
