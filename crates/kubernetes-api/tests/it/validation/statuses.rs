//! Errors of `/status` endpoints from validation.

use apimachinery::meta::Time;
use apimachinery::resource::RequestContext;
use expect_test::expect;

use super::texts;
use crate::defaults::{resource, yaml};

/// Complaints about a status that follows another.
fn status(group: &str, kind: &str, spec: &str, old: &str, new: &str) -> String {
    let strategy = resource(group, kind).strategy;
    let read = |status: &str| {
        let mut object = yaml(&format!("spec: {spec}\nstatus: {status}"));
        strategy.default(&mut object).expect("few defaults");
        object
    };
    let context = RequestContext {
        now: Time::new("2026-01-01T00:00:00Z".parse().expect("a time")),
        user: String::new(),
        groups: Vec::new(),
        subresource: "status".to_owned(),
        dry_run: false,
    };
    texts(strategy.validate_update(&context, &read(old), &read(new)))
}

#[test]
fn statuses() {
    for (group, kind, spec, old, new, expected) in [
        (
            "batch",
            "Job",
            "{}",
            "{}",
            "{active: -1, ready: -2, terminating: -3, succeeded: -4, failed: -5}",
            expect![[r#"
                status.active: Invalid value: -1: must be greater than or equal to 0
                status.succeeded: Invalid value: -4: must be greater than or equal to 0
                status.failed: Invalid value: -5: must be greater than or equal to 0
                status.ready: Invalid value: -2: must be greater than or equal to 0
                status.terminating: Invalid value: -3: must be greater than or equal to 0
                status.failed: Invalid value: -5: cannot decrease the failed counter
                status.succeeded: Invalid value: -4: cannot decrease the succeeded counter
            "#]],
        ),
        (
            "batch",
            "Job",
            "{}",
            "{}",
            "{conditions: [{type: Complete, status: 'True'}]}",
            expect![[r#"
            status.completionTime: Required value: completionTime is required for Complete jobs
            status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition
            status.startTime: Required value: startTime is required for finished job
        "#]],
        ),
        (
            "batch",
            "Job",
            "{}",
            "{}",
            "{startTime: '2026-01-01T00:00:00Z', completionTime: '2025-01-01T00:00:00Z', active: 1, terminating: 1, uncountedTerminatedPods: {failed: [a]}, conditions: [{type: Complete, status: 'True'}, {type: Failed, status: 'True'}, {type: SuccessCriteriaMet, status: 'True'}]}",
            expect![[r#"
                status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions
                status.completionTime: Invalid value: "2025-01-01T00:00:00Z": completionTime cannot be set before startTime
                status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition
                status.active: Invalid value: 1: active>0 is invalid for finished job
                status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: uncountedTerminatedPods needs to be empty for finished job
                status.terminating: Invalid value: 1: terminating>0 is invalid for finished job
                status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions
            "#]],
        ),
        (
            "batch",
            "Job",
            "{}",
            "{}",
            "{startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:00:01Z', succeeded: 1, conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}",
            expect![[""]],
        ),
        (
            "batch",
            "Job",
            "{}",
            "{}",
            "{completedIndexes: '1', failedIndexes: '1', ready: 1, completionTime: '2026-01-01T00:00:01Z'}",
            expect![[r#"
                status.completionTime: Invalid value: "2026-01-01T00:00:01Z": cannot set completionTime when there is no Complete=True condition
                status.completedIndexes: Invalid value: "1": error parsing completedIndexes: too large index: "1"
                status.completedIndexes: Invalid value: "1": cannot set non-empty completedIndexes when non-indexed completion mode
                status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null
                status.ready: Invalid value: 1: cannot set more ready pods than active
            "#]],
        ),
        (
            "batch",
            "Job",
            "{completionMode: Indexed, completions: 5, backoffLimitPerIndex: 1}",
            "{}",
            "{completedIndexes: '0-2', failedIndexes: '2,4'}",
            expect![[r#"
                status.failedIndexes: Invalid value: "2,4": failedIndexes and completedIndexes overlap at index: 2
            "#]],
        ),
        (
            "batch",
            "Job",
            "{completionMode: Indexed, completions: 5, backoffLimitPerIndex: 1}",
            "{}",
            "{completedIndexes: 1-9, failedIndexes: a}",
            expect![[r#"
                status.completedIndexes: Invalid value: "1-9": error parsing completedIndexes: too large index: "9"
                status.failedIndexes: Invalid value: "a": error parsing failedIndexes: cannot convert string to integer for index: "a"
            "#]],
        ),
        (
            "batch",
            "Job",
            "{}",
            "{startTime: '2026-01-01T00:00:00Z', succeeded: 2, failed: 2, conditions: [{type: FailureTarget, status: 'True'}]}",
            "{startTime: '2026-01-01T00:00:01Z', succeeded: 1, failed: 1}",
            expect![[r#"
                status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition
                status.failed: Invalid value: 1: cannot decrease the failed counter
                status.succeeded: Invalid value: 1: cannot decrease the succeeded counter
                status.startTime: Invalid value: "2026-01-01T00:00:01Z": field is immutable for unsuspended job once set
            "#]],
        ),
        (
            "batch",
            "Job",
            "{}",
            "{}",
            "{uncountedTerminatedPods: {succeeded: [a, a, ''], failed: [a]}}",
            expect![[r#"
            status.uncountedTerminatedPods.succeeded[1]: Duplicate value: "a"
            status.uncountedTerminatedPods.succeeded[2]: Invalid value: "": must not be empty
            status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"
        "#]],
        ),
        (
            "",
            "Pod",
            "{}",
            "{}",
            "{conditions: [{type: a b, status: 'True'}], nominatedNodeName: A_, podIPs: [{ip: x}], hostIP: 10.0.0.1, hostIPs: [{ip: 10.0.0.2}, {ip: 10.0.0.2}], resourceClaimStatuses: [{name: zz}, {name: zz, resourceClaimName: A_}]}",
            expect![[r#"
                metadata.conditions[0].Type: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                status.nominatedNodeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                status.resourceClaimStatuses[0].name: Invalid value: "zz": must match the name of an entry in `spec.resourceClaims`
                status.resourceClaimStatuses[1].name: Invalid value: "zz": must match the name of an entry in `spec.resourceClaims`
                status.resourceClaimStatuses[1].name: Duplicate value: "zz"
                status.resourceClaimStatuses[1].name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
                status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`
                status.hostIPs: Invalid value: [{"IP":"10.0.0.2"},{"IP":"10.0.0.2"}]: may specify no more than one IP for each IP family
                status.hostIPs[1]: Duplicate value: {"IP":"10.0.0.2"}
            "#]],
        ),
        (
            "",
            "Pod",
            "{containers: [{name: c, image: i, resources: {requests: {a.b/c: 1}}}]}",
            "{}",
            "{containerStatuses: [{name: c, allocatedResourcesStatus: [{name: a.b/d, resources: [{resourceID: x, health: Foo}, {resourceID: x}]}, {name: 'claim:q'}]}], ephemeralContainerStatuses: [{name: e, allocatedResourcesStatus: [{name: x}]}]}",
            expect![[r#"
                status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "a.b/d": must match one of the container's resource requests
                status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value: "Foo": supported values: "Healthy", "Unhealthy", "Unknown"
                status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health: Unsupported value: "": supported values: "Healthy", "Unhealthy", "Unknown"
                status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: "x"
                status.containerStatuses[0].allocatedResourcesStatus[1].name: Invalid value: "claim:q": must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty
                status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified in container status
            "#]],
        ),
        (
            "",
            "Pod",
            "{restartPolicy: Never}",
            "{containerStatuses: [{name: c, state: {terminated: {exitCode: 0}}}]}",
            "{containerStatuses: [{name: c, state: {running: {}}}]}",
            expect![[r#"
                status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state
            "#]],
        ),
        (
            "",
            "Service",
            "{type: ClusterIP}",
            "{}",
            "{loadBalancer: {ingress: [{ip: 1.2.3.4}]}}",
            expect![[r#"
            status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'
        "#]],
        ),
        (
            "",
            "Service",
            "{type: LoadBalancer}",
            "{}",
            "{loadBalancer: {ingress: [{ip: 1.2.3, hostname: A_}, {hostname: 1.2.3.4}, {hostname: a, ipMode: VIP}, {ip: 1.2.3.4, ipMode: X}]}}",
            expect![[r#"
                status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
                status.loadBalancer.ingress[0].hostname: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
                status.loadBalancer.ingress[2].ipMode: Forbidden: may not be specified when `ip` is not set
                status.loadBalancer.ingress[3].ipMode: Unsupported value: "X": supported values: "Proxy", "VIP"
            "#]],
        ),
        (
            "networking.k8s.io",
            "Ingress",
            "{}",
            "{}",
            "{loadBalancer: {ingress: [{ip: 1.2.3, hostname: A_}, {hostname: 1.2.3.4}]}}",
            expect![[r#"
                status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
                status.loadBalancer.ingress[0].hostname: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
            "#]],
        ),
        (
            "",
            "PersistentVolumeClaim",
            "{}",
            "{}",
            "{capacity: {storage: '-1'}, allocatedResourceStatuses: {cpu: x, storage: NodeResizePending}, allocatedResources: {memory: 1, storage: '-1'}}",
            expect![[r#"
                status.capacity[storage]: Invalid value: "-1": must be greater than or equal to 0
                status.allocatedResourceStatus: Unsupported value: "cpu": supported values: "storage"
                status.allocatedResourceStatus: Unsupported value: "cpu": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"
                status.allocatedResources: Unsupported value: "memory": supported values: "storage"
                status.allocatedResources[storage]: Invalid value: "-1": must be greater than or equal to 0
            "#]],
        ),
        (
            "",
            "Node",
            "{}",
            "{}",
            "{capacity: {cpu: '-1'}, allocatable: {pods: 1500m}, addresses: [{type: InternalIP, address: a}, {type: InternalIP, address: a}]}",
            expect![[r#"
                status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0
                status.allocatable.pods: Invalid value: "1500m": must be an integer
                status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"a"}
            "#]],
        ),
        (
            "",
            "ResourceQuota",
            "{}",
            "{}",
            "{hard: {foo: 1}, used: {pods: '-1'}}",
            expect![[r#"
            status.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified
            status.hard[foo]: Invalid value: "foo": must be a standard resource for quotas
            status.used[pods]: Invalid value: "-1": must be greater than or equal to 0
        "#]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{}",
            "{conditions: [{type: '', status: ''}, {type: Approved, status: 'False'}, {type: Denied, status: 'True'}, {type: Approved, status: 'True'}, {type: Foo, status: x}]}",
            expect![[r#"
                status.conditions[0].type: Required value
                status.conditions[0].status: Required value
                status.conditions[1].status: Unsupported value: "False": supported values: "True"
                status.conditions[2].type: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive
                status.conditions[3].type: Invalid value: "Approved": Approved and Denied conditions are mutually exclusive
                status.conditions[3].type: Duplicate value: "Approved"
                status.conditions[4].status: Unsupported value: "x": supported values: "False", "True", "Unknown"
            "#]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{conditions: [{type: Approved, status: 'True'}, {type: Approved, status: 'True'}]}",
            "{conditions: [{type: Approved, status: 'True'}, {type: Approved, status: 'True'}]}",
            expect![[""]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{}",
            "{certificate: eA==}",
            expect![[r#"
                status.certificate: Invalid value: "<certificate data>": must contain one or more CERTIFICATE PEM blocks
            "#]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{}",
            "{certificate: LS0tLS1CRUdJTiBYLS0tLS0KTUFBPQotLS0tLUVORCBYLS0tLS0K}",
            expect![[r#"
                status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "X"
            "#]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{}",
            "{certificate: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=}",
            expect![[r#"
                status.certificate: Invalid value: "<certificate data>": x509: malformed certificate
            "#]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{}",
            "{certificate: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=}",
            expect![[""]],
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "{}",
            "{certificate: eA==}",
            "{certificate: eA==}",
            expect![[""]],
        ),
    ] {
        expected.assert_eq(&status(group, kind, spec, old, new));
    }
}
