//! Transcripts of the commands of `karmadactl` that create, change and delete objects of the control plane.

use expect_test::expect;

use crate::karmadactl_desk::{CONFIG_MAP, Desk};

#[tokio::test]
async fn objects_are_created_patched_labelled_and_deleted() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.check(
        "create -f D/a.yaml --save-config",
        expect![[r#"
        O|configmap/a created
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "create -f D/a.yaml",
        expect![[r#"
        E|Error from server (AlreadyExists): error when creating "D/a.yaml": configmaps "a" already exists
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "create",
        expect![[r#"
        E|error: must specify one of -f and -k
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "patch cm a -p {\"data\":{\"x\":\"y\"}}",
        expect![[r#"
        O|configmap/a patched
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "patch cm a -p {\"data\":{\"x\":\"y\"}}",
        expect![[r#"
        O|configmap/a patched (no change)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "patch cm a --type=json -p [{\"op\":\"remove\",\"path\":\"/data/x\"}] -o jsonpath={.data}",
        expect![[r#"
        O|{"k":"v"}
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "patch cm a --type=merge -p data:~{z:~\"1\"} --dry-run=client -o jsonpath={.data}",
        expect![[r#"
        O|{"k":"v","z":"1"}
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "patch cm a",
        expect![[r#"
        E|error: must specify --patch or --patch-file containing the contents of the patch
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "patch cm a --type=foo -p {}",
        expect![[r#"
        E|error: --type must be one of [json merge strategic], not "foo"
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "patch cm nosuch -p {}",
        expect![[r#"
        E|Error from server (NotFound): configmaps "nosuch" not found
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "label cm a app=other",
        expect![[r#"
        E|error: 'app' already has a value (demo), and --overwrite is false
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "label cm a app=other --overwrite",
        expect![[r#"
        O|configmap/a labeled
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a app=other",
        expect![[r#"
        O|configmap/a not labeled
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a nosuch-",
        expect![[r#"
        O|label "nosuch" not found.
        O|configmap/a not labeled
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a app-",
        expect![[r#"
        O|configmap/a unlabeled
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a x=1 --dry-run=server",
        expect![[r#"
        O|configmap/a labeled (server dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a --list",
        expect![[r#"
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a",
        expect![[r#"
        E|error: at least one label update is required
        rc=1
    "#]],
    )
    .await;
    desk.check("label cm a x=a~b", expect![[r#"
        E|error: invalid label value: "x=a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        rc=1
    "#]]).await;
    desk.check(
        "label cm a twice=1 twice=2 --list",
        expect![[r#"
        O|twice=2
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a --list",
        expect![[r#"
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "label cm a x=a=b",
        expect![[r#"
        E|error: invalid label spec: x=a=b
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "label cm --all x=a --resource-version=1",
        expect![[r#"
        E|error: --resource-version may only be used with a single resource
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "annotate cm a note=hello~world",
        expect![[r#"
        O|configmap/a annotated
        rc=0
    "#]],
    )
    .await;
    desk.check("annotate cm a note=other", expect![[r#"
        E|error: --overwrite is false but found the following declared annotation(s): 'note' already has a value (hello world)
        rc=1
    "#]]).await;
    desk.check(
        "annotate -f D/a.yaml --local x=y -o yaml",
        expect![[r#"
        O|apiVersion: v1
        O|data:
        O|  k: v
        O|kind: ConfigMap
        O|metadata:
        O|  annotations:
        O|    x: "y"
        O|  labels:
        O|    app: demo
        O|  name: a
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete cm a --dry-run=client",
        expect![[r#"
        O|configmap "a" deleted from default namespace (dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete -f D/a.yaml --dry-run=server",
        expect![[r#"
        O|configmap "a" deleted from default namespace (server dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete -f D/a.yaml",
        expect![[r#"
        O|configmap "a" deleted from default namespace
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete -f D/a.yaml",
        expect![[r#"
        E|Error from server (NotFound): error when deleting "D/a.yaml": configmaps "a" not found
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "delete -f D/a.yaml --ignore-not-found",
        expect![[r#"
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete cm",
        expect![[r#"
        E|error: resource(s) were provided, but no name was specified
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "delete",
        expect![[r#"
            E|error: You must provide one or more resources by argument or filename.
            E|Example resource specifications include:
            E|   '-f rsrc.yaml'
            E|   '--filename=rsrc.json'
            E|   '<resource> <name>'
            E|   '<resource>'
            rc=1
        "#]],
    )
    .await;
    desk.check(
        "delete nosuch a",
        expect![[r#"
        E|error: the server doesn't have a resource type "nosuch"
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "delete cm -l app=demo",
        expect![[r#"
        O|No resources found
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete cm a --cascade=sometimes",
        expect![[r#"
        E|error: invalid cascade value (sometimes). Must be "background", "foreground", or "orphan"
        rc=1
    "#]],
    )
    .await;
}
