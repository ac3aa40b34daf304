//! Every part of a pod and of the kinds around it, made wrong one document at a time: what is said, and in which order.

use expect_test::{Expect, expect};

use super::{CONTAINER, check, deployment, update};
use crate::defaults::yaml;

fn pods(rows: Vec<(&str, Expect)>) {
    for (spec, expected) in rows {
        check("", "Pod", &format!("spec: {{{spec}}}"), expected);
    }
}

#[test]
fn volumes() {
    let pod = |volume: &str| format!("{CONTAINER}, volumes: [{{name: v, {volume}}}]");
    for (volume, expected) in [
        (
            "secret: {defaultMode: 1000, items: [{key: '', path: ../a}, {key: a, path: /b}]}",
            expect![[r#"
            spec.volumes[0].secret.secretName: Required value
            spec.volumes[0].secret.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive
            spec.volumes[0].secret.items[0].key: Required value
            spec.volumes[0].secret.items[0].path: Invalid value: "../a": must not contain '..'
            spec.volumes[0].secret.items[1].path: Invalid value: "/b": must be a relative path
        "#]],
        ),
        (
            "configMap: {name: '', items: [{key: a, path: ''}]}",
            expect![[r#"
            spec.volumes[0].configMap.name: Required value
            spec.volumes[0].configMap.items[0].path: Required value
        "#]],
        ),
        (
            "nfs: {server: '', path: a}",
            expect![[r#"
            spec.volumes[0].nfs.server: Required value
            spec.volumes[0].nfs.path: Invalid value: "a": must be an absolute path
        "#]],
        ),
        (
            "csi: {driver: ''}",
            expect![[r#"
            spec.volumes[0].csi.driver: Required value
        "#]],
        ),
        (
            "projected: {sources: [{secret: {name: ''}}, {}]}",
            expect![[r#"
            spec.volumes[0].projected.sources[0].secret.name: Required value
        "#]],
        ),
        (
            "projected: {sources: [{serviceAccountToken: {path: '', expirationSeconds: 1}}]}",
            expect![[r#"
            spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
            spec.volumes[0].projected.path: Required value
        "#]],
        ),
        (
            "downwardAPI: {items: [{path: a}, {path: b, fieldRef: {fieldPath: spec.nodeName}}]}",
            expect![[r#"
            spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required
            spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
        "#]],
        ),
        (
            "emptyDir: {sizeLimit: -1}",
            expect![[r#"
            spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity
        "#]],
        ),
        (
            "hostPath: {path: a/../b, type: X}",
            expect![[r#"
            spec.volumes[0].hostPath.path: Invalid value: "a/../b": must not contain '..'
            spec.volumes[0].hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
        "#]],
        ),
        (
            "persistentVolumeClaim: {claimName: ''}",
            expect![[r#"
            spec.volumes[0].persistentVolumeClaim.claimName: Required value
        "#]],
        ),
        (
            "ephemeral: {}",
            expect![[r#"
            spec.volumes[0].ephemeral.volumeClaimTemplate: Required value
        "#]],
        ),
        (
            "image: {reference: '', pullPolicy: X}",
            expect![[r#"
            spec.volumes[0].image.reference: Required value
            spec.volumes[0].image.pullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"
        "#]],
        ),
        (
            "emptyDir: {}, secret: {secretName: a}",
            expect![[r#"
            spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type
        "#]],
        ),
    ] {
        pods(vec![(&pod(volume), expected)]);
    }
}

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
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: a, operator: In}]}, namespaces: [A]}], preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: a b}}]}}",
            expect![[r#"
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty
                spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100
                spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
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
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",
            expect![[r#"
                spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{a, DoNotSchedule}"
            "#]],
        ),
        (
            "tolerations: [{key: a, operator: Exists, value: b}, {key: c, operator: X}, {key: d, effect: X}, {key: e, tolerationSeconds: 1, effect: NoSchedule}]",
            expect![[r#"
                spec.tolerations[0].operator: Invalid value: {"Key":"a","Operator":"Exists","Value":"b","Effect":"","TolerationSeconds":null}: value must be empty when `operator` is 'Exists'
                spec.tolerations[1].operator: Unsupported value: "X": supported values: "Equal", "Exists"
                spec.tolerations[2].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
                spec.tolerations[3].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set
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

#[test]
fn containers_in_detail() {
    for (part, expected) in [
        (
            "securityContext: {privileged: true, allowPrivilegeEscalation: false, procMount: X}",
            expect![[r#"
                spec.containers[0].securityContext.procMount: Unsupported value: "X": supported values: "Default", "Unmasked"
                spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":"X","SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true
            "#]],
        ),
        (
            "securityContext: {capabilities: {add: [CAP_SYS_ADMIN]}, allowPrivilegeEscalation: false}",
            expect![[r#"
            spec.containers[0].securityContext: Invalid value: {"Capabilities":{"Add":["CAP_SYS_ADMIN"],"Drop":null},"Privileged":null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN
        "#]],
        ),
        (
            "lifecycle: {preStop: {sleep: {seconds: -1}}, postStart: {}}",
            expect![[r#"
                spec.containers[0].lifecycle.postStart: Required value: must specify a handler type
                spec.containers[0].lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than terminationGracePeriodSeconds (30)
            "#]],
        ),
        (
            "envFrom: [{configMapRef: {name: ''}}, {prefix: '=', secretRef: {name: A}}, {}]",
            expect![[r#"
            spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`
            spec.containers[0].envFrom[0].configMapRef.name: Required value
            spec.containers[0].envFrom[1].prefix: Invalid value: "=": a valid environment variable name must consist only of printable ASCII characters other than '='
            spec.containers[0].envFrom[1].secretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        ),
        (
            "env: [{name: a, valueFrom: {}}, {name: b, valueFrom: {secretKeyRef: {name: '', key: ''}}}, {name: c, valueFrom: {fieldRef: {fieldPath: spec.nodeName}, resourceFieldRef: {resource: x}}}]",
            expect![[r#"
                spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`
                spec.containers[0].env[1].valueFrom.secretKeyRef.name: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.containers[0].env[1].valueFrom.secretKeyRef.key: Required value
                spec.containers[0].env[2].valueFrom.resourceFieldRef.resource: Unsupported value: "x": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"
                spec.containers[0].env[2].valueFrom: Invalid value: "": may not have more than one field specified at a time
            "#]],
        ),
        (
            "volumeDevices: [{name: x, devicePath: /a}]",
            expect![[r#"
            spec.containers[0].volumeDevices[0].name: Not found: "x"
        "#]],
        ),
        (
            "terminationMessagePolicy: X, imagePullPolicy: Never",
            expect![[r#"
            spec.containers[0].terminationMessagePolicy: Unsupported value: "X": supported values: "File", "FallbackToLogsOnError"
        "#]],
        ),
        (
            "livenessProbe: {grpc: {port: 0}, timeoutSeconds: -1}, startupProbe: {httpGet: {path: '', port: 1}}",
            expect![[r#"
                spec.containers[0].livenessProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive
                spec.containers[0].livenessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0
            "#]],
        ),
        (
            "ports: [{containerPort: 1, hostPort: 1}, {containerPort: 2, hostPort: 1}]",
            expect![[r#"
            spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//1"
        "#]],
        ),
        (
            "resizePolicy: [{resourceName: x, restartPolicy: y}]",
            expect![[r#"
            spec.containers[0].resizePolicy: Unsupported value: "x": supported values: "cpu", "memory"
            spec.containers[0].resizePolicy: Required value
        "#]],
        ),
        (
            "restartPolicy: X",
            expect![[r#"
            spec.containers[0].restartPolicy: Unsupported value: "X": supported values: "Always", "Never", "OnFailure"
        "#]],
        ),
        (
            "resources: {claims: [{name: a}]}",
            expect![[r#"
            spec.containers[0].resources.claims[0]: Not found: "a"
        "#]],
        ),
        (
            "resources: {requests: {'hugepages-2Mi': 1Mi}}",
            expect![[r#"
            spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources
            spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "1Mi": 1Mi is not positive integer multiple of hugepages-2Mi
            spec.containers[0].resources: Forbidden: HugePages require cpu or memory
        "#]],
        ),
    ] {
        pods(vec![(&format!("containers: [{{name: a, image: a, {part}}}]"), expected)]);
    }
}

#[test]
fn autoscalers_and_limits() {
    let scaler = |rest: &str| format!("spec: {{maxReplicas: 2, scaleTargetRef: {{kind: D, name: d}}, {rest}}}");
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
                spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600
                spec.behavior.scaleDown.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"
                spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero
                spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero
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

#[test]
fn jobs_in_detail() {
    let job = |rest: &str| format!("spec: {{{rest}, template: {{spec: {{restartPolicy: Never, {CONTAINER}}}}}}}");
    for (rest, expected) in [
        (
            "backoffLimitPerIndex: 1, maxFailedIndexes: 1",
            expect![[r#"
            spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode
            spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode
        "#]],
        ),
        (
            "completionMode: Indexed, completions: 2, backoffLimitPerIndex: -1, maxFailedIndexes: 3",
            expect![[r#"
            spec.backoffLimitPerIndex: Invalid value: -1: must be greater than or equal to 0
            spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions
        "#]],
        ),
        (
            "podFailurePolicy: {rules: [{action: X}, {action: FailJob, onExitCodes: {operator: In, values: [0, 1, 1]}}]}",
            expect![[r#"
                spec.podFailurePolicy.rules[0].action: Unsupported value: "X": supported values: "Count", "FailIndex", "FailJob", "Ignore"
                spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required
                spec.podFailurePolicy.rules[1].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator
                spec.podFailurePolicy.rules[1].onExitCodes.values[2]: Duplicate value: 1
            "#]],
        ),
        (
            "podReplacementPolicy: X, completionMode: Z, ttlSecondsAfterFinished: -1, activeDeadlineSeconds: -1, backoffLimit: -1",
            expect![[r#"
                spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
                spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0
                spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0
                spec.completionMode: Unsupported value: "Z": supported values: "NonIndexed", "Indexed"
                spec.podReplacementPolicy: Unsupported value: "X": supported values: "Failed", "TerminatingOrFailed"
            "#]],
        ),
        (
            "successPolicy: {rules: [{}]}",
            expect![[r#"
                spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":null}]}: requires indexed completion mode
            "#]],
        ),
        (
            "manualSelector: true",
            expect![[r#"
            spec.selector: Required value
        "#]],
        ),
        (
            "managedBy: X",
            expect![[r#"
            spec.managedBy: Invalid value: "X": must be a domain-prefixed path (such as "acme.io/foo")
        "#]],
        ),
    ] {
        check("batch", "Job", &job(rest), expected);
    }
    let cron = |rest: &str| {
        format!(
            "spec: {{{rest}, jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Always, {CONTAINER}}}}}}}}}}}"
        )
    };
    check(
        "batch",
        "CronJob",
        &cron(
            "schedule: '', concurrencyPolicy: X, timeZone: Nowhere, startingDeadlineSeconds: -1, failedJobsHistoryLimit: -1",
        ),
        expect![[r#"
            spec.schedule: Required value
            spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
            spec.concurrencyPolicy: Unsupported value: "X": supported values: "Allow", "Forbid", "Replace"
            spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"
            spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0
        "#]],
    );
    let indexed = job("completionMode: Indexed, completions: 2, parallelism: 2");
    for (path, value, expected) in [
        (
            "spec.completions",
            "3",
            expect![[r#"
            spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism
        "#]],
        ),
        (
            "spec.completionMode",
            "NonIndexed",
            expect![[r#"
            spec.completionMode: Invalid value: "NonIndexed": field is immutable
        "#]],
        ),
        (
            "spec.podFailurePolicy",
            "{rules: [{action: FailJob, onPodConditions: [{type: A, status: 'True'}]}]}",
            expect![[r#"
                spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"
                spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"FailJob","OnExitCodes":null,"OnPodConditions":[{"Type":"A","Status":"True"}]}]}: field is immutable
            "#]],
        ),
        (
            "spec.selector",
            "{matchLabels: {a: b}}",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`
            spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable
        "#]],
        ),
        ("spec.suspend", "true", expect![""]),
        (
            "spec.template.metadata.labels",
            "{a: b}",
            expect![[r#"
            spec.template: Invalid value: {"labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"a","Image":"a:1","Command":null,"Args":null,"WorkingDir":"","Ports":null,"EnvFrom":null,"Env":null,"Resources":{"Limits":null,"Requests":null,"Claims":null},"ResizePolicy":null,"RestartPolicy":null,"RestartPolicyRules":null,"VolumeMounts":null,"VolumeDevices":null,"LivenessProbe":null,"ReadinessProbe":null,"StartupProbe":null,"Lifecycle":null,"TerminationMessagePath":"/dev/termination-log","TerminationMessagePolicy":"File","ImagePullPolicy":"IfNotPresent","SecurityContext":null,"Stdin":false,"StdinOnce":false,"TTY":false}],"EphemeralContainers":null,"RestartPolicy":"Never","TerminationGracePeriodSeconds":30,"ActiveDeadlineSeconds":null,"DNSPolicy":"ClusterFirst","NodeSelector":null,"ServiceAccountName":"","AutomountServiceAccountToken":null,"NodeName":"","SecurityContext":{"HostNetwork":false,"HostPID":false,"HostIPC":false,"ShareProcessNamespace":null,"HostUsers":null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"SupplementalGroups":null,"SupplementalGroupsPolicy":null,"FSGroup":null,"FSGroupChangePolicy":null,"Sysctls":null,"SeccompProfile":null,"AppArmorProfile":null,"SELinuxChangePolicy":null},"ImagePullSecrets":null,"Hostname":"","Subdomain":"","SetHostnameAsFQDN":null,"Affinity":null,"SchedulerName":"default-scheduler","Tolerations":null,"HostAliases":null,"PriorityClassName":"","Priority":null,"PreemptionPolicy":null,"DNSConfig":null,"ReadinessGates":null,"RuntimeClassName":null,"Overhead":null,"EnableServiceLinks":null,"TopologySpreadConstraints":null,"OS":null,"SchedulingGates":null,"ResourceClaims":null,"Resources":null,"HostnameOverride":null,"SchedulingGroup":null}}: field is immutable
        "#]],
        ),
    ] {
        expected.assert_eq(&update("batch", "Job", &indexed, path, yaml(value)));
    }
    let set = deployment("", CONTAINER);
    for (kind, path, value, expected) in [
        ("Deployment", "spec.paused", "true", expect![""]),
        (
            "DaemonSet",
            "spec.selector.matchLabels.b",
            "c",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
            spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"c"}}: field is immutable
        "#]],
        ),
        (
            "ReplicaSet",
            "spec.selector.matchLabels.b",
            "c",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
            spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"c"}}: field is immutable
        "#]],
        ),
        (
            "StatefulSet",
            "spec.podManagementPolicy",
            "Parallel",
            expect![[r#"
            spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden
        "#]],
        ),
        (
            "StatefulSet",
            "spec.selector.matchLabels.b",
            "c",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
            spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden
        "#]],
        ),
    ] {
        expected.assert_eq(&update("apps", kind, &set, path, yaml(value)));
    }
}
