//! Volumes of the cluster by their sources, and how they may change.

use expect_test::expect;
use serde_json::json;

use super::{create, update};

#[test]
fn sources() {
    for (spec, expected) in [
        (
            "accessModes: [ReadWriteOnce, ReadWriteOncePod, Foo]",
            expect![[r#"
            spec.accessModes: Unsupported value: "Foo": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
            spec: Required value: must specify a volume type
        "#]],
        ),
        (
            "capacity: {}, hostPath: {path: /x}",
            expect![[r#"
            spec.capacity: Required value
            spec.capacity: Unsupported value: null: supported values: "storage"
        "#]],
        ),
        (
            "capacity: {storage: 1Gi, cpu: 1}, hostPath: {path: a/../b, type: Foo}, persistentVolumeReclaimPolicy: Foo, volumeMode: Foo",
            expect![[r#"
                spec.capacity: Unsupported value: {"cpu":"1","storage":"1Gi"}: supported values: "storage"
                spec.persistentVolumeReclaimPolicy: Unsupported value: "Foo": supported values: "Delete", "Recycle", "Retain"
                spec.hostPath.path: Invalid value: "a/../b": must not contain '..'
                spec.hostPath.type: Unsupported value: "Foo": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
                spec.volumeMode: Unsupported value: "Foo": supported values: "Block", "Filesystem"
            "#]],
        ),
        (
            "hostPath: {path: //}, persistentVolumeReclaimPolicy: Recycle",
            expect![[r#"
            spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'
        "#]],
        ),
        (
            "nfs: {server: '', path: a}, hostPath: {path: /x}, cephfs: {monitors: []}",
            expect![[r#"
            spec.nfs: Forbidden: may not specify more than 1 volume type
            spec.nfs.server: Required value
            spec.nfs.path: Invalid value: "a": must be an absolute path
            spec.cephfs.monitors: Required value
            spec.cephFS: Forbidden: may not specify more than 1 volume type
        "#]],
        ),
        (
            "gcePersistentDisk: {pdName: '', partition: 300}",
            expect![[r#"
            spec.gcePersistentDisk.pdName: Required value
            spec.gcePersistentDisk.partition: Invalid value: 300: must be between 1 and 255, inclusive
        "#]],
        ),
        (
            "awsElasticBlockStore: {volumeID: '', partition: -1}",
            expect![[r#"
            spec.awsElasticBlockStore.volumeID: Required value
            spec.awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive
        "#]],
        ),
        (
            "glusterfs: {endpoints: '', path: '', endpointsNamespace: ''}",
            expect![[r#"
            spec.glusterfs.endpoints: Required value
            spec.glusterfs.path: Required value
        "#]],
        ),
        (
            "flocker: {datasetName: a/b, datasetUUID: c}",
            expect![[r#"
            spec.flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously
            spec.flocker.datasetName: Invalid value: "a/b": must not contain '/'
        "#]],
        ),
        (
            "flocker: {}",
            expect![[r#"
            spec.flocker: Required value: one of datasetName and datasetUUID is required
        "#]],
        ),
        (
            "rbd: {monitors: [], image: ''}",
            expect![[r#"
            spec.rbd.monitors: Required value
            spec.rbd.image: Required value
        "#]],
        ),
        (
            "quobyte: {registry: '', volume: ''}",
            expect![[r#"
            spec.quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas
            spec.quobyte.volume: Required value
        "#]],
        ),
        (
            "quobyte: {registry: 'a:1,b', volume: v}",
            expect![[r#"
            spec.quobyte.registry: Invalid value: "a:1,b": must be a host:port pair or multiple pairs separated by commas
        "#]],
        ),
        (
            "cephfs: {monitors: []}",
            expect![[r#"
            spec.cephfs.monitors: Required value
        "#]],
        ),
        (
            "iscsi: {targetPortal: '', iqn: '', lun: 256, chapAuthSession: true}",
            expect![[r#"
            spec.iscsi.targetPortal: Required value
            spec.iscsi.iqn: Required value
            spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive
            spec.iscsi.secretRef: Required value
        "#]],
        ),
        (
            "iscsi: {targetPortal: p, iqn: iqn.2001-04.com.example, lun: 0, initiatorName: foo}",
            expect![[r#"
            spec.iscsi.iqn: Invalid value: "iqn.2001-04.com.example": must be valid format
            spec.iscsi.initiatorname: Invalid value: "foo": must be valid format starting with iqn, eui, or naa
        "#]],
        ),
        (
            "iscsi: {targetPortal: p, iqn: 'iqn.2001-04.com.example:storage', lun: 0, initiatorName: eui.0123456789abcdef, secretRef: {}}",
            expect![[r#"
                spec.iscsi.secretRef.name: Required value
            "#]],
        ),
        (
            "cinder: {volumeID: '', secretRef: {}}",
            expect![[r#"
            spec.cinder.volumeID: Required value
            spec.cinder.secretRef.name: Required value
            spec.cinder.secretRef.namespace: Required value
        "#]],
        ),
        (
            "fc: {}",
            expect![[r#"
            spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both
        "#]],
        ),
        (
            "fc: {targetWWNs: [a], wwids: [b], lun: 300}",
            expect![[r#"
            spec.fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously
            spec.fc.lun: Invalid value: 300: must be between 0 and 255, inclusive
        "#]],
        ),
        (
            "fc: {targetWWNs: [a]}",
            expect![[r#"
            spec.fc.lun: Required value: lun is required if targetWWNs is specified
        "#]],
        ),
        (
            "flexVolume: {driver: '', options: {a.kubernetes.io/x: y, k8s.io: z, b: c}}",
            expect![[r#"
            spec.flexVolume.driver: Required value
            spec.flexVolume.options[a.kubernetes.io/x]: Invalid value: "a.kubernetes.io/x": kubernetes.io and k8s.io namespaces are reserved
            spec.flexVolume.options[k8s.io]: Invalid value: "k8s.io": kubernetes.io and k8s.io namespaces are reserved
        "#]],
        ),
        (
            "azureFile: {secretName: '', shareName: '', secretNamespace: ''}",
            expect![[r#"
            spec.azureFile.secretName: Required value
            spec.azureFile.shareName: Required value
        "#]],
        ),
        (
            "azureDisk: {diskName: '', diskURI: '', cachingMode: X, kind: Managed}",
            expect![[r#"
            spec.azureDisk.diskName: Required value
            spec.azureDisk.diskURI: Required value
            spec.azureDisk.diskURI: Unsupported value: "": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
            spec.azureDisk.cachingMode: Unsupported value: "X": supported values: "None", "ReadOnly", "ReadWrite"
        "#]],
        ),
        (
            "azureDisk: {diskName: d, diskURI: x, kind: Shared}",
            expect![[r#"
            spec.azureDisk.diskURI: Unsupported value: "x": supported values: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        "#]],
        ),
        (
            "vsphereVolume: {volumePath: ''}",
            expect![[r#"
            spec.vsphereVolume.volumePath: Required value
        "#]],
        ),
        (
            "photonPersistentDisk: {pdID: ''}",
            expect![[r#"
            spec.photonPersistentDisk.pdID: Required value
        "#]],
        ),
        (
            "portworxVolume: {volumeID: ''}",
            expect![[r#"
            spec.portworxVolume.volumeID: Required value
        "#]],
        ),
        (
            "scaleIO: {gateway: '', system: '', volumeName: '', secretRef: {}}",
            expect![[r#"
            spec.scaleIO.gateway: Required value
            spec.scaleIO.system: Required value
            spec.scaleIO.volumeName: Required value
        "#]],
        ),
        (
            "local: {path: ''}",
            expect![[r#"
            spec.nodeAffinity: Required value: Local volume requires node affinity
            spec.local.path: Required value
        "#]],
        ),
        (
            "local: {path: /a/../b}, nodeAffinity: {}",
            expect![[r#"
            spec.nodeAffinity.required: Required value: must specify required node constraints
            spec.local.path: Invalid value: "/a/../b": must not contain '..'
        "#]],
        ),
        (
            "storageos: {volumeName: A_, volumeNamespace: B_, secretRef: {}}",
            expect![[r#"
            spec.storageos.volumeName: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.storageos.volumeNamespace: Invalid value: "B_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.storageos.secretRef.name: Required value
            spec.storageos.secretRef.namespace: Required value
        "#]],
        ),
        (
            "csi: {driver: A_, volumeHandle: '', nodePublishSecretRef: {name: A_}}",
            expect![[r#"
            spec.csi.driver: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.csi.volumeHandle: Required value
            spec.csi.nodePublishSecretRef.name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.csi.nodePublishSecretRef.namespace: Required value
        "#]],
        ),
        (
            "hostPath: {path: /x}, volumeAttributesClassName: ''",
            expect![[r#"
            spec.csi: Required value: has to be specified when using volumeAttributesClassName
            spec.volumeAttributesClassName: Required value: an empty string is disallowed
        "#]],
        ),
    ] {
        let rest = [("accessModes", "accessModes: [ReadWriteOnce]"), ("capacity", "capacity: {storage: 1Gi}")];
        let rest = rest.iter().filter(|(field, _)| !spec.contains(field)).map(|(_, text)| format!(", {text}"));
        let document = format!("spec: {{{spec}{}}}", rest.collect::<String>());
        expected.assert_eq(&create("", "PersistentVolume", &document));
    }
}

#[test]
fn changes() {
    let volume = "spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, volumeAttributesClassName: a, \
                  csi: {driver: d, volumeHandle: h}, nodeAffinity: {required: {nodeSelectorTerms: \
                  [{matchExpressions: [{key: beta.kubernetes.io/os, operator: In, values: [linux]}]}]}}}";
    let secret = json!({"name": "a", "namespace": "b"});
    let term = |key: &str| json!([{"matchExpressions": [{"key": key, "operator": "In", "values": ["linux"]}]}]);
    for (pointer, value, expected) in [
        (
            "spec.csi.volumeHandle",
            json!("x"),
            expect![[r#"
            spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation
        "#]],
        ),
        ("spec.csi.controllerExpandSecretRef", secret, expect![[""]]),
        ("spec.nodeAffinity.required.nodeSelectorTerms", term("kubernetes.io/os"), expect![[""]]),
        (
            "spec.nodeAffinity.required.nodeSelectorTerms",
            term("x"),
            expect![[r#"
            nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"x","Operator":"In","Values":["linux"]}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA
        "#]],
        ),
        (
            "spec.volumeMode",
            json!("Block"),
            expect![[r#"
            volumeMode: Invalid value: "Block": field is immutable
        "#]],
        ),
        (
            "spec.volumeAttributesClassName",
            json!(null),
            expect![[r#"
            spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden
        "#]],
        ),
        ("spec.capacity.storage", json!("2Gi"), expect![[""]]),
    ] {
        expected.assert_eq(&update("", "PersistentVolume", volume, pointer, value));
    }
}
