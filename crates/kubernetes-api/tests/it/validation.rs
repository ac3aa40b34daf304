//! What is refused, and how it is said.

use apimachinery::meta::Time;
use apimachinery::resource::RequestContext;
use expect_test::{Expect, expect};
use serde_json::Value;

use crate::defaults::{resource, yaml};

fn texts(errors: Vec<apimachinery::field::Error>) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

fn create(group: &str, kind: &str, document: &str) -> String {
    let resource = resource(group, kind);
    let mut object = yaml(document);
    resource.strategy.default(&mut object);
    texts(resource.strategy.validate_create(&object))
}

fn check(group: &str, kind: &str, document: &str, expected: Expect) {
    expected.assert_eq(&create(group, kind, document));
}

/// Complaints about changing a field of an object.
fn update(group: &str, kind: &str, document: &str, pointer: &str, value: Value) -> String {
    let resource = resource(group, kind);
    let mut old = yaml(document);
    resource.strategy.default(&mut old);
    let mut new = old.clone();
    let parts: Vec<&str> = pointer.split('.').collect();
    let at = parts.iter().fold(&mut new, |at, part| match part.parse::<usize>() {
        Ok(index) => &mut at[index],
        Err(_) => &mut at[*part],
    });
    *at = value;
    resource.strategy.default(&mut new);
    let context = RequestContext {
        now: Time::new("2026-01-01T00:00:00Z".parse().expect("a time")),
        user: String::new(),
        groups: Vec::new(),
        subresource: String::new(),
        dry_run: false,
    };
    texts(resource.strategy.validate_update(&context, &old, &new))
}

fn deployment(spec: &str, pod: &str) -> String {
    format!(
        "spec: {{{spec} selector: {{matchLabels: {{app: x}}}}, \
         template: {{metadata: {{labels: {{app: x}}}}, spec: {{{pod}}}}}}}"
    )
}

const CONTAINER: &str = "containers: [{name: a, image: 'a:1'}]";

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
        expect![[r#"
        spec.template.spec.containers[0].volumeMounts[1].name: Not found: "none"
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
            spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive
            spec.containers[0].ports[0].name: Invalid value: "a--b": must not contain consecutive hyphens
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
                spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
                spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers
                spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0
                spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
            "#]],
        ),
        (
            "livenessProbe: {periodSeconds: -1}, readinessProbe: {exec: {}, tcpSocket: {port: 0}}",
            expect![[r#"
            spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
            spec.containers[0].livenessProbe: Required value: must specify a handler type
            spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type
            spec.containers[0].readinessProbe.exec.command: Required value
            spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive
        "#]],
        ),
        (
            "livenessProbe: {successThreshold: 2, httpGet: {port: abc-, scheme: FTP}}",
            expect![[r#"
            spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
            spec.containers[0].livenessProbe.httpGet.port: Invalid value: "abc-": must not begin or end with a hyphen
            spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"
        "#]],
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a}, {name: '', mountPath: /a}]",
            expect![[r#"
            spec.containers[0].volumeMounts[0].name: Not found: "v"
            spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique
            spec.containers[0].volumeMounts[1].name: Required value
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
            spec.volumes[1].name: Duplicate value: "v"
            spec.dnsPolicy: Unsupported value: "X": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"
            spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type
            spec.volumes[0].hostPath.path: Required value
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
fn services_and_configuration() {
    for (spec, expected) in [
        (
            "{}",
            expect![[r#"
            spec.ports: Required value
        "#]],
        ),
        (
            "{ports: [{port: 80}, {port: 80, protocol: UDP, name: u}]}",
            expect![[r#"
            spec.ports[0].name: Required value
        "#]],
        ),
        (
            "{type: X, ports: [{port: 0}]}",
            expect![[r#"
            spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
            spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive
        "#]],
        ),
        (
            "{ports: [{port: 80, nodePort: 30000}]}",
            expect![[r#"
            spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
        "#]],
        ),
        (
            "{type: ExternalName, clusterIP: 10.0.0.1}",
            expect![[r#"
            spec.externalName: Required value
            spec.clusterIP: Forbidden: may not be set for ExternalName services
        "#]],
        ),
        (
            "{clusterIP: abc, ports: [{port: 80}]}",
            expect![[r#"
            spec.clusterIPs[0]: Invalid value: "abc": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        "#]],
        ),
        (
            "{type: NodePort, clusterIP: None, ports: [{port: 80}]}",
            expect![[r#"
            spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services
        "#]],
        ),
    ] {
        check("", "Service", &format!("spec: {spec}"), expected);
    }
    check(
        "",
        "ConfigMap",
        "{data: {'a b': x, c: d}, binaryData: {c: ''}}",
        expect![[r#"
        data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        data[c]: Invalid value: "c": duplicate of key present in binaryData
    "#]],
    );
    check(
        "",
        "Secret",
        "{type: kubernetes.io/tls, data: {tls.crt: ''}}",
        expect![[r#"
        data[tls.key]: Required value
    "#]],
    );
    check(
        "",
        "Secret",
        "{type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: ''}}",
        expect![[r#"
        data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input
    "#]],
    );
    check(
        "",
        "Secret",
        "{type: kubernetes.io/service-account-token}",
        expect![[r#"
        metadata.annotations[kubernetes.io/service-account.name]: Required value
    "#]],
    );
    let big = format!("{{data: {{k: {}}}}}", "x".repeat(1024 * 1024 + 1));
    check(
        "",
        "ConfigMap",
        &big,
        expect![[r#"
        []: Too long: may not be more than 1048576 bytes
    "#]],
    );
}

#[test]
fn the_rest() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    for (group, kind, document, expected) in [
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "spec: {minReplicas: 3, maxReplicas: 2, scaleTargetRef: {kind: D}}",
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
                subjects[0].namespace: Required value
                subjects[1].kind: Unsupported value: "Q": supported values: "ServiceAccount", "User", "Group"
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {}",
            expect![[r#"
            spec: Invalid value: {"IngressClassName":null,"DefaultBackend":null,"TLS":null,"Rules":null}: either `defaultBackend` or `rules` must be specified
        "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {rules: [{host: A, http: {paths: [{path: x, backend: {service: {name: s}}}]}}]}",
            expect![[r#"
                spec.rules[0].host: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified
                spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path
                spec.rules[0].http.paths[0].backend.service: Required value: port name or number is required
            "#]],
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            "spec: {ingress: [{from: [{}, {ipBlock: {cidr: 1.2.3.4}}], ports: [{port: 80, endPort: 79}]}]}",
            expect![[r#"
                spec.ingress[0].from[0]: Required value: must specify a peer
                spec.ingress[0].from[1].ipBlock.cidr: Invalid value: "1.2.3.4": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
                spec.ingress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`
            "#]],
        ),
        (
            "",
            "PersistentVolumeClaim",
            "spec: {resources: {}}",
            expect![[r#"
            spec.accessModes: Required value: at least 1 access mode is required
            spec.resources[storage]: Required value
        "#]],
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            "{}",
            expect![[r#"
            provisioner: Required value
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
            "PersistentVolume",
            "spec: {accessModes: [ReadWriteOnce], capacity: {storage: 0}}",
            expect![[r#"
                spec.capacity[storage]: Invalid value: "0": must be greater than zero
                spec: Required value: must specify a volume type
            "#]],
        ),
        (
            "",
            "Node",
            "spec: {taints: [{key: 'a b', effect: NoSchedule}, {key: a, effect: X}]}",
            expect![[r#"
                spec.taints[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.taints[1].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"
            "#]],
        ),
        (
            "",
            "Endpoints",
            "subsets: [{}, {addresses: [{ip: 127.0.0.1}, {ip: x}], ports: [{port: 1}, {port: 2, name: b}]}]",
            expect![[r#"
                subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`
                subsets[1].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
                subsets[1].addresses[1].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
                subsets[1].ports[0].name: Required value
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
            "storage.k8s.io",
            "VolumeAttachment",
            "spec: {attacher: a, nodeName: n, source: {}}",
            expect![[r#"
                spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName
            "#]],
        ),
        (
            "networking.k8s.io",
            "IngressClass",
            "spec: {controller: c, parameters: {kind: K, name: n, scope: Namespace}}",
            expect![[r#"
                spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'
            "#]],
        ),
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
            "",
            "Service",
            "spec: {loadBalancerSourceRanges: [1.2.3.0/24], ports: [{port: 80}]}",
            expect![[r#"
            spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'
        "#]],
        ),
        (
            "",
            "PersistentVolumeClaim",
            "spec: {accessModes: [X], resources: {requests: {storage: 1Gi}}}",
            expect![[r#"
            spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
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
            "networking.k8s.io",
            "NetworkPolicy",
            "spec: {policyTypes: [X]}",
            expect![[r#"
            spec.policyTypes[0]: Unsupported value: "X": supported values: "Egress", "Ingress"
        "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {defaultBackend: {service: {name: s, port: {number: 1}}}, tls: [{hosts: [A], secretName: B}]}",
            expect![[r#"
                spec.tls[0].hosts[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.tls[0].secretName: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "spec: {maxReplicas: 2, scaleTargetRef: {kind: D, name: d}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}",
            expect![[r#"
                spec.metrics[0].resource.target.averageUtilization: Required value: must set either a raw value or a target utilization
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
            "discovery.k8s.io",
            "EndpointSlice",
            "{addressType: IPv4, endpoints: [{addresses: []}, {addresses: ['::1']}]}",
            expect![[r#"
                endpoints[0].addresses: Required value: must contain at least 1 address
                endpoints[1].addresses[0]: Invalid value: "::1": must be a valid IPv4 address
            "#]],
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "webhooks: [{name: a, clientConfig: {}}]",
            expect![[r#"
                webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots
                webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1
                webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
                webhooks[0].clientConfig: Required value: exactly one of url or service is required
            "#]],
        ),
        (
            "",
            "LimitRange",
            "spec: {limits: [{type: Container, min: {cpu: 2}, max: {cpu: 1}}]}",
            expect![[r#"
            spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1
            spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than default request value 1
        "#]],
        ),
    ] {
        check(group, kind, document, expected);
    }
}

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
