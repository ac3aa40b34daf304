//! Warnings about the types in admission policies.

use serde_json::{Value, json};

use crate::harness::{Plane, resource};

const GROUP: &str = "admissionregistration.k8s.io/v1";

fn policy(name: &str, group: &str, plural: &str, expression: &str) -> Value {
    json!({"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [plural]}]},
        "validations": [{"expression": expression}]}})
}

fn definition(field: &str, type_: &str) -> Value {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {field: {"type": type_}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

#[tokio::test(start_paused = true)]
async fn policies_report_expressions_that_do_not_fit_the_types() {
    let plane = Plane::start(&["validatingadmissionpolicy-status"]).await;
    let policies = resource(GROUP, "ValidatingAdmissionPolicy");
    let warning_is = async |name: &str, generation: i64, expected: &str| {
        let policy = plane.get(&policies, name).await?;
        let warning = policy["status"]["typeChecking"]["expressionWarnings"][0]["warning"].as_str().unwrap_or_default();
        let is_checked =
            policy["status"]["observedGeneration"] == generation && policy["status"]["typeChecking"].is_object();
        (is_checked && warning.contains(expected) && warning.is_empty() == expected.is_empty()).then_some(())
    };
    plane.create(policy("built-in", "apps", "deployments", "object.replicas > 1")).await;
    let expected = "apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:7: undefined field 'replicas'";
    plane.until("a warning", || warning_is("built-in", 1, expected)).await;
    let fixed = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1 && object.metadata.labels.a == 'b'"}]}});
    plane.merge(&policies, "built-in", fixed).await;
    plane.until("no warning", || warning_is("built-in", 2, "")).await;

    plane.create(policy("custom", "example.com", "widgets", "object.spec.size > 1")).await;
    plane.until("no schema, no warning", || warning_is("custom", 1, "")).await;
    plane.create(definition("size", "string")).await;
    plane.until("the definition arrives", || warning_is("custom", 1, "found no matching overload")).await;
    let definitions = resource("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let changed = definition("size", "integer");
    plane.merge(&definitions, "widgets.example.com", json!({"spec": {"versions": changed["spec"]["versions"]}})).await;
    plane.until("the definition changes", || warning_is("custom", 1, "")).await;
    plane.delete(&definitions, "widgets.example.com", "").await;
    plane.settle().await;

    let writes =
        |plane: &Plane| plane.requests().into_iter().find(|(name, _)| name.contains("validatingadmissionpolicies"));
    let before = writes(&plane);
    plane.merge(&policies, "custom", json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.settle().await;
    assert!(before.is_some(), "statuses are written by patches");
    assert_eq!(before, writes(&plane), "nothing is written for a label");
    plane.shutdown().await;
}
