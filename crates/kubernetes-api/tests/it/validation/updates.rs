//! What an update may not change.

use expect_test::expect;

use super::{CONTAINER, deployment, update};
use crate::defaults::yaml;

#[test]
fn what_is_fixed() {
    let deployment = deployment("", CONTAINER);
    let job = format!("spec: {{template: {{spec: {{restartPolicy: Never, {CONTAINER}}}}}}}");
    let pod = format!("spec: {{{CONTAINER}}}");
    let bound = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeName: v}";
    let service = "spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}], selector: {a: b}}";
    let binding = "{roleRef: {kind: Role, name: r}}";
    for (group, kind, document, path, value, expected) in [
        (
            "apps",
            "Deployment",
            deployment.as_str(),
            "spec.selector.matchLabels.app",
            "z",
            expect![[r#"
                spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
                spec.selector: Invalid value: {"matchLabels":{"app":"z"}}: field is immutable
            "#]],
        ),
        ("apps", "Deployment", &deployment, "spec.template.spec.containers.0.image", "b", expect![""]),
        (
            "apps",
            "StatefulSet",
            &deployment,
            "spec.serviceName",
            "s",
            expect![[r#"
            spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden
        "#]],
        ),
        (
            "batch",
            "Job",
            &job,
            "spec.template.spec.containers.0.image",
            "b",
            expect![[r#"
            spec.template: Invalid value: {"metadata":{},"spec":{"containers":[{"image":"b","imagePullPolicy":"IfNotPresent","name":"a","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Never","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}: field is immutable
        "#]],
        ),
        ("", "Pod", &pod, "spec.containers.0.image", "b", expect![""]),
        (
            "",
            "Pod",
            &pod,
            "spec.containers.0.command",
            "[x]",
            expect![[r#"
            spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)
        "#]],
        ),
        (
            "",
            "PersistentVolumeClaim",
            bound,
            "spec.storageClassName",
            "b",
            expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
        "#]],
        ),
        ("", "PersistentVolumeClaim", bound, "spec.resources.requests.storage", "2Gi", expect![""]),
        (
            "",
            "Service",
            service,
            "spec.clusterIPs",
            "[10.0.0.2]",
            expect![[r#"
            spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`
            spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set
        "#]],
        ),
        (
            "",
            "Secret",
            "type: a",
            "type",
            "b",
            expect![[r#"
            type: Invalid value: "b": field is immutable
        "#]],
        ),
        (
            "",
            "ConfigMap",
            "{immutable: true, data: {a: b}}",
            "data.a",
            "c",
            expect![[r#"
            data: Forbidden: field is immutable when `immutable` is set
        "#]],
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            binding,
            "roleRef.name",
            "b",
            expect![[r#"
            roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"b"}: cannot change roleRef
        "#]],
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            "provisioner: a",
            "provisioner",
            "b",
            expect![[r#"
            provisioner: Forbidden: updates to provisioner are forbidden.
        "#]],
        ),
    ] {
        expected.assert_eq(&update(group, kind, document, path, yaml(value)));
    }
}
