use serde_json::json;

use super::*;

fn check(group: &str, kind: &str, object: &Value, expected: &[&str]) {
    let found = of(&Written { group, kind, subresource: "", old: None, object });
    assert_eq!(found, expected, "{kind}");
}

fn updated(group: &str, kind: &str, subresource: &str, old: &Value, object: &Value) -> Vec<String> {
    of(&Written { group, kind, subresource, old: Some(old), object })
}

/// A pod with this spec.
fn pod(spec: Value, expected: &[&str]) {
    check("", "Pod", &json!({"metadata": {"name": "p"}, "spec": spec}), expected);
}

#[test]
fn fields_of_pods_without_effect() {
    pod(
        json!({
            "containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"},
                    {"name": "A", "value": "$(A)3"}, {"name": "A", "value": "$(A)"}],
                "ports": [{"containerPort": 80}, {"containerPort": 80}], "resources": {"requests": {"memory": "100m"}}}],
            "nodeSelector": {"beta.kubernetes.io/arch": "arm64"}, "terminationGracePeriodSeconds": -1,
            "hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}],
            "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}], "overhead": {"memory": "4m"},
        }),
        &[
            "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            "spec.hostAliases[1].ip: duplicate ip \"1.1.1.1\"",
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "spec.imagePullSecrets[2].name: invalid empty name \"\"",
            "spec.overhead[memory]: fractional byte value \"4m\" is invalid, must be an integer",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].env[3]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ],
    );
    pod(
        json!({"dnsConfig": {"nameservers": ["1.2.3.4", "05.06.07.08"]}, "hostAliases": [{"ip": "::ffff:1.2.3.4"}]}),
        &[
            "spec.dnsConfig.nameservers[1]: non-standard IP address \"05.06.07.08\" is invalid: use \"5.6.7.8\"",
            "spec.hostAliases[0].ip: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\"",
        ],
    );
}

#[test]
fn terms_of_placement() {
    pod(
        json!({
            "topologySpreadConstraints": [{"topologyKey": "beta.kubernetes.io/os"}, {"topologyKey": "z", "labelSelector": {}}],
            "affinity": {
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                    [{"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}]},
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions":
                        [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}]}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions":
                        [{"key": "foo", "operator": "In", "values": ["-1"]}]}}],
                },
            },
        }),
        &[
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
             .matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use \
             \"topology.kubernetes.io/zone\" instead",
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]\
             .values[0]: -1 is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
             '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            "spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is deprecated since v1.14; use \
             \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: \
             a null labelSelector results in matching no pod",
        ],
    );
}

#[test]
fn ports_of_all_containers() {
    let port = |host_port: i64, host_ip: &str| json!({"containerPort": 80, "hostPort": host_port, "protocol": "UDP", "hostIP": host_ip});
    pod(
        json!({
            "initContainers": [{"ports": [{"name": "test", "containerPort": 1, "protocol": "TCP"}]}],
            "containers": [
                {"ports": [port(80, "10.0.0.1"), port(80, ""), port(80, "10.0.0.2")]},
                {"ports": [port(0, "10.0.0.3"), {"name": "test", "containerPort": 2, "protocol": "TCP"}]},
            ],
        }),
        &[
            "spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: dangerously ambiguous port definition with spec.containers[0].ports[1]",
            "spec.containers[1].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:UDP \
             HostIP:10.0.0.3}",
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[1]",
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[2]",
            "spec.containers[1].ports[1]: duplicate port name \"test\" with spec.initContainers[0].ports[0], services and \
             probes that select ports by name will use spec.initContainers[0].ports[0]",
        ],
    );
}

#[test]
fn volumes_of_pods() {
    pod(
        json!({"volumes": [
            {"name": "a", "gitRepo": {}}, {"name": "b", "storageos": {}}, {"name": "c", "rbd": {}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "200m"}}}}}},
            {"name": "e", "configMap": {"name": "foo", "items": [{"path": "test/app"}, {"path": "testing"}, {"path": "test/"}]}},
            {"name": "f", "secret": {"secretName": "foo", "items": [{"path": "x"}, {"path": "x"}]}},
            {"name": "g", "projected": {"sources": [{}, {"secret": {"name": "s", "items": [{"path": "test"}]}},
                {"downwardAPI": {"items": [{"path": "test/b"}]}}, {"serviceAccountToken": {"path": "test"}},
                {"clusterTrustBundle": {"signerName": "n", "path": "other"}}]}},
        ]}),
        &[
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+",
            "spec.volumes[2].rbd: deprecated in v1.28, non-functional in v1.31+",
            "spec.volumes[3].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value \"200m\" \
             is invalid, must be an integer",
            "volume \"e\" (ConfigMap \"foo\"): overlapping paths: \"test\" with \"test/app\"",
            "volume \"f\" (Secret \"foo\"): overlapping paths: \"x\" with \"x\"",
            "volume \"g\" (Projected) has no sources provided",
            "volume \"g\" (Projected): overlapping paths: \"test/b\" (DownwardAPI) with \"test\" (Secret \"s\")",
            "volume \"g\" (Projected): overlapping paths: \"test\" (ServiceAccountToken) with \"test\" (Secret \"s\")",
            "volume \"g\" (Projected): overlapping paths: \"test\" (ServiceAccountToken) with \"test/b\" (DownwardAPI)",
        ],
    );
}

#[test]
fn annotations_that_fields_replace() {
    let object = json!({"metadata": {"annotations": {
        "scheduler.alpha.kubernetes.io/critical-pod": "", "seccomp.security.alpha.kubernetes.io/pod": "",
        "container.seccomp.security.alpha.kubernetes.io/c": "", "container.apparmor.security.beta.kubernetes.io/c": "",
    }}, "spec": {"containers": [{"name": "c"}]}});
    let of_pod = [
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \
         \"priorityClassName\" field instead",
        "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \
         \"seccompProfile\" field instead",
        "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the \
         \"seccompProfile\" field instead",
    ];
    let mut named = object.clone();
    named["metadata"]["name"] = "p".into();
    check("", "Pod", &named, &of_pod);
    let of_template = "template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since \
                       v1.30; use the \"appArmorProfile\" field instead";
    let found = of(&Written {
        group: "",
        kind: "PodTemplate",
        subresource: "",
        old: None,
        object: &json!({"template": object}),
    });
    assert_eq!((found.len(), found[3].as_str()), (4, of_template));
}

#[test]
fn workloads_warn_when_their_spec_changes() {
    let negative = json!({"spec": {"terminationGracePeriodSeconds": -1}});
    let text = |at: &str| {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        format!("{at}.spec.terminationGracePeriodSeconds: {why}")
    };
    let old = json!({"metadata": {"name": "a.b", "generation": 1}, "spec": {"template": negative}});
    let mut new = old.clone();
    assert!(updated("apps", "Deployment", "", &old, &new).is_empty(), "nothing changed");
    new["metadata"]["generation"] = 2.into();
    assert_eq!(updated("apps", "Deployment", "", &old, &new), [text("spec.template")], "the name is not new");
    assert_eq!(updated("apps", "Deployment", "scale", &old, &new), [text("spec.template")]);
    assert!(updated("apps", "Deployment", "status", &old, &new).is_empty());
    let created = of(&Written { group: "apps", kind: "Deployment", subresource: "", old: None, object: &old });
    assert!(created[0].starts_with("metadata.name: this is used in Pod names and hostnames, which can result in"));
    let cron = json!({"metadata": {"name": "c"}, "spec": {"schedule": "TZ=UTC * * * * *",
        "jobTemplate": {"spec": {"template": negative}}}});
    check("batch", "CronJob", &cron, &[&text("spec.jobTemplate.spec.template")]);
    let zone = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
    assert_eq!(updated("batch", "CronJob", "", &cron, &cron), [zone]);
    let large = json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001});
    let found = of(&Written {
        group: "batch",
        kind: "Job",
        subresource: "",
        old: None,
        object: &json!({"metadata": {"name": "j"}, "spec": large}),
    });
    assert!(
        found[0].starts_with("spec: In Indexed Jobs with a number of completions higher than 10^5 and"),
        "{found:?}"
    );
    let set = json!({"spec": {"revisionHistoryLimit": -1, "volumeClaimTemplates":
        [{"spec": {"resources": {"requests": {"storage": "1m"}}}}]}});
    let fraction = |at: &str| {
        format!(
            "spec.volumeClaimTemplates[0]{at}.resources.requests[storage]: fractional byte value \"1m\" is invalid, \
                 must be an integer"
        )
    };
    let endless =
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    check("apps", "StatefulSet", &set, &[&fraction(""), endless]);
    assert_eq!(updated("apps", "StatefulSet", "", &set, &set), [&fraction(".Spec"), endless]);
    assert!(updated("", "Pod", "", &negative, &negative).is_empty(), "programs change pods");
}

#[test]
fn networks() {
    let headless = json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP",
        "externalIPs": ["1::0:2"], "loadBalancerSourceRanges": ["10.1.2.3/16"], "externalName": "x",
        "trafficDistribution": "PreferClose"},
        "metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": ""}}});
    check(
        "",
        "Service",
        &headless,
        &[
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
            "spec.externalIPs is deprecated",
            "spec.externalIPs[0]: IPv6 address \"1::0:2\" should be in RFC 5952 canonical format (\"1::2\")",
            "spec.loadBalancerSourceRanges[0]: CIDR value \"10.1.2.3/16\" is ambiguous in this context (should be \
             \"10.1.0.0/16\" or \"10.1.2.3/32\"?)",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ],
    );
    let blocks =
        json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "::ffff:1.2.3.0/120", "except": ["1:0::/032"]}}]}]}});
    check(
        "networking.k8s.io",
        "NetworkPolicy",
        &blocks,
        &[
            "spec.egress[0].to[0].ipBlock.cidr: non-standard CIDR value \"::ffff:1.2.3.0/120\" is invalid: use \"1.2.3.0/24\"",
            "spec.egress[0].to[0].ipBlock.except[0]: non-standard CIDR value \"1:0::/032\" is invalid: use \"1::/32\"",
        ],
    );
    let old_class = json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "nginx"}}});
    let text = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
    check("networking.k8s.io", "Ingress", &old_class, &[text]);
    assert!(updated("networking.k8s.io", "Ingress", "", &old_class, &old_class).is_empty());
    let mut slice = json!({"addressType": "FQDN", "endpoints": [{"addresses": ["A::1"]}], "metadata": {"labels": {}}});
    let canonical =
        "endpoints[0].addresses[0]: IPv6 address \"A::1\" should be in RFC 5952 canonical format (\"a::1\")";
    check("discovery.k8s.io", "EndpointSlice", &slice, &["spec.addressType: FQDN endpoints are deprecated", canonical]);
    assert_eq!(updated("discovery.k8s.io", "EndpointSlice", "", &slice, &slice), [canonical]);
    slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io".into();
    assert!(updated("discovery.k8s.io", "EndpointSlice", "", &slice, &slice).is_empty());
    let status = json!({"status": {"podIPs": [{"ip": "A::1"}], "loadBalancer": {"ingress": [{"ip": "A::1"}]}}});
    let of_status = |kind: &str| updated("", kind, "status", &status, &status);
    assert!(of_status("Pod")[0].starts_with("status.podIPs[0].ip: IPv6 address"));
    assert!(of_status("Service")[0].starts_with("status.loadBalancer.ingress[0]: IPv6 address"));
    let endpoints = json!({"subsets": [{"notReadyAddresses": [{"ip": "A::1"}]}]});
    let found = updated("", "Endpoints", "", &endpoints, &endpoints);
    assert!(found[0].starts_with("subsets[0].notReadyAddresses[0].ip: IPv6 address"), "{found:?}");
}

#[test]
fn nodes_volumes_and_accounts() {
    let labels = json!({"beta.kubernetes.io/os": "linux"});
    let new = "deprecated since v1.14; use \"kubernetes.io/os\" instead";
    let expression = json!([{"key": "beta.kubernetes.io/os"}]);
    check(
        "node.k8s.io",
        "RuntimeClass",
        &json!({"scheduling": {"nodeSelector": labels}}),
        &[&format!("scheduling.nodeSelector: {new}")],
    );
    check(
        "storage.k8s.io",
        "StorageClass",
        &json!({"allowedTopologies": [{"matchLabelExpressions": expression}]}),
        &[&format!("allowedTopologies[0].matchLabelExpressions[0].key: {new}")],
    );
    check(
        "storage.k8s.io",
        "CSIStorageCapacity",
        &json!({"nodeTopology": {"matchExpressions": expression, "matchLabels": labels}}),
        &[
            &format!("nodeTopology.matchExpressions[0].key: beta.kubernetes.io/os is {new}"),
            &format!("nodeTopology.matchLabels.beta.kubernetes.io/os: {new}"),
        ],
    );
    check(
        "",
        "PersistentVolume",
        &json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle", "rbd": {}, "gitRepo": {},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expression}]}}}}),
        &[
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning.",
            &format!(
                "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is {new}"
            ),
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ],
    );
    check(
        "",
        "PersistentVolumeClaim",
        &json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "a"}},
            "spec": {"resources": {"limits": {"storage": "1m"}}}}),
        &[
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" \
             attribute instead",
            "spec.resources.limits[storage]: fractional byte value \"1m\" is invalid, must be an integer",
        ],
    );
    check(
        "",
        "Node",
        &json!({"spec": {"configSource": {}, "externalID": "x"}}),
        &[
            "spec.configSource: the feature is removed",
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
        ],
    );
    let account = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}});
    let text = "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate \
                namespaces to isolate access to mounted secrets";
    check("", "ServiceAccount", &account, &[text]);
    assert!(updated("", "ServiceAccount", "", &account, &account).is_empty());
    check("", "ConfigMap", &json!({"metadata": {"name": "a.b"}}), &[]);
    let dotted = of(&Written {
        group: "",
        kind: "Pod",
        subresource: "",
        old: None,
        object: &json!({"metadata": {"name": "a.b"}}),
    });
    assert!(
        dotted[0].starts_with("metadata.name: this is used in the Pod's hostname, which can result in"),
        "{dotted:?}"
    );
}

#[test]
fn texts_and_their_cost_are_bounded() {
    let ports: Vec<Value> = (0..20_000).map(|n| json!({"containerPort": 80, "hostPort": n % 60_000 + 1})).collect();
    let paths: Vec<Value> = (0..20_000).map(|n| json!({"path": format!("{}{}", "a/".repeat(200), n / 2)})).collect();
    let found = of(&Written {
        group: "",
        kind: "Pod",
        subresource: "",
        old: None,
        object: &json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"ports": ports}], "volumes": [{"name": "v", "secret": {"items": paths}}],
        }}),
    });
    assert_eq!(found.len(), MAX_TEXTS);
}
