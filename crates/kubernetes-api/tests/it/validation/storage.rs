//! Claims, volumes and classes.

use expect_test::expect;

use super::check;

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
