//! Workloads, their pods, autoscalers and disruption budgets.

use expect_test::expect;

use super::{CONTAINER, check, create, deployment};

#[test]
fn workloads() {
    let ok = deployment("", CONTAINER);
    assert_eq!(create("apps", "Deployment", &ok), "");
    check(
        "apps",
        "Deployment",
        &deployment("", ""),
        expect![[r#"
        spec.template.spec.containers: Required value
    "#]],
    );
    check(
        "apps",
        "Deployment",
        "spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: A, image: ''}]}}}",
        expect![[r#"
            spec.selector: Required value
            spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
            spec.template.spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.template.spec.containers[0].image: Required value
        "#]],
    );
    check(
        "apps",
        "Deployment",
        &format!(
            "spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: c}}}}, spec: {{{CONTAINER}}}}}}}"
        ),
        expect![[r#"
            spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`
        "#]],
    );
    check(
        "apps",
        "Deployment",
        &format!("spec: {{selector: {{}}, template: {{spec: {{{CONTAINER}}}}}}}"),
        expect![[r#"
        spec.selector: Invalid value: {}: empty selector is invalid for deployment
    "#]],
    );
    let wrong = "replicas: -1, minReadySeconds: 600, strategy: {type: Recreate, rollingUpdate: {}},";
    check(
        "apps",
        "Deployment",
        &deployment(wrong, &format!("restartPolicy: Never, {CONTAINER}")),
        expect![[r#"
            spec.replicas: Invalid value: -1: must be greater than or equal to 0
            spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
            spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'
            spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds
        "#]],
    );
    let zero = "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}},";
    check(
        "apps",
        "Deployment",
        &deployment(zero, CONTAINER),
        expect![[r#"
        spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0
    "#]],
    );
    check(
        "apps",
        "StatefulSet",
        &deployment("podManagementPolicy: X,", CONTAINER),
        expect![[r#"
            spec.podManagementPolicy: Invalid value: "X": must be 'OrderedReady' or 'Parallel'
        "#]],
    );
    let claims = "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],";
    let mounts =
        "containers: [{name: a, image: a, volumeMounts: [{name: data, mountPath: /d}, {name: none, mountPath: /n}]}]";
    check(
        "apps",
        "StatefulSet",
        &deployment(claims, mounts),
        // Upstream validates the pods of stateful sets only when they are created.
        expect![""],
    );
    let annotated = "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}, annotations: {A/B: x, c d: y}}, \
                     spec: {containers: [{name: a, image: a}]}}}";
    for kind in ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"] {
        check(
            "apps",
            kind,
            annotated,
            expect![[r#"
                spec.template.annotations: Invalid value: "c d": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            "#]],
        );
    }
    check(
        "apps",
        "StatefulSet",
        "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b, c d: e}, annotations: \
         {kubernetes.io/config.mirror: x}}, spec: {containers: [], restartPolicy: Foo, activeDeadlineSeconds: 1}}}",
        expect![[r#"
            spec.template.labels: Invalid value: "c d": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.template.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set
            spec.template.spec.restartPolicy: Unsupported value: "Foo": supported values: "Always"
            spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported
        "#]],
    );
    check(
        "apps",
        "DaemonSet",
        &deployment("updateStrategy: {rollingUpdate: {maxSurge: 1}},", CONTAINER),
        expect![[r#"
        spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero
    "#]],
    );
}

#[test]
fn containers() {
    let pod = |container: &str| format!("spec: {{containers: [{{name: a, image: a, {container}}}]}}");
    for (container, expected) in [
        (
            "imagePullPolicy: Sometimes",
            expect![[r#"
            spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"
        "#]],
        ),
        (
            "ports: [{containerPort: 70000, name: a--b}, {containerPort: 1, protocol: X}]",
            expect![[r#"
                spec.containers[0].ports[0].name: Invalid value: "a--b": must not contain consecutive hyphens
                spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive
                spec.containers[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
            "#]],
        ),
        (
            "ports: [{containerPort: 1, name: p}, {containerPort: 2, name: p}]",
            expect![[r#"
            spec.containers[0].ports[1].name: Duplicate value: "p"
        "#]],
        ),
        (
            "env: [{name: 'a=b'}, {name: ''}, {name: c, value: d, valueFrom: {fieldRef: {fieldPath: x}}}]",
            expect![[r#"
                spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
                spec.containers[0].env[1].name: Required value
                spec.containers[0].env[2].valueFrom.fieldRef.fieldPath: Invalid value: "x": error converting fieldPath: field label not supported: x
                spec.containers[0].env[2].valueFrom: Invalid value: "": may not be specified when `value` is not empty
            "#]],
        ),
        (
            "resources: {limits: {cpu: 1}, requests: {cpu: 2, memory: -1, gpu: 1}}",
            expect![[r#"
                spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
                spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
                spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers
                spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0
            "#]],
        ),
        (
            "livenessProbe: {periodSeconds: -1}, readinessProbe: {exec: {}, tcpSocket: {port: 0}}",
            expect![[r#"
                spec.containers[0].livenessProbe: Required value: must specify a handler type
                spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
                spec.containers[0].readinessProbe.exec.command: Required value
                spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type
                spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive
            "#]],
        ),
        (
            "livenessProbe: {successThreshold: 2, httpGet: {port: abc-, scheme: FTP}}",
            expect![[r#"
                spec.containers[0].livenessProbe.httpGet.port: Invalid value: "abc-": must not begin or end with a hyphen
                spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"
                spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
            "#]],
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a}, {name: '', mountPath: /a}]",
            expect![[r#"
                spec.containers[0].volumeMounts[0].name: Not found: "v"
                spec.containers[0].volumeMounts[1].name: Required value
                spec.containers[0].volumeMounts[1].name: Not found: ""
                spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique
            "#]],
        ),
    ] {
        check("", "Pod", &pod(container), expected);
    }
    check(
        "",
        "Pod",
        "spec: {containers: [{name: a, image: a}, {name: a, image: b}]}",
        expect![[r#"
        spec.containers[1].name: Duplicate value: "a"
    "#]],
    );
    check(
        "",
        "Pod",
        "spec: {dnsPolicy: X, volumes: [{name: v, hostPath: {path: ''}, emptyDir: {}}, {name: v}], containers: [{name: a, image: a}]}",
        expect![[r#"
            spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type
            spec.volumes[0].hostPath.path: Required value
            spec.dnsPolicy: Unsupported value: "X": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"
        "#]],
    );
    check(
        "",
        "Pod",
        "spec: {tolerations: [{operator: Equal}], nodeSelector: {'a b': c}, containers: [{name: a, image: a}]}",
        expect![[r#"
            spec.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"
        "#]],
    );
}

#[test]
fn jobs() {
    let template = |policy: &str| format!("template: {{spec: {{restartPolicy: {policy}, {CONTAINER}}}}}");
    check(
        "batch",
        "Job",
        &format!("spec: {{{}}}", template("Always")),
        expect![[r#"
        spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"
    "#]],
    );
    check(
        "batch",
        "Job",
        &format!("spec: {{completionMode: Indexed, parallelism: -1, {}}}", template("Never")),
        expect![[r#"
            spec.parallelism: Invalid value: -1: must be greater than or equal to 0
            spec.completions: Required value: when completion mode is Indexed
        "#]],
    );
    let cron =
        |schedule: &str| format!("spec: {{schedule: {schedule}, jobTemplate: {{spec: {{{}}}}}}}", template("Never"));
    check("batch", "CronJob", &cron("'@daily'"), expect![""]);
    check(
        "batch",
        "CronJob",
        &cron("x"),
        expect![[r#"
        spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]
    "#]],
    );
    check(
        "batch",
        "CronJob",
        &cron("'TZ=UTC 0 * * * *'"),
        expect![[r#"
        spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead
    "#]],
    );
}

#[test]
fn other_workloads() {
    for (group, kind, document, expected) in [
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "spec: {minReplicas: 3, maxReplicas: 2, scaleTargetRef: {apiVersion: a/v1, kind: D}}",
            expect![[r#"
                spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`
                spec.scaleTargetRef.name: Required value
            "#]],
        ),
        (
            "policy",
            "PodDisruptionBudget",
            "spec: {minAvailable: 1, maxUnavailable: 50}",
            expect![[r#"
            spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":50,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set
        "#]],
        ),
        ("policy", "PodDisruptionBudget", "spec: {minAvailable: 10}", expect![""]),
        (
            "batch",
            "CronJob",
            "{metadata: {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}, spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}}}",
            expect![[r#"
                metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 52 characters
            "#]],
        ),
        (
            "",
            "Pod",
            "spec: {ephemeralContainers: [{name: e, image: i}], securityContext: {runAsUser: -1}, containers: [{name: a, image: a}]}",
            expect![[r#"
                spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
                spec.ephemeralContainers: Forbidden: cannot be set on create
            "#]],
        ),
        (
            "apps",
            "StatefulSet",
            "spec: {updateStrategy: {type: Other}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}",
            expect![[r#"
                spec.updateStrategy: Invalid value: {"Type":"Other","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'
            "#]],
        ),
        (
            "apps",
            "ControllerRevision",
            "{revision: 1}",
            expect![[r#"
            data: Required value: data is mandatory
        "#]],
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "spec: {maxReplicas: 2, scaleTargetRef: {kind: D, name: d}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}",
            expect![[r#"
                spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group
                spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization
            "#]],
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: a/v1, kind: D, name: d}, behavior: {scaleUp: {policies: []}, scaleDown: {policies: null}}}",
            expect![[r#"
                spec.behavior.scaleUp.policies: Required value: must specify at least one Policy
            "#]],
        ),
    ] {
        check(group, kind, document, expected);
    }
}
