//! Autoscalers and limit ranges.

use expect_test::expect;

use serde_json::json;

use super::super::{check, update};

#[test]
fn autoscalers_and_limits() {
    let scaler = |rest: &str| {
        format!("spec: {{maxReplicas: 2, scaleTargetRef: {{apiVersion: a/v1, kind: D, name: d}}, {rest}}}")
    };
    for (rest, expected) in [
        (
            "metrics: [{type: X}, {type: Pods}, {type: External, external: {metric: {name: ''}, target: {type: Value}}}]",
            expect![[r#"
                spec.metrics[0].type: Unsupported value: "X": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"
                spec.metrics[1].pods: Required value: must populate information for the given metric source
                spec.metrics[2].external.metric.name: Required value: must specify a metric name
                spec.metrics[2].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target
            "#]],
        ),
        (
            "metrics: [{type: Object, object: {metric: {name: a}, target: {type: Value, value: 0}, describedObject: {kind: a}}}]",
            expect![[r#"
                spec.metrics[0].object.describedObject.name: Required value
                spec.metrics[0].object.target.value: Invalid value: "0": must be positive
            "#]],
        ),
        (
            "metrics: [{type: Resource, resource: {name: '', target: {type: AverageValue, averageUtilization: 0}}}]",
            expect![[r#"
                spec.metrics[0].resource.name: Required value: must specify a resource name
                spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0
            "#]],
        ),
        (
            "behavior: {scaleDown: {stabilizationWindowSeconds: 4000, policies: [{type: X, value: 0, periodSeconds: 0}]}, scaleUp: {policies: []}}",
            expect![[r#"
                spec.behavior.scaleUp.policies: Required value: must specify at least one Policy
                spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600
                spec.behavior.scaleDown.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"
                spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero
                spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero
            "#]],
        ),
        (
            "behavior: {scaleUp: {tolerance: -1}}, metrics: [{type: ContainerResource, containerResource: {name: cpu, container: A_, target: {type: Utilization, averageUtilization: 1}}}]",
            expect![[r#"
                spec.metrics[0].containerResource.container: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0
            "#]],
        ),
        (
            "metrics: [{type: Object, object: {}}, {type: Pods, pods: {}}, {type: External, external: {}}, {type: Resource, resource: {name: cpu}}]",
            expect![[r#"
                spec.metrics[0].object.describedObject.kind: Required value
                spec.metrics[0].object.describedObject.name: Required value
                spec.metrics[0].object.metric.name: Required value: must specify a metric name
                spec.metrics[0].object.target.type: Required value: must specify a metric target type
                spec.metrics[0].object.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue
                spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue
                spec.metrics[1].pods.metric.name: Required value: must specify a metric name
                spec.metrics[1].pods.target.type: Required value: must specify a metric target type
                spec.metrics[1].pods.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue
                spec.metrics[1].pods.target.averageValue: Required value: must specify a positive target averageValue
                spec.metrics[2].external.metric.name: Required value: must specify a metric name
                spec.metrics[2].external.target.type: Required value: must specify a metric target type
                spec.metrics[2].external.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue
                spec.metrics[2].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target
                spec.metrics[3].resource.target.type: Required value: must specify a metric target type
                spec.metrics[3].resource.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue
                spec.metrics[3].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization
            "#]],
        ),
        (
            "minReplicas: 0",
            expect![[r#"
            spec.minReplicas: Invalid value: 0: must be greater than or equal to 1
        "#]],
        ),
    ] {
        check("autoscaling", "HorizontalPodAutoscaler", &scaler(rest), expected);
    }
    for (target, expected) in [
        ("apiVersion: v1, kind: ReplicationController, name: d", expect![""]),
        (
            "apiVersion: v1, kind: Deployment, name: d",
            expect![[r#"
            spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group
        "#]],
        ),
        (
            "apiVersion: a/b/c, kind: ReplicationController, name: d",
            expect![[r#"
            spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c
        "#]],
        ),
    ] {
        let document = format!("spec: {{maxReplicas: 2, scaleTargetRef: {{{target}}}}}");
        check("autoscaling", "HorizontalPodAutoscaler", &document, expected);
    }
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "spec: {maxReplicas: 2}",
        expect![[r#"
        spec.scaleTargetRef.kind: Required value
        spec.scaleTargetRef.name: Required value
        spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group
    "#]],
    );
    // An unchanged target is not validated again.
    let old = "spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: v1, kind: Deployment, name: d}}";
    for (field, value, expected) in [
        ("spec.maxReplicas", json!(3), expect![""]),
        ("spec.scaleTargetRef.name", json!("e"), expect![""]),
        (
            "spec.scaleTargetRef.kind",
            json!("StatefulSet"),
            expect![[r#"
            spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group
        "#]],
        ),
    ] {
        expected.assert_eq(&update("autoscaling", "HorizontalPodAutoscaler", old, field, value));
    }
    for (group, kind, document, expected) in [
        (
            "",
            "LimitRange",
            "spec: {limits: [{type: X}, {type: Pod, default: {cpu: 1}}, {type: Pod}]}",
            expect![[r#"
            spec.limits[0].type: Invalid value: "X": must be a standard limit type or fully qualified
            spec.limits[1].default: Forbidden: may not be specified when `type` is 'Pod'
            spec.limits[2].type: Duplicate value: "Pod"
        "#]],
        ),
        (
            "",
            "LimitRange",
            "spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 500m}}]}",
            expect![[r#"
            spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1
        "#]],
        ),
        (
            "",
            "LimitRange",
            "spec: {limits: [{type: PersistentVolumeClaim}]}",
            expect![[r#"
            spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided
        "#]],
        ),
        (
            "",
            "ResourceQuota",
            "spec: {hard: {x: 1, pods: -1, cpu: 1}, scopes: [BestEffort, NotBestEffort, X]}",
            expect![[r#"
                spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0
                spec.hard[x]: Invalid value: "x": must be a standard resource type or fully qualified
                spec.hard[x]: Invalid value: "x": must be a standard resource for quotas
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: unsupported scope applied to resource
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: unsupported scope applied to resource
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: unsupported scope applied to resource
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: unsupported scope
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: conflicting scopes
            "#]],
        ),
        (
            "",
            "ResourceQuota",
            "spec: {hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}, {scopeName: Terminating, operator: In, values: [a]}]}}",
            expect![[r#"
                spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector
                spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity
            "#]],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            "spec: {minAvailable: 200%, unhealthyPodEvictionPolicy: X, selector: {matchExpressions: [{key: a, operator: X}]}}",
            expect![[r#"
                spec.minAvailable: Invalid value: "200%": must not be greater than 100%
                spec.selector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator
                spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", "IfHealthyBudget"
            "#]],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            "spec: {maxUnavailable: -1}",
            expect![[r#"
            spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0
        "#]],
        ),
    ] {
        check(group, kind, document, expected);
    }
}
