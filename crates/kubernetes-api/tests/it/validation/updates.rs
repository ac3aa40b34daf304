//! Immutable fields on updates.

use expect_test::expect;
use serde_json::json;

use super::{CONTAINER, deployment, update};
use crate::defaults::yaml;

#[test]
fn suspended_jobs_may_get_other_resources_and_nodes() {
    let job = |suspend: bool, status: &str| {
        format!(
            "spec: {{suspend: {suspend}, template: {{spec: {{restartPolicy: Never, {CONTAINER}}}}}}}\nstatus: {status}"
        )
    };
    let marked = "{startTime: '2026-01-01T00:00:00Z', conditions: [{type: Suspended, status: 'True'}]}";
    for (suspend, status, expected) in [
        (true, "{}", true),
        (true, "{active: 0}", true),
        (true, marked, true),
        (true, "{active: 1}", false),
        (true, "{startTime: '2026-01-01T00:00:00Z'}", false),
        (false, marked, false),
    ] {
        let document = job(suspend, status);
        for (path, value) in [
            ("spec.template.spec.containers.0.resources", json!({"requests": {"cpu": "2"}})),
            ("spec.template.spec.nodeSelector", json!({"a": "b"})),
        ] {
            let found = update("batch", "Job", &document, path, value);
            assert_eq!(found.is_empty(), expected, "{suspend} {status} {path}: {found}");
        }
        let image = update("batch", "Job", &document, "spec.template.spec.containers.0.image", json!("b"));
        assert!(image.ends_with("field is immutable\n"), "{image}");
    }
}

#[test]
fn addresses_of_earlier_versions_are_kept() {
    let policy =
        |cidr: &str| format!("spec: {{podSelector: {{}}, ingress: [{{from: [{{ipBlock: {{cidr: '{cidr}'}}}}]}}]}}");
    let cidr = "spec.ingress.0.from.0.ipBlock.cidr";
    for (old, new, expected) in [
        ("10.0.0.0/8", "192.168.0.5/24", "must not have bits set beyond the prefix length"),
        ("10.0.0.0/8", "010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0/8", "::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("192.168.0.5/24", "192.168.0.5/24", ""),
        ("192.168.0.5/24", "192.168.0.6/24", "must not have bits set beyond the prefix length"),
    ] {
        let found = update("networking.k8s.io", "NetworkPolicy", &policy(old), cidr, json!(new));
        let expected = match expected {
            "" => String::new(),
            detail => format!("spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"{new}\": {detail}\n"),
        };
        assert_eq!(found, expected, "{old} {new}");
    }
    let pod =
        format!("spec: {{{CONTAINER}, hostAliases: [{{ip: 010.0.0.1, hostnames: [a]}}, {{ip: '::ffff:1.2.3.4'}}]}}");
    super::check(
        "",
        "Pod",
        &pod,
        expect![[r#"
            spec.hostAliases[0].ip: Invalid value: "010.0.0.1": must not have leading 0s
            spec.hostAliases[1].ip: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address
        "#]],
    );
    assert_eq!(update("", "Pod", &pod, "spec.containers.0.image", json!("b")), "");
}

#[test]
fn immutable_fields_are_rejected() {
    let deployment = deployment("", CONTAINER);
    let job = format!("spec: {{template: {{spec: {{restartPolicy: Never, {CONTAINER}}}}}}}");
    let pod = format!("spec: {{{CONTAINER}}}");
    let bound = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeName: v}\nstatus: {phase: Bound}";
    let waiting = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}";
    let service = "spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}], selector: {a: b}}";
    let dual =
        "spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 'fd00::1'], ipFamilies: [IPv4, IPv6], ports: [{port: 80}]}";
    let balanced = "spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001, \
        loadBalancerClass: a/b, ports: [{port: 80}]}";
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
                spec.template: Invalid value: {"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"a","Image":"b","Command":null,"Args":null,"WorkingDir":"","Ports":null,"EnvFrom":null,"Env":null,"Resources":{"Limits":null,"Requests":null,"Claims":null},"ResizePolicy":null,"RestartPolicy":null,"RestartPolicyRules":null,"VolumeMounts":null,"VolumeDevices":null,"LivenessProbe":null,"ReadinessProbe":null,"StartupProbe":null,"Lifecycle":null,"TerminationMessagePath":"/dev/termination-log","TerminationMessagePolicy":"File","ImagePullPolicy":"IfNotPresent","SecurityContext":null,"Stdin":false,"StdinOnce":false,"TTY":false}],"EphemeralContainers":null,"RestartPolicy":"Never","TerminationGracePeriodSeconds":30,"ActiveDeadlineSeconds":null,"DNSPolicy":"ClusterFirst","NodeSelector":null,"ServiceAccountName":"","AutomountServiceAccountToken":null,"NodeName":"","SecurityContext":{"HostNetwork":false,"HostPID":false,"HostIPC":false,"ShareProcessNamespace":null,"HostUsers":null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"SupplementalGroups":null,"SupplementalGroupsPolicy":null,"FSGroup":null,"FSGroupChangePolicy":null,"Sysctls":null,"SeccompProfile":null,"AppArmorProfile":null,"SELinuxChangePolicy":null},"ImagePullSecrets":null,"Hostname":"","Subdomain":"","SetHostnameAsFQDN":null,"Affinity":null,"SchedulerName":"default-scheduler","Tolerations":null,"HostAliases":null,"PriorityClassName":"","Priority":null,"PreemptionPolicy":null,"DNSConfig":null,"ReadinessGates":null,"RuntimeClassName":null,"Overhead":null,"EnableServiceLinks":null,"TopologySpreadConstraints":null,"OS":null,"SchedulingGates":null,"ResourceClaims":null,"Resources":null,"HostnameOverride":null,"SchedulingGroup":null}}: field is immutable
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
            "Namespace",
            "spec: {finalizers: [kubernetes]}",
            "spec.finalizers",
            "[x, a.b/c, 'd e']",
            expect![[r#"
            spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified
            spec.finalizers: Invalid value: "d e": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.finalizers: Invalid value: "d e": name is neither a standard finalizer name nor is it fully qualified
        "#]],
        ),
        ("", "PersistentVolumeClaim", bound, "spec.storageClassName", "b", expect![""]),
        (
            "",
            "PersistentVolumeClaim",
            bound,
            "spec.volumeName",
            "w",
            expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
        "#]],
        ),
        ("", "PersistentVolumeClaim", bound, "spec.resources.requests.storage", "2Gi", expect![""]),
        ("", "PersistentVolumeClaim", bound, "spec.resources.requests.storage", "1Mi", expect![""]),
        (
            "",
            "PersistentVolumeClaim",
            waiting,
            "spec.resources.requests.storage",
            "2Gi",
            expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
        "#]],
        ),
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
            "Service",
            dual,
            "spec.clusterIPs",
            "[10.0.0.1, 'fd00::2']",
            expect![[r#"
            spec.clusterIPs[1]: Invalid value: ["10.0.0.1","fd00::2"]: may not change once set
        "#]],
        ),
        (
            "",
            "Service",
            balanced,
            "spec.loadBalancerClass",
            "b/c",
            expect![[r#"
            spec.loadBalancerClass: Invalid value: "b/c": may not change once set
        "#]],
        ),
        (
            "",
            "Service",
            balanced,
            "spec.healthCheckNodePort",
            "30002",
            expect![[r#"
            spec.healthCheckNodePort: Invalid value: 30002: field is immutable
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
        (
            "storage.k8s.io",
            "StorageClass",
            "provisioner: a",
            "allowedTopologies",
            "[{matchLabelExpressions: [{key: a}]}]",
            expect![[r#"
            allowedTopologies[0].matchLabelExpressions[0].values: Required value
        "#]],
        ),
        (
            "node.k8s.io",
            "RuntimeClass",
            "handler: a",
            "scheduling",
            "{nodeSelector: {a b: c}}",
            expect![[r#"
            scheduling.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        "#]],
        ),
    ] {
        expected.assert_eq(&update(group, kind, document, path, yaml(value)));
    }
}
