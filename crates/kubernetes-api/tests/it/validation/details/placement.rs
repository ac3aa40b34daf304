//! Where pods may run, and their network and security.

use expect_test::expect;

use super::super::CONTAINER;
use super::pods;

#[test]
fn placement() {
    for (part, expected) in [
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}",
            expect![[r#"
                spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term
            "#]],
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}, {key: b, operator: Exists, values: [c]}, {key: d, operator: X}, {key: e, operator: Gt, values: [x]}]}, {matchFields: [{key: a, operator: In, values: [b]}]}]}}}",
            expect![[r#"
                spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
                spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'
                spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].operator: Invalid value: "X": not a valid selector operator
                spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchFields[0].key: Invalid value: "a": not a valid field selector key
            "#]],
        ),
        (
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}",
            expect![[r#"
                spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100
            "#]],
        ),
        (
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: a, operator: In}]}, namespaces: [A]}], preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: a b}}, {weight: 1}]}}",
            expect![[r#"
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty
                spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100
                spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.topologyKey: Required value: can not be empty
            "#]],
        ),
        (
            "topologySpreadConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: X}, {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 0}]",
            expect![[r#"
                spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
                spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty
                spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"
                spec.topologySpreadConstraints[1].minDomains: Invalid value: 0: must be greater than zero
                spec.topologySpreadConstraints[1].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway
            "#]],
        ),
        (
            "topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",
            expect![[r#"
                spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
            "#]],
        ),
        (
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",
            expect![[r#"
                spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{a, DoNotSchedule}"
            "#]],
        ),
        (
            "tolerations: [{key: a, operator: Exists, value: b}, {key: c, operator: X}, {key: d, effect: X}, {key: e, tolerationSeconds: 1, effect: NoSchedule}, {key: f, operator: Gt, value: \"5\"}]",
            expect![[r#"
                spec.tolerations[0].operator: Invalid value: {"Key":"a","Operator":"Exists","Value":"b","Effect":"","TolerationSeconds":null}: value must be empty when `operator` is 'Exists'
                spec.tolerations[1].operator: Unsupported value: "X": supported values: "Equal", "Exists"
                spec.tolerations[2].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
                spec.tolerations[3].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set
                spec.tolerations[4].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"
            "#]],
        ),
        (
            "hostAliases: [{ip: x, hostnames: [A_b]}]",
            expect![[r#"
            spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.hostAliases[0].hostnames[0]: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        ),
        (
            "dnsPolicy: None",
            expect![[r#"
            spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None
        "#]],
        ),
        (
            "dnsConfig: {nameservers: ['1', '1.1.1.1', '1.1.1.2', '1.1.1.3'], options: [{name: ''}]}",
            expect![[r#"
            spec.dnsConfig.nameservers: Invalid value: ["1","1.1.1.1","1.1.1.2","1.1.1.3"]: must not have more than 3 nameservers
            spec.dnsConfig.nameservers[0]: Invalid value: "1": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.dnsConfig.options[0]: Required value: must not be empty
        "#]],
        ),
        (
            "securityContext: {fsGroup: -1, sysctls: [{name: A..b}], supplementalGroups: [-1], fsGroupChangePolicy: X}",
            expect![[r#"
                spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive
                spec.securityContext.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive
                spec.securityContext.sysctls[0].name: Invalid value: "A..b": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$
                spec.securityContext.fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"
            "#]],
        ),
        (
            "securityContext: {seccompProfile: {type: Localhost}, windowsOptions: {runAsUserName: ''}}",
            expect![[r#"
            spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost
            spec.securityContext.windowsOptions.runAsUserName: Invalid value: "": runAsUserName cannot be an empty string
        "#]],
        ),
        (
            "hostname: A, subdomain: '-b', serviceAccountName: A, nodeName: '_'",
            expect![[r#"
            spec.serviceAccountName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.nodeName: Invalid value: "_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.hostname: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.subdomain: Invalid value: "-b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        "#]],
        ),
        (
            "imagePullSecrets: [{name: ''}], runtimeClassName: A, priorityClassName: B, schedulerName: C_",
            expect![[r#"
            spec.priorityClassName: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.runtimeClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        ),
        (
            "activeDeadlineSeconds: 0, terminationGracePeriodSeconds: -1",
            expect![[r#"
            spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive
        "#]],
        ),
        (
            "os: {name: x}, readinessGates: [{conditionType: 'a b'}], overhead: {cpu: -1}",
            expect![[r#"
                spec.readinessGates[0].conditionType: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0
                spec.os: Unsupported value: "x": supported values: "linux", "windows"
            "#]],
        ),
        (
            "schedulingGates: [{name: a b}, {name: c}, {name: c}]",
            expect![[r#"
            spec.schedulingGates[0]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.schedulingGates[2]: Duplicate value: "c"
        "#]],
        ),
        (
            "initContainers: [{name: a, image: b, livenessProbe: {exec: {command: [a]}}, lifecycle: {}}]",
            expect![[r#"
            spec.initContainers[0].name: Duplicate value: "a"
            spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always
            spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
        "#]],
        ),
        (
            "preemptionPolicy: X",
            expect![[r#"
            spec.preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"
        "#]],
        ),
    ] {
        pods(vec![(&format!("{CONTAINER}, {part}"), expected)]);
    }
}
