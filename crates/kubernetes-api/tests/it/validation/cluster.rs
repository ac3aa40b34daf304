//! Cluster-level kinds: roles, limits, leases, policies, requests.

use expect_test::expect;

use super::check;

#[test]
fn cluster_kinds() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    for (group, kind, document, expected) in [
        (
            RBAC,
            "Role",
            "rules: [{apiGroups: ['']}, {verbs: [get], nonResourceURLs: [/x]}]",
            expect![[r#"
            rules[0].verbs: Required value: verbs must contain at least one value
            rules[0].resources: Required value: resource rules must supply at least one resource
            rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs
        "#]],
        ),
        (
            RBAC,
            "RoleBinding",
            "{roleRef: {kind: X, name: ''}, subjects: [{kind: ServiceAccount, name: s}, {kind: Q, name: q}]}",
            expect![[r#"
                roleRef.kind: Unsupported value: "X": supported values: "ClusterRole", "Role"
                roleRef.name: Required value
                subjects[1].kind: Unsupported value: "Q": supported values: "ServiceAccount", "User", "Group"
            "#]],
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            "{metadata: {name: system-x}, value: 2000000000}",
            expect![[r#"
            metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only
            value: Forbidden: maximum allowed value of a user defined priority is 1000000000
        "#]],
        ),
        (
            "",
            "Node",
            "spec: {taints: [{key: 'a b', effect: NoSchedule}, {key: a, effect: X}]}",
            expect![[r#"
                metadata.taints[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                metadata.taints[1].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
            "#]],
        ),
        (
            "",
            "ResourceQuota",
            "spec: {scopes: [BestEffort, NotBestEffort]}",
            expect![[r#"
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes
            "#]],
        ),
        (
            "apiregistration.k8s.io",
            "APIService",
            "{metadata: {name: x}, spec: {group: g.io, version: v1, groupPriorityMinimum: 30000, versionPriority: 1, service: {name: s}}}",
            expect![[r#"
                metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.g.io"
                spec.groupPriorityMinimum: Invalid value: 30000: must be positive and less than 20000
                spec.service.namespace: Required value
            "#]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "spec: {request: eA==, usages: [client auth, nope], signerName: x, expirationSeconds: 5}",
            expect![[r#"
                spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST
                spec.usages[1]: Unsupported value: "nope": supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping"
                spec.signerName: Invalid value: "x": must be a fully qualified domain and path of the form 'example.com/signer-name'
                spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)
            "#]],
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "FlowSchema",
            "spec: {matchingPrecedence: 20000, priorityLevelConfiguration: {name: ''}, rules: [{}]}",
            expect![[r#"
                spec.matchingPrecedence: Invalid value: 20000: must not be greater than 10000
                spec.priorityLevelConfiguration.name: Required value: must reference a priority level
                spec.rules[0].subjects: Required value: subjects must contain at least one value
                spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty
            "#]],
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            "spec: {validationActions: [Deny, Warn]}",
            expect![[r#"
                spec.policyName: Required value
                spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)
            "#]],
        ),
        (
            "",
            "ResourceQuota",
            "spec: {hard: {foo: 1, pods: 1, count/jobs.batch: 1}}",
            expect![[r#"
            spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified
            spec.hard[foo]: Invalid value: "foo": must be a standard resource for quotas
        "#]],
        ),
        (
            "",
            "LimitRange",
            "spec: {limits: [{type: X}]}",
            expect![[r#"
            spec.limits[0].type: Invalid value: "X": must be a standard limit type or fully qualified
        "#]],
        ),
        (
            "",
            "Secret",
            "{type: kubernetes.io/dockercfg, data: {.dockercfg: eA==}}",
            expect![[r#"
            data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value
        "#]],
        ),
        (
            "coordination.k8s.io",
            "Lease",
            "spec: {leaseDurationSeconds: 0}",
            expect![[r#"
            spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
        "#]],
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "webhooks: [{name: a, clientConfig: {}}]",
            expect![[r#"
                webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots
                webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
                webhooks[0].clientConfig: Required value: exactly one of url or service is required
                webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1
            "#]],
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "webhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s}}}]",
            expect![[r#"
                webhooks[0].clientConfig.service.name: Required value
            "#]],
        ),
        (
            "",
            "LimitRange",
            "spec: {limits: [{type: Container, min: {cpu: 2}, max: {cpu: 1}}]}",
            expect![[r#"
                spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1
                spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1
                spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1
            "#]],
        ),
        (
            "",
            "Node",
            "{spec: {podCIDRs: [10.0.0.0/24, 10.1.0.0/24]}, status: {capacity: {cpu: -1}}}",
            expect![[r#"
                status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0
                status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0
                spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one CIDR for each IP family
            "#]],
        ),
        (
            "",
            "Node",
            "spec: {podCIDRs: [10.0.0.0/24, x]}",
            expect![[r#"
                spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
            "#]],
        ),
        (
            "coordination.k8s.io",
            "Lease",
            "spec: {strategy: Newest}",
            expect![[r#"
                spec.strategy: Unsupported value: "Newest": supported values: "OldestEmulationVersion"
            "#]],
        ),
        (
            "coordination.k8s.io",
            "Lease",
            "spec: {strategy: a/b c}",
            expect![[r#"
                spec.strategy: Invalid value: "a/b c": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            "#]],
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            "aggregationRule: {clusterRoleSelectors: []}",
            expect![[r#"
                aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil
            "#]],
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            "aggregationRule: {clusterRoleSelectors: [{matchLabels: {'a b': c}}]}",
            expect![[r#"
                aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            "#]],
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            "{roleRef: {kind: Role, name: r}, subjects: [{kind: ServiceAccount, name: A_}]}",
            expect![[r#"
                subjects[0].name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        ),
    ] {
        check(group, kind, document, expected);
    }
}
