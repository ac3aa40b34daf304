//! More invalid fields of pods, part by part.

use expect_test::{Expect, expect};

use super::super::{check, create};
use super::pods;

#[test]
fn parts_of_pods() {
    pods(vec![
        (
            "containers: [{name: a, image: ' a '}], initContainers: [{name: b, image: 'b '}]",
            expect![[r#"
                spec.containers[0].image: Invalid value: " a ": must not have leading or trailing whitespace
                spec.initContainers[0].image: Invalid value: "b ": must not have leading or trailing whitespace
            "#]],
        ),
        (
            "containers: [{name: a, image: a, restartPolicyRules: [{action: Foo, exitCodes: {operator: Out}}, {}]}]",
            expect![[r#"
                spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used
                spec.containers[0].restartPolicyRules[0].action: Unsupported value: "Foo": supported values: "Restart", "RestartAllContainers"
                spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: "Out": supported values: "In", "NotIn"
                spec.containers[0].restartPolicyRules[1].action: Unsupported value: "": supported values: "Restart", "RestartAllContainers"
                spec.containers[0].restartPolicyRules[1].exitCodes: Required value: must be specified
            "#]],
        ),
        (
            "containers: [{name: a, image: a, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]}]",
            expect![[""]],
        ),
        (
            "containers: [{name: a, image: a, env: [{name: a, valueFrom: {fieldRef: {apiVersion: v2, fieldPath: metadata.name}}}, {name: b, valueFrom: {fieldRef: {fieldPath: \"spec['x']\"}}}, {name: c, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['A.b/C']\"}}}, {name: d, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['A.b/C']\"}}}]}]",
            expect![[r#"
                spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2
                spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value: "spec['x']": error converting fieldPath: field label does not support subscript: spec['x']
                spec.containers[0].env[2].valueFrom.fieldRef: Invalid value: "A.b/C": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        ),
        (
            "volumes: [{name: v, downwardAPI: {items: [{path: a, fieldRef: {apiVersion: v2, fieldPath: metadata.name}}, {path: b, fieldRef: {fieldPath: spec.host}}]}}, {name: w, projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.x}}, {path: b, fieldRef: {fieldPath: \"metadata.labels['a b']\"}}]}}]}}], containers: [{name: a, image: a}]",
            expect![[r#"
                spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2
                spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
                spec.volumes[1].projected.sources[0].downwardAPI.fieldRef: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.volumes[1].projected.sources[0].downwardAPI.fieldRef.fieldPath: Invalid value: "metadata.x": error converting fieldPath: field label not supported: metadata.x
            "#]],
        ),
        (
            "containers: [{name: a, image: a, env: [{name: a, valueFrom: {fileKeyRef: {volumeName: '', path: /x, key: a=b}}}]}]",
            expect![[r#"
                spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Required value
                spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "/x": must be a relative path
                spec.containers[0].env[0].valueFrom.fileKeyRef.key: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
            "#]],
        ),
        (
            "volumes: [{name: v, emptyDir: {}}, {name: i, image: {reference: x}}], containers: [{name: a, image: a, volumeMounts: [{name: v, mountPath: /a, mountPropagation: Foo}, {name: v, mountPath: /b, mountPropagation: Bidirectional}, {name: v, mountPath: /c, recursiveReadOnly: Enabled}, {name: v, mountPath: /d, readOnly: true, recursiveReadOnly: Foo}, {name: v, mountPath: /e, readOnly: true, mountPropagation: HostToContainer, recursiveReadOnly: IfPossible}, {name: i, mountPath: /f, subPathExpr: x}]}]",
            expect![[r#"
                spec.containers[0].volumeMounts.mountPropagation: Unsupported value: "Foo": supported values: "Bidirectional", "HostToContainer", "None"
                spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers
                spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true
                spec.containers[0].volumeMounts.recursiveReadOnly: Unsupported value: "Foo": supported values: "Disabled", "Enabled", "IfPossible"
                spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified
                spec.containers[0].volumeMounts[5].subPathExpr: Invalid value: "x": not allowed in image volume sources
            "#]],
        ),
        (
            "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], containers: [{name: a, image: a, volumeMounts: [{name: v, mountPath: /x}], volumeDevices: [{name: v, devicePath: /x}, {name: v, devicePath: /y/../z}]}]",
            expect![[r#"
                spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices
                spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/x": must not already exist as a path in volumeDevices
                spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts
                spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/x": must not already exist as a path in volumeMounts
                spec.containers[0].volumeDevices[1].name: Invalid value: "v": must be unique
                spec.containers[0].volumeDevices[1].name: Invalid value: "v": must not already exist in volumeMounts
                spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/y/../z": can not contain backsteps ('..')
            "#]],
        ),
        (
            "resourceClaims: [{name: a, resourceClaimName: b}, {name: c}, {name: a, resourceClaimName: b, resourceClaimTemplateName: d}, {name: A_, resourceClaimName: B_}], containers: [{name: a, image: a, resources: {claims: [{name: a, request: r}, {name: a}, {name: a, request: A_}, {name: ''}, {name: zz}]}}]",
            expect![[r#"
                spec.resourceClaims[1]: Invalid value: {"Name":"c","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`
                spec.resourceClaims[2]: Invalid value: {"Name":"a","ResourceClaimName":"b","ResourceClaimTemplateName":"d"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified
                spec.resourceClaims[2].name: Duplicate value: "a"
                spec.resourceClaims[3].name: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                spec.resourceClaims[3].resourceClaimName: Invalid value: "B_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.containers[0].resources.claims[1]: Duplicate value: "a"
                spec.containers[0].resources.claims[2]: Duplicate value: "a"
                spec.containers[0].resources.claims[3]: Required value
                spec.containers[0].resources.claims[4]: Not found: "zz": must be one of the names in pod.spec.resourceClaims: A_, a, c
            "#]],
        ),
        (
            "restartPolicy: Never, containers: [{name: a, image: a, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]",
            expect![[r#"
                spec.containers[0].resizePolicy: Invalid value: "RestartContainer": must be 'NotRequired' when `restartPolicy` is 'Never'
            "#]],
        ),
        (
            "containers: [{name: a, image: a, livenessProbe: {httpGet: {port: 1, httpHeaders: [{name: a b}, {name: X-A}]}}}]",
            expect![[r#"
                spec.containers[0].livenessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')
            "#]],
        ),
        (
            "containers: [{name: a, image: a, securityContext: {procMount: Unmasked}}]",
            expect![[r#"
            spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`
        "#]],
        ),
        ("hostUsers: false, containers: [{name: a, image: a, securityContext: {procMount: Unmasked}}]", expect![[""]]),
        (
            "hostPID: true, shareProcessNamespace: true, hostNetwork: true, hostIPC: true, securityContext: {sysctls: [{name: net.a, value: b}, {name: kernel/shm_x, value: c}, {name: kernel.x, value: d}, {name: fs/mqueue/y, value: d}]}, containers: [{name: a, image: a}]",
            expect![[r#"
                spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled
                spec.securityContext.sysctls[0].name: Invalid value: "net.a": may not be specified when 'hostNetwork' is true
                spec.securityContext.sysctls[1].name: Invalid value: "kernel/shm_x": may not be specified when 'hostIPC' is true
                spec.securityContext.sysctls[3].name: Invalid value: "fs/mqueue/y": may not be specified when 'hostIPC' is true
            "#]],
        ),
        (
            "os: {name: windows}, hostPID: true, hostUsers: true, securityContext: {runAsUser: 1, fsGroup: 1}, containers: [{name: a, image: a, securityContext: {privileged: true, capabilities: {add: [X]}}}]",
            expect![[r#"
                spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod
                spec.containers[0].securityContext.capabilities: Forbidden: cannot be set for a windows pod
                spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod
                spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod
                spec.hostUsers: Forbidden: cannot be set for a windows pod
                spec.hostPID: Forbidden: cannot be set for a windows pod
            "#]],
        ),
        (
            "os: {name: linux}, securityContext: {windowsOptions: {runAsUserName: x}}, containers: [{name: a, image: a, securityContext: {windowsOptions: {runAsUserName: x}}}]",
            expect![[r#"
                spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod
                spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod
            "#]],
        ),
        (
            "dnsConfig: {searches: [A_, _a.b_c.d, ., a.b., -a]}, containers: [{name: a, image: a}]",
            expect![[r#"
            spec.dnsConfig.searches[0]: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')
            spec.dnsConfig.searches[4]: Invalid value: "-a": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')
        "#]],
        ),
        (
            "schedulingGates: [{name: g}], nodeName: node-1, containers: [{name: a, image: a}]",
            expect![[r#"
            spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared
        "#]],
        ),
        (
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [a]}, {maxSkew: 1, topologyKey: y, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {k: v}, matchExpressions: [{key: k, operator: Exists}]}, matchLabelKeys: [k, a b]}], containers: [{name: a, image: a}]",
            expect![[r#"
                spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set
                spec.topologySpreadConstraints[1].matchLabelKeys[0]: Invalid value: "k": exists in both matchLabelKeys and labelSelector
                spec.topologySpreadConstraints[1].matchLabelKeys[1]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            "#]],
        ),
        (
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchLabels: {k: v}, matchExpressions: [{key: k, operator: Exists}]}, matchLabelKeys: [k, a b], mismatchLabelKeys: [k]}, {topologyKey: z, mismatchLabelKeys: [k]}]}, nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: [a b]}]}}]}}, containers: [{name: a, image: a}]",
            expect![[r#"
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]: Invalid value: "k": exists in both matchLabelKeys and labelSelector
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]: Invalid value: "k": exists in both matchLabelKeys and mismatchLabelKeys
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[1]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set
            "#]],
        ),
        (
            "resources: {limits: {cpu: 1}, requests: {cpu: 500m, foo.bar/x: 1, storage: 1}, claims: [{name: x}]}, containers: [{name: a, image: a, resources: {requests: {cpu: 400m}, limits: {cpu: 2}}}, {name: b, image: b, resources: {requests: {cpu: 300m, memory: 1}}}]",
            expect![[r#"
                spec.resources.limits: Required value: Limit must be set for non overcommitable resources
                spec.resources.requests[foo.bar/x]: Unsupported value: "foo.bar/x": supported values: "cpu", "hugepages-", "memory"
                spec.resources.requests[storage]: Unsupported value: "storage": supported values: "cpu", "hugepages-", "memory"
                spec.resources.requests[cpu]: Invalid value: "500m": must be greater than or equal to aggregate container requests of 700m
                spec.resources.claims: Forbidden: claims cannot be set for Resources at pod-level
                spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1
            "#]],
        ),
        (
            "serviceAccountName: '', volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}], containers: [{name: a, image: a}]",
            expect![[r#"
                spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set
            "#]],
        ),
    ]);
}

/// Annotations of a pod with one container.
fn annotated(annotations: &str, spec: &str, expected: Expect) {
    let pod =
        format!("metadata: {{annotations: {{{annotations}}}}}\nspec: {{{spec} containers: [{{name: a, image: a}}]}}");
    expected.assert_eq(&create("", "Pod", &pod));
}

#[test]
fn annotations_of_pods() {
    const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io";
    for (annotations, spec, expected) in [
        (
            "kubernetes.io/config.mirror: x".to_owned(),
            "",
            expect![[r#"
            metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set
        "#]],
        ),
        (
            "scheduler.alpha.kubernetes.io/tolerations: x".to_owned(),
            "",
            expect![[r#"
            metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": invalid character 'x' looking for beginning of value
        "#]],
        ),
        (
            "controller.kubernetes.io/pod-deletion-cost: '+1'".to_owned(),
            "",
            expect![[r#"
            metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer
        "#]],
        ),
        ("controller.kubernetes.io/pod-deletion-cost: '-100'".to_owned(), "", expect![[""]]),
        (
            "seccomp.security.alpha.kubernetes.io/pod: x".to_owned(),
            "",
            expect![[r#"
            metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a valid seccomp profile
        "#]],
        ),
        (
            "container.seccomp.security.alpha.kubernetes.io/a: localhost//x".to_owned(),
            "",
            expect![[r#"
            metadata.annotations.container.seccomp.security.alpha.kubernetes.io/a: Invalid value: "/x": must be a relative path
        "#]],
        ),
        (
            "seccomp.security.alpha.kubernetes.io/pod: unconfined".to_owned(),
            "securityContext: {seccompProfile: {type: RuntimeDefault}},",
            expect![[r#"
                spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match
            "#]],
        ),
        (
            format!("{APPARMOR}/zz: unconfined, {APPARMOR}/a: foo"),
            "",
            expect![[r#"
            metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]: Invalid value: "foo": invalid AppArmor profile name: "foo"
            metadata.annotations[container.apparmor.security.beta.kubernetes.io/zz]: Invalid value: "zz": container not found
        "#]],
        ),
        (
            format!("{APPARMOR}/a: localhost/x"),
            "securityContext: {appArmorProfile: {type: Localhost, localhostProfile: y}},",
            expect![[r#"
                spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match
                spec.securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost
            "#]],
        ),
    ] {
        annotated(&annotations, spec, expected);
    }
}

#[test]
fn annotations_of_templates() {
    check(
        "",
        "PodTemplate",
        "template: {metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: x}}, \
         spec: {containers: [{name: a, image: ' a '}]}}",
        expect![[r#"
            template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a 32bit integer
        "#]],
    );
}
