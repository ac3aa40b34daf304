//! Containers, probes, ports and resources.

use expect_test::expect;

use super::pods;

#[test]
fn containers_in_detail() {
    for (part, expected) in [
        (
            "securityContext: {windowsOptions: {gmsaCredentialSpecName: A_b, gmsaCredentialSpec: '', runAsUserName: 'a:b'}}",
            expect![[r#"
                spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpecName: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string
                spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: "a:b": runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]
            "#]],
        ),
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
        ("lifecycle: {preStop: {sleep: {}}}", expect![""]),
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
                spec.containers[0].resources.claims[0]: Not found: "a": must be one of the names in pod.spec.resourceClaims which is empty
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
