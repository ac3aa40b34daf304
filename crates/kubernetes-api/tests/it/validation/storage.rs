//! Claims, volumes and classes.

use expect_test::expect;

use serde_json::json;

use super::{check, update};

#[test]
fn volumes() {
    for (group, kind, document, expected) in [
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
            "",
            "PersistentVolume",
            "spec: {accessModes: [ReadWriteOnce], capacity: {storage: 0}}",
            expect![[r#"
                spec.capacity[storage]: Invalid value: "0": must be greater than zero
                spec: Required value: must specify a volume type
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
            "",
            "PersistentVolumeClaim",
            "spec: {accessModes: [X], resources: {requests: {storage: 1Gi}}}",
            expect![[r#"
            spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
        "#]],
        ),
    ] {
        check(group, kind, document, expected);
    }
}

#[test]
fn classes_and_drivers() {
    const GROUP: &str = "storage.k8s.io";
    for (kind, document, expected) in [
        (
            "StorageClass",
            "{provisioner: a b/C, parameters: {'': x}, allowedTopologies: [{matchLabelExpressions: [{key: a}, \
             {key: a, values: [x, x]}, {key: '', values: [y]}]}, {}]}",
            expect![[r#"
                provisioner: Invalid value: "a b/C": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                parameters: Invalid value: "": field can not be empty.
                allowedTopologies[0].matchLabelExpressions[0].values: Required value
                allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"
                allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: "x"
                allowedTopologies[0].matchLabelExpressions[2].key: Invalid value: "": name part must be non-empty
                allowedTopologies[0].matchLabelExpressions[2].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                allowedTopologies[1].matchLabelExpressions: Duplicate value: ""
                allowedTopologies[1].matchLabelExpressions: Duplicate value: ""
            "#]],
        ),
        ("VolumeAttributesClass", "{driverName: Driver.Example, parameters: {a: b}}", expect![""]),
        (
            "VolumeAttributesClass",
            "{driverName: a b}",
            expect![[r#"
            driverName: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            parameters: Required value: must contain at least one key/value pair
        "#]],
        ),
        (
            "CSIDriver",
            "{metadata: {name: bad_}, spec: {fsGroupPolicy: Foo, volumeLifecycleModes: [Foo, Persistent], tokenRequests: \
             [{audience: a, expirationSeconds: 1}, {audience: a}, {audience: b, expirationSeconds: 4294967297}], \
             nodeAllocatableUpdatePeriodSeconds: 1}}",
            expect![[r#"
                name: Invalid value: "bad_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.fsGroupPolicy: Unsupported value: "Foo": supported values: "File", "None", "ReadWriteOnceWithFSType"
                spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
                spec.tokenRequests[1].audience: Duplicate value: "a"
                spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds
                spec.volumeLifecycleModes: Unsupported value: "Foo": supported values: "Persistent", "Ephemeral"
                spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 1: must be greater than or equal to 10 seconds
            "#]],
        ),
        (
            "CSINode",
            "spec: {drivers: [{topologyKeys: ['', a b, x, x], allocatable: {count: -5}}, {name: Driver.Example, nodeID: n1}, \
             {name: Driver.Example, nodeID: n1}]}",
            expect![[r#"
                spec.drivers[0]: Required value
                spec.drivers[0]: Invalid value: ["","a b","x","x"]: name part must be non-empty
                spec.drivers[0]: Invalid value: ["","a b","x","x"]: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.drivers[0]: Invalid value: ["","a b","x","x"]: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.drivers[0]: Duplicate value: "x"
                spec.drivers[0].name: Required value
                spec.drivers[0].name: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.drivers[0].nodeID: Required value
                spec.drivers[0].allocatable.count: Invalid value: -5: must be greater than or equal to 0
                spec.drivers[2].name: Duplicate value: "Driver.Example"
            "#]],
        ),
        (
            "CSIStorageCapacity",
            "{capacity: -1, maximumVolumeSize: -1Gi, nodeTopology: {matchLabels: {a b: c}}}",
            expect![[r#"
                nodeTopology.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                storageClassName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                capacity: Invalid value: "-1": must be greater than or equal to 0
                maximumVolumeSize: Invalid value: "-1Gi": must be greater than or equal to 0
            "#]],
        ),
        (
            "VolumeAttachment",
            "spec: {source: {persistentVolumeName: ''}}",
            expect![[r#"
            spec.attacher: Required value
            spec.attacher: Required value
            spec.attacher: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName
            spec.source.persistentVolumeName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.nodeName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        ),
        (
            "VolumeAttachment",
            "spec: {attacher: A_, nodeName: A_, source: {persistentVolumeName: A_, inlineVolumeSpec: {}}}",
            expect![[r#"
                spec.attacher: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName
                spec.source.persistentVolumeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.source.inlineVolumeSpec.accessModes: Required value
                spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes
                spec.source.inlineVolumeSpec: Required value: must specify a volume type
                spec.nodeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        ),
    ] {
        check(GROUP, kind, document, expected);
    }
    let class = "{driverName: a, parameters: {a: b}}";
    expect![[r#"
        driverName: Forbidden: updates to driverName are forbidden.
    "#]]
    .assert_eq(&update(GROUP, "VolumeAttributesClass", class, "driverName", json!("c")));
    expect![[r#"
        parameters: Forbidden: updates to parameters are forbidden.
    "#]]
    .assert_eq(&update(GROUP, "VolumeAttributesClass", class, "parameters.a", json!("c")));
    let node = "spec: {drivers: [{name: a, nodeID: n1}, {name: b, nodeID: n1}]}";
    expect![[r#"
        CSINodeDriver: Invalid value: {"name":"b","nodeID":"m","topologyKeys":null}: field is immutable
    "#]]
    .assert_eq(&update(GROUP, "CSINode", node, "spec.drivers.1.nodeID", json!("m")));
    expect![""].assert_eq(&update(GROUP, "CSINode", node, "spec.drivers.1.name", json!("c")));
}

#[test]
fn runtime_classes() {
    check(
        "node.k8s.io",
        "RuntimeClass",
        "{overhead: {podFixed: {cpu: -1, foo: 1}}, scheduling: {nodeSelector: {a b: c}, tolerations: [{operator: Foo}]}}",
        expect![[r#"
            handler: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0
            overhead.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified
            overhead.limits[foo]: Invalid value: "foo": must be a standard resource for containers
            scheduling.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            scheduling.tolerations[0].operator: Invalid value: "Foo": operator must be Exists when `key` is empty, which means "match all values and all keys"
            scheduling.tolerations[0].operator: Unsupported value: "Foo": supported values: "Equal", "Exists"
        "#]],
    );
    check(
        "node.k8s.io",
        "RuntimeClass",
        "{handler: a, scheduling: {tolerations: [{key: k, operator: Exists}, {key: k, operator: Exists, effect: NoExecute}, \
         {key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]}}",
        expect![[r#"
            scheduling.tolerations[2]: Duplicate value: {"Key":"k","Operator":"Exists","Value":"","Effect":"NoExecute","TolerationSeconds":1}
        "#]],
    );
}
