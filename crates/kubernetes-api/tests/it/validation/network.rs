//! Services, configuration, and the network.

use expect_test::expect;

use serde_json::json;

use super::{check, update};

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
                spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
                spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive
                spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
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
                spec.clusterIPs: Forbidden: may not be set for ExternalName services
                spec.externalName: Required value
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
fn networks() {
    for (group, kind, document, expected) in [
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {}",
            expect![[r#"
                spec: Invalid value: null: either `defaultBackend` or `rules` must be specified
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {rules: [{host: A, http: {paths: [{path: x, backend: {service: {name: s}}}]}}]}",
            expect![[r#"
                spec.rules[0].host: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified
                spec.rules[0].http.paths[0].backend: Required value: port name or number is required
            "#]],
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            "spec: {ingress: [{from: [{}, {ipBlock: {cidr: 1.2.3.4}}], ports: [{port: 80, endPort: 79}]}]}",
            expect![[r#"
                spec.ingress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`
                spec.ingress[0].from[0]: Required value: must specify a peer
                spec.ingress[0].from[1].ipBlock.cidr: Invalid value: "1.2.3.4": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
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
                subsets[1].addresses[1].ip: Invalid value: "x": must be a valid IP address
                subsets[1].ports[0].name: Required value
            "#]],
        ),
        (
            "networking.k8s.io",
            "IngressClass",
            "spec: {controller: c, parameters: {kind: K, name: n, scope: Namespace}}",
            expect![[r#"
                spec.controller: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")
                spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'
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
            "networking.k8s.io",
            "NetworkPolicy",
            "spec: {policyTypes: [X]}",
            expect![[r#"
                spec.policyTypes[0]: Unsupported value: "X": supported values: "Ingress", "Egress"
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {defaultBackend: {service: {name: s, port: {number: 1}}}, tls: [{hosts: [A], secretName: B}]}",
            expect![[r#"
                spec.tls[0].secretName: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.tls[0].hosts[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            "{addressType: IPv4, endpoints: [{addresses: []}, {addresses: ['::1']}]}",
            expect![[r#"
                endpoints[0].addresses: Required value: must contain at least 1 address
                endpoints[1].addresses[0]: Invalid value: "::1": must be a valid IPv4 address
                endpoints[1].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {defaultBackend: {}, rules: [{http: {paths: [{path: /, pathType: Exact}]}}]}",
            expect![[r#"
                spec.defaultBackend: Invalid value: "": resource or service backend is required
                spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {defaultBackend: {resource: {apiGroup: A_, kind: a/b, name: c}}}",
            expect![[r#"
                spec.defaultBackend.resource.apiGroup: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.defaultBackend.resource.kind: Invalid value: "a/b": may not contain '/'
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "spec: {defaultBackend: {service: {name: A, port: {name: http, number: 1}}}}",
            expect![[r#"
                spec.defaultBackend: Invalid value: "": cannot set both port name & port number
                spec.defaultBackend.service.name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "{metadata: {annotations: {kubernetes.io/ingress.class: a}}, spec: {ingressClassName: b, defaultBackend: {service: {name: a, port: {number: 1}}}}}",
            expect![[r#"
                annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "{metadata: {annotations: {kubernetes.io/ingress.class: b}}, spec: {ingressClassName: b, defaultBackend: {service: {name: a, port: {number: 1}}}}}",
            expect![""],
        ),
        (
            "networking.k8s.io",
            "IngressClass",
            "spec: {controller: c}",
            expect![[r#"
                spec.controller: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")
            "#]],
        ),
        (
            "networking.k8s.io",
            "IngressClass",
            "spec: {controller: 'A_/b c', parameters: {apiGroup: A_, kind: K, name: n, scope: Namespace, namespace: A_}}",
            expect![[r#"
                spec.controller: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.controller: Invalid value: "b c": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')
                spec.parameters.apiGroup: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.parameters.namespace: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            "#]],
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            "spec: {ingress: [{ports: [{port: 9, endPort: 70000}, {port: http, endPort: 1}, {endPort: 1}, {port: ''}]}]}",
            expect![[r#"
                spec.ingress[0].ports[0].endPort: Invalid value: 70000: must be between 1 and 65535, inclusive
                spec.ingress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is non-numeric
                spec.ingress[0].ports[2].endPort: Invalid value: 1: may not be specified when `port` is not specified
                spec.ingress[0].ports[3].port: Invalid value: "": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
                spec.ingress[0].ports[3].port: Invalid value: "": must contain at least one letter (a-z)
            "#]],
        ),
        (
            "",
            "Service",
            "{metadata: {annotations: {service.kubernetes.io/topology-mode: Auto, service.kubernetes.io/topology-aware-hints: auto, service.beta.kubernetes.io/load-balancer-source-ranges: '1.2.3.0/24, x'}}, spec: {ports: [{port: 80}]}}",
            expect![[r#"
                metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "Auto": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified
                metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Forbidden: may only be used when `type` is 'LoadBalancer'
                metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
            "#]],
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            "{addressType: FQDN, endpoints: [{addresses: [a.b., a, A_, '']}]}",
            expect![[r#"
                endpoints[0].addresses[1]: Invalid value: "a": should be a domain with at least two segments separated by dots
                endpoints[0].addresses[2]: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                endpoints[0].addresses[3]: Required value
            "#]],
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            "{addressType: IPv4, endpoints: [{addresses: [1.2.3.4], nodeName: A_, hostname: B_, hints: {forZones: [{name: ''}, {name: a}, {name: a}, {name: 'b c'}], forNodes: [{name: A_}]}}]}",
            expect![[r#"
                endpoints[0].nodeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                endpoints[0].hostname: Invalid value: "B_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                endpoints[0].hints.forZones[0].name: Required value
                endpoints[0].hints.forNodes[0].name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                endpoints[0].hints.forZones[2].name: Duplicate value: "a"
                endpoints[0].hints.forZones[3].name: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            "#]],
        ),
    ] {
        check(group, kind, document, expected);
    }
}

#[test]
fn addresses_and_their_ranges() {
    const GROUP: &str = "networking.k8s.io";
    for (document, expected) in [
        (
            "{}",
            expect![[r#"
            spec.cidrs: Required value: at least one CIDR required
        "#]],
        ),
        ("spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}", expect![""]),
        (
            "spec: {cidrs: [10.0.0.1/24]}",
            expect![[r#"
            spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length
        "#]],
        ),
        (
            "spec: {cidrs: [10.0.0.0/24, 11.0.0.0/24]}",
            expect![[r#"
            spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/24","11.0.0.0/24"]}: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64
        "#]],
        ),
        (
            "spec: {cidrs: [10.0.0.0/24, x]}",
            expect![[r#"
            spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/24","x"]}: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64
        "#]],
        ),
        (
            "spec: {cidrs: [10.0.0.0/24, 'fd00::/112', x]}",
            expect![[r#"
            spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/24","fd00::/112","x"]}: may only hold up to 2 values
        "#]],
        ),
    ] {
        check(GROUP, "ServiceCIDR", document, expected);
    }
    for (document, expected) in [
        (
            "{metadata: {name: 1.2.3.4}}",
            expect![[r#"
            spec.parentRef: Required value
        "#]],
        ),
        (
            "{metadata: {name: 1.2.3.04}, spec: {parentRef: {resource: services, name: a}}}",
            expect![[r#"
            metadata.name: Invalid value: "1.2.3.04": ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero
        "#]],
        ),
        (
            "{metadata: {name: 'FD00::1'}, spec: {parentRef: {resource: services, name: a}}}",
            expect![[r#"
            metadata.name: Invalid value: "FD00::1": not a valid address in canonical format
        "#]],
        ),
        ("{metadata: {name: 'fd00::1'}, spec: {parentRef: {resource: services, name: a, namespace: b}}}", expect![""]),
        (
            "{metadata: {name: 1.2.3.4}, spec: {parentRef: {group: A_, resource: a/b, namespace: a/b}}}",
            expect![[r#"
            spec.parentRef.group: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.parentRef.resource: Invalid value: "a/b": may not contain '/'
            spec.parentRef.name: Required value
            spec.parentRef.namespace: Invalid value: "a/b": may not contain '/'
        "#]],
        ),
    ] {
        check(GROUP, "IPAddress", document, expected);
    }
    let one = "spec: {cidrs: [10.0.0.0/24]}";
    for (cidrs, expected) in [
        (json!(["10.0.0.0/24", "fd00::/112"]), expect![""]),
        (
            json!(["10.0.0.0/24", "10.1.0.0/24"]),
            expect![[r#"
            spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: dual-stack ServiceCIDR must have one CIDR for each IP family
        "#]],
        ),
        (
            json!(["10.0.0.0/24", "fd00::1/112"]),
            expect![[r#"
            spec.cidrs[1]: Invalid value: "fd00::1/112": must not have bits set beyond the prefix length
        "#]],
        ),
        (
            json!(["10.1.0.0/24"]),
            expect![[r#"
            spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable
        "#]],
        ),
        (
            json!(["fd00::/112", "10.0.0.0/24"]),
            expect![[r#"
            spec.cidrs[0]: Invalid value: "fd00::/112": field is immutable
        "#]],
        ),
        (
            json!([]),
            expect![[r#"
            spec.cidrs: Invalid value: []: field is immutable
        "#]],
        ),
    ] {
        expected.assert_eq(&update(GROUP, "ServiceCIDR", one, "spec.cidrs", cidrs));
    }
    let address = "{metadata: {name: 1.2.3.4}, spec: {parentRef: {resource: services, name: a, namespace: b}}}";
    expect![[r#"
        spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"b","Name":"c"}: field is immutable
    "#]]
    .assert_eq(&update(GROUP, "IPAddress", address, "spec.parentRef.name", json!("c")));
}
