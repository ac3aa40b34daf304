//! Devices, classes of them, and claims.

use expect_test::expect;
use serde_json::json;

use super::{check, update};

const GROUP: &str = "resource.k8s.io";

#[test]
fn classes() {
    let spec = "spec:
  selectors: [{}, {cel: {expression: 'true'}}]
  config: [{}, {opaque: {driver: A_, parameters: 5}}, {opaque: {driver: d.example}}, {opaque: {driver: d, parameters: {}}}]
  extendedResourceName: cpu";
    check(
        GROUP,
        "DeviceClass",
        spec,
        expect![[r#"
        spec.selectors[0].cel: Required value
        spec.config[0].opaque: Required value
        spec.config[1].opaque.driver: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object
        spec.config[2].opaque.parameters: Required value
        spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name
    "#]],
    );
    check(GROUP, "DeviceClass", "{}", expect![""]);
}

#[test]
fn claims() {
    let bad = "spec:
  devices:
    requests:
    - name: a
    - {name: A_, exactly: {deviceClassName: '', allocationMode: Foo, count: -1}}
    - {name: a, exactly: {deviceClassName: B_, allocationMode: All, count: 3}, firstAvailable: [{name: x}]}
    - name: b
      firstAvailable: [{name: x, deviceClassName: c, count: -1}, {name: x, deviceClassName: c}]
    - name: t
      exactly:
        deviceClassName: c
        tolerations: [{key: 'a b', operator: Exists, value: v}, {operator: Foo, effect: Bar}, {value: 'a b'}]
    constraints: [{requests: [zz], matchAttribute: plain}, {requests: [b/x, b/y, a/b/c], matchAttribute: d.example/1x}, {}]
    config: [{requests: [yy]}]";
    check(
        GROUP,
        "ResourceClaim",
        bad,
        expect![[r#"
        spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required
        spec.devices.requests[1].name: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        spec.devices.requests[1].exactly.deviceClassName: Required value
        spec.devices.requests[1].exactly.allocationMode: Unsupported value: "Foo": supported values: "All", "ExactCount"
        spec.devices.requests[2]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set
        spec.devices.requests[2]: Duplicate value: "a"
        spec.devices.requests[3].firstAvailable[0].count: Invalid value: -1: must be greater than zero
        spec.devices.requests[3].firstAvailable[1]: Duplicate value: "x"
        spec.devices.requests[4].exactly.tolerations[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        spec.devices.requests[4].exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`
        spec.devices.requests[4].exactly.tolerations[1].operator: Unsupported value: "Foo": supported values: "Equal", "Exists"
        spec.devices.requests[4].exactly.tolerations[1].effect: Unsupported value: "Bar": supported values: "NoExecute", "NoSchedule", "None"
        spec.devices.requests[4].exactly.tolerations[2].value: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        spec.devices.constraints[0].requests[0]: Invalid value: "zz": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
        spec.devices.constraints[0].matchAttribute: Invalid value: "plain": a fully qualified name must be a domain and a name separated by a slash
        spec.devices.constraints[1].requests[1]: Invalid value: "b/y": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
        spec.devices.constraints[1].requests[2]: Invalid value: "a/b/c": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
        spec.devices.constraints[1].matchAttribute: Invalid value: "1x": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')
        spec.devices.constraints[2]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set
        spec.devices.config[0].requests[0]: Invalid value: "yy": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
        spec.devices.config[0].opaque: Required value
    "#]],
    );
    let good = "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c}}], \
                constraints: [{matchAttribute: d.example/x}], \
                config: [{requests: [a], opaque: {driver: d.example, parameters: {a: 1}}}]}}";
    check(GROUP, "ResourceClaim", good, expect![""]);
    check(GROUP, "ResourceClaimTemplate", &format!("spec: {{{good}}}"), expect![""]);
    let many: Vec<String> = (0..33).map(|n| format!("{{name: r{n}, exactly: {{deviceClassName: c}}}}")).collect();
    check(
        GROUP,
        "ResourceClaim",
        &format!("spec: {{devices: {{requests: [{}]}}}}", many.join(", ")),
        expect![[r#"
        spec.devices.requests: Too many: 33: must have at most 32 items
    "#]],
    );
    expect![[r#"
        spec: Invalid value: {"devices":{"config":[{"opaque":{"driver":"d.example","parameters":{"a":1}},"requests":["a"]}],"constraints":[{"matchAttribute":"d.example/x"}],"requests":[{"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"c"},"name":"b"}]}}: field is immutable
    "#]].assert_eq(&update(GROUP, "ResourceClaim", good, "spec.devices.requests.0.name", json!("b")));
}

#[test]
fn slices() {
    let bad = "spec:
  driver: A_
  pool: {name: A_/b, generation: -1}
  nodeName: n1
  allNodes: true
  perDeviceNodeSelection: false
  devices:
  - name: D_
    attributes: {a: {}, 1b: {string: x, int: 5}, v: {version: v1}, /c: {bool: true}, d/: {bool: true}, a/b/c: {bool: true}}
    capacity: {m: {value: 1, requestPolicy: {default: 1}}}
    taints: [{key: '', effect: Foo}, {key: a, value: 'b c'}]
  - {name: D_, nodeName: x}";
    check(
        GROUP,
        "ResourceSlice",
        bad,
        expect![[r#"
        spec.driver: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.pool.name: Invalid value: "A_/b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero
        spec.pool.generation: Invalid value: -1: must be greater than or equal to zero
        spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true
        spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set
        spec.devices[0].name: Invalid value: "D_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        spec.devices[0].attributes: Invalid value: "": the domain must not be empty
        spec.devices[0].attributes: Invalid value: "1b": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')
        spec.devices[0].attributes: Invalid value: "a/b/c": must not contain more than one slash
        spec.devices[0].attributes: Invalid value: "": the name must not be empty
        spec.devices[0].attributes[1b]: Invalid value: {"int":5,"string":"x"}: exactly one value must be specified
        spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified
        spec.devices[0].attributes[v].version: Invalid value: "v1": must be a string compatible with semver.org spec 2.0.0
        spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true
        spec.devices[0].taints[0].key: Invalid value: "": name part must be non-empty
        spec.devices[0].taints[0].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        spec.devices[0].taints[0].effect: Unsupported value: "Foo": supported values: "NoExecute", "NoSchedule", "None"
        spec.devices[0].taints[1].value: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        spec.devices[0].taints[1].effect: Required value
        spec.devices[1].name: Invalid value: "D_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        spec.devices[1]: Duplicate value: "D_"
        spec.devices[1]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec
    "#]],
    );
    check(
        GROUP,
        "ResourceSlice",
        "{}",
        expect![[r#"
        spec.driver: Required value
        spec.driver: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.pool.name: Required value
        spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero
        spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required
    "#]],
    );
    let each = "spec: {driver: d.example, pool: {name: p, resourceSliceCount: 1}, perDeviceNodeSelection: true, \
                devices: [{name: a}, {name: b, nodeName: '', allNodes: true}, {name: c, nodeName: x, allNodes: true}]}";
    check(
        GROUP,
        "ResourceSlice",
        each,
        expect![[r#"
        spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
        spec.devices[1].nodeName: Invalid value: "": must not be empty
        spec.devices[2]: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
    "#]],
    );
    let good = "spec: {driver: d.example, pool: {name: p, resourceSliceCount: 1}, nodeName: n1, \
                devices: [{name: a, attributes: {d.example/a: {version: 1.2.3-rc.1+5}}, capacity: {m: {value: 1Gi}}}]}";
    check(GROUP, "ResourceSlice", good, expect![""]);
    for (path, value, expected) in [
        (
            "spec.driver",
            "e.example",
            expect![[r#"
            spec.driver: Invalid value: "e.example": field is immutable
        "#]],
        ),
        (
            "spec.nodeName",
            "m",
            expect![[r#"
            spec.nodeName: Invalid value: "m": field is immutable
        "#]],
        ),
        (
            "spec.pool.name",
            "q",
            expect![[r#"
            spec.pool.name: Invalid value: "q": field is immutable
        "#]],
        ),
    ] {
        expected.assert_eq(&update(GROUP, "ResourceSlice", good, path, json!(value)));
    }
}
