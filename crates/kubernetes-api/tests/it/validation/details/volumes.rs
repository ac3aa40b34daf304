//! Volumes and the objects they refer to.

use expect_test::expect;

use super::super::CONTAINER;
use super::pods;

#[test]
fn volumes() {
    let pod = |volume: &str| format!("{CONTAINER}, volumes: [{{name: v, {volume}}}]");
    for (volume, expected) in [
        (
            "secret: {defaultMode: 1000, items: [{key: '', path: ../a}, {key: a, path: /b}]}",
            expect![[r#"
            spec.volumes[0].secret.secretName: Required value
            spec.volumes[0].secret.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive
            spec.volumes[0].secret.items[0].key: Required value
            spec.volumes[0].secret.items[0].path: Invalid value: "../a": must not contain '..'
            spec.volumes[0].secret.items[1].path: Invalid value: "/b": must be a relative path
        "#]],
        ),
        (
            "configMap: {name: '', items: [{key: a, path: ''}]}",
            expect![[r#"
            spec.volumes[0].configMap.name: Required value
            spec.volumes[0].configMap.items[0].path: Required value
        "#]],
        ),
        (
            "nfs: {server: '', path: a}",
            expect![[r#"
            spec.volumes[0].nfs.server: Required value
            spec.volumes[0].nfs.path: Invalid value: "a": must be an absolute path
        "#]],
        ),
        (
            "csi: {driver: ''}",
            expect![[r#"
                spec.volumes[0].csi.driver: Required value
                spec.volumes[0].csi.driver: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        ),
        (
            "projected: {sources: [{secret: {name: ''}}, {}]}",
            expect![[r#"
            spec.volumes[0].projected.sources[0].secret.name: Required value
        "#]],
        ),
        (
            "projected: {sources: [{serviceAccountToken: {path: '', expirationSeconds: 1}}]}",
            expect![[r#"
                spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set
                spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
                spec.volumes[0].projected.path: Required value
            "#]],
        ),
        (
            "downwardAPI: {items: [{path: a}, {path: b, fieldRef: {fieldPath: spec.nodeName}}]}",
            expect![[r#"
            spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required
            spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
        "#]],
        ),
        (
            "emptyDir: {sizeLimit: -1}",
            expect![[r#"
            spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity
        "#]],
        ),
        (
            "hostPath: {path: a/../b, type: X}",
            expect![[r#"
            spec.volumes[0].hostPath.path: Invalid value: "a/../b": must not contain '..'
            spec.volumes[0].hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
        "#]],
        ),
        (
            "persistentVolumeClaim: {claimName: ''}",
            expect![[r#"
            spec.volumes[0].persistentVolumeClaim.claimName: Required value
        "#]],
        ),
        (
            "ephemeral: {}",
            expect![[r#"
            spec.volumes[0].ephemeral.volumeClaimTemplate: Required value
        "#]],
        ),
        (
            "image: {reference: '', pullPolicy: X}",
            expect![[r#"
            spec.volumes[0].image.reference: Required value
            spec.volumes[0].image.pullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"
        "#]],
        ),
        (
            "emptyDir: {}, secret: {secretName: a}",
            expect![[r#"
            spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type
        "#]],
        ),
    ] {
        pods(vec![(&pod(volume), expected)]);
    }
}
