//! The commands of `karmadactl` that write, run as the user runs them: each row is a command line with its stdout, stderr and
//! exit code.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::json;

use crate::fleet::Fleet;

/// A control plane and a directory of manifests, which reads `D` in expectations.
struct Desk {
    fleet: Fleet,
    directory: tempfile::TempDir,
}

const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    app: demo\ndata:\n  k: v\n";

impl Desk {
    async fn new(members: &[&str]) -> Self {
        let fleet = Fleet::start(members).await;
        for member in members {
            fleet.reachable(member).await;
        }
        Self { fleet, directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    async fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> String {
        let here = self.path().to_string_lossy().into_owned();
        let words: Vec<String> =
            line.split(' ').map(|word| word.replace("D/", &format!("{here}/")).replace('~', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.fleet.command(&words);
        command.env("TMPDIR", self.path());
        for (name, value) in variables {
            command.env(name, value.replace("D/", &format!("{here}/")));
        }
        let ran = self.fleet.run(command).await;
        let mut text = String::new();
        for (stream, output) in [("O", &ran.out), ("E", &ran.err)] {
            output.lines().for_each(|line| text.push_str(&format!("{stream}|{line}\n")));
        }
        text.push_str(&format!("rc={}\n", ran.code.unwrap_or(-1)));
        text.replace(&here, "D")
    }

    async fn check(&self, line: &str, expected: Expect) {
        expected.assert_eq(&self.run_with(line, &[]).await);
    }
}

#[tokio::test]
async fn manifests_are_applied_and_what_they_no_longer_hold_goes() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.check(
        "apply -f D/a.yaml --dry-run=client",
        expect![[r#"
        O|configmap/a created (dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run=server",
        expect![[r#"
        O|configmap/a created (server dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml",
        expect![[r#"
        O|configmap/a created
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml",
        expect![[r#"
        O|configmap/a unchanged
        rc=0
    "#]],
    )
    .await;
    // A field of the last manifest goes, one of another writer stays.
    desk.check(
        "label cm a theirs=1",
        expect![[r#"
        O|configmap/a labeled
        rc=0
    "#]],
    )
    .await;
    desk.write("a.yaml", &CONFIG_MAP.replace("  k: v", "  other: w"));
    desk.check(
        "apply -f D/a.yaml",
        expect![[r#"
        O|configmap/a configured
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "get cm a -o jsonpath={.data}~{.metadata.labels}",
        expect![[r#"
        O|{"other":"w"} {"app":"demo","theirs":"1"}
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --server-side",
        expect![[r#"
        O|configmap/a serverside-applied
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --server-side --force-conflicts",
        expect![[r#"
        O|configmap/a serverside-applied
        rc=0
    "#]],
    )
    .await;
    desk.write("b.yaml", &CONFIG_MAP.replace("name: a", "name: b"));
    desk.check(
        "create -f D/b.yaml",
        expect![[r#"
        O|configmap/b created
        rc=0
    "#]],
    )
    .await;
    desk.check("apply -f D/b.yaml -o name", expect![[r#"
        O|configmap/b
        E|Warning: resource configmaps/b is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by karmadactl apply. karmadactl apply should only be used on resources created declaratively by either karmadactl create --save-config or karmadactl apply. The missing annotation will be patched automatically.
        rc=0
    "#]]).await;
    desk.check(
        "apply -f D/a.yaml --prune -l app=demo",
        expect![[r#"
        O|configmap/a configured
        O|configmap/b pruned
        E|Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run=client -o go-template={{.kind}}/{{.metadata.name}}",
        expect![[r#"
        O|ConfigMap/a
        rc=0
    "#]],
    )
    .await;
    desk.write("strict.yaml", &CONFIG_MAP.replace("\ndata:", "\ndat:"));
    desk.check(
        "apply -f D/strict.yaml",
        expect![[r#"
            E|The request is invalid: patch: Invalid value: "map[dat:map[k:v] data:<nil> metadata:map[annotations:map[kubectl.kubernetes.io/last-applied-configuration:{\"apiVersion\":\"v1\",\"dat\":{\"k\":\"v\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"labels\":{\"app\":\"demo\"},\"name\":\"a\",\"namespace\":\"default\"}}\n]]]": strict decoding error: unknown field "dat"
            rc=1
        "#]],
    )
    .await;
    desk.check(
        "apply -f D/strict.yaml --validate=warn",
        expect![[r#"
            O|configmap/a configured
            E|Warning: unknown field "dat"
            rc=0
        "#]],
    )
    .await;
    desk.write("two.yaml", &format!("{CONFIG_MAP}---\napiVersion: nosuch/v1\nkind: Foo\nmetadata:\n  name: x\n"));
    desk.check("apply -f D/two.yaml", expect![[r#"
        O|configmap/a configured
        E|error: resource mapping not found for name: "x" namespace: "" from "D/two.yaml": no matches for kind "Foo" in version "nosuch/v1"
        E|ensure CRDs are installed first
        rc=1
    "#]]).await;
}

#[tokio::test]
async fn apply_refuses_as_kubectl_does() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.write("empty.yaml", "---\n");
    desk.check(
        "apply",
        expect![[r#"
        E|error: must specify one of -f and -k
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/nofile.yaml",
        expect![[r#"
        E|error: the path "D/nofile.yaml" does not exist
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/empty.yaml",
        expect![[r#"
        E|error: no objects passed to apply
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -k D/",
        expect![[r#"
        E|error: -k is not part of this version: run `kubectl kustomize D/ | karmadactl ... -f -`
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run",
        expect![[r#"
        E|error: --dry-run flag without a value was specified. A value must be set: "none", "server", or "client".
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run=maybe",
        expect![[r#"
        E|error: Invalid dry-run value (maybe). Must be "none", "server", or "client".
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --all-clusters --cluster m1",
        expect![[r#"
        E|error: --all-clusters and --cluster cannot be used together
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --cluster nosuch",
        expect![[r#"
        E|error: cluster nosuch does not exist
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --force-conflicts",
        expect![[r#"
        E|error: --force-conflicts only works with --server-side
        rc=1
    "#]],
    )
    .await;
    desk.check("apply -f D/a.yaml --prune", expect![[r#"
        E|error: all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector
        rc=1
    "#]]).await;
    desk.check("apply -f D/a.yaml -o bogus", expect![[r#"
        E|error: unable to match a printer suitable for the output format "bogus", allowed formats are: custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,name,template,templatefile,wide,yaml
        rc=1
    "#]]).await;
    desk.check(
        "apply -f D/a.yaml --nosuch",
        expect![[r#"
        E|error: unknown flag: --nosuch
        E|See 'karmadactl apply --help' for usage.
        rc=1
    "#]],
    )
    .await;
    desk.write("other.yaml", &CONFIG_MAP.replace("  name: a", "  name: a\n  namespace: other"));
    desk.check("apply -f D/other.yaml -n default", expect![[r#"
        E|error: the namespace from the provided object "other" does not match the namespace "default". You must pass '--namespace=other' to perform this operation.
        rc=1
    "#]]).await;
    desk.check(
        "apply -f D/other.yaml",
        expect![[r#"
        E|Error from server (NotFound): error when creating "D/other.yaml": namespaces "other" not found
        rc=1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn applied_objects_are_propagated_by_policies_of_their_own() {
    let desk = Desk::new(&["member1"]).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app2"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "app2:role"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app2ns"}});
    desk.write("d2.yaml", &format!("{deployment}\n---\n{role}\n---\n{namespace}\n"));
    desk.check(
        "apply -f D/d2.yaml --cluster member1",
        expect![[r#"
            O|deployment.apps/app2 created
            O|propagationpolicy.policy.karmada.io/app2-6d7f8d5f5b created
            O|clusterrole.rbac.authorization.k8s.io/app2:role created
            O|clusterpropagationpolicy.policy.karmada.io/app2.role-54499c54c created
            O|namespace/app2ns created
            O|clusterpropagationpolicy.policy.karmada.io/app2ns-646d6c6947 created
            rc=0
        "#]],
    )
    .await;
    desk.check(
        "apply -f D/d2.yaml --all-clusters",
        expect![[r#"
            O|deployment.apps/app2 unchanged
            O|propagationpolicy.policy.karmada.io/app2-6d7f8d5f5b configured
            O|clusterrole.rbac.authorization.k8s.io/app2:role unchanged
            O|clusterpropagationpolicy.policy.karmada.io/app2.role-54499c54c configured
            O|namespace/app2ns unchanged
            O|clusterpropagationpolicy.policy.karmada.io/app2ns-646d6c6947 configured
            rc=0
        "#]],
    )
    .await;
    desk.check(
        "get propagationpolicy app2-6d7f8d5f5b -o jsonpath={.spec.placement}{.spec.resourceSelectors}",
        expect![[r#"
        O|{"clusterAffinity":{}}[{"apiVersion":"apps/v1","kind":"Deployment","name":"app2","namespace":"default"}]
        rc=0
    "#]],
    )
    .await;
    let member = desk.fleet.plane.members().iter().next().expect("a member").client().clone();
    let deployments = apimachinery::ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    crate::fleet::until("the deployment is propagated", async || {
        let key = apimachinery::ObjectKey::namespaced("default", "app2");
        member.get_opt(&deployments, &key).await.expect("the member answers")
    })
    .await;
}

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
        E|error: Must specify --patch or --patch-file containing the contents of the patch
        E|Usage: karmadactl patch (-f FILENAME | TYPE NAME) [-p PATCH|--patch-file FILE] [options]
        E|See 'karmadactl patch --help' for usage.
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
        E|Usage: karmadactl delete ([-f FILENAME] | TYPE [(NAME | -l label | --all)]) [options]
        E|See 'karmadactl delete --help' for usage.
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
        E|No resources found
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

#[tokio::test]
async fn objects_are_edited_until_the_server_takes_them() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.check(
        "create -f D/a.yaml",
        expect![[r#"
        O|configmap/a created
        rc=0
    "#]],
    )
    .await;
    let edit = async |line: &str, editor: &str| desk.run_with(line, &[("KUBE_EDITOR", editor)]).await;
    expect![[r#"
        O|configmap/a edited
        rc=0
    "#]]
    .assert_eq(&edit("edit cm a", "sed -i s/^..k:.v/\\ \\ k:\\ w/").await);
    expect![[r#"
        E|Edit cancelled, no changes made.
        rc=0
    "#]]
    .assert_eq(&edit("edit cm/a", "true").await);
    expect![[r#"
        E|error: configmap/a: kind, name and namespace must not be changed
        E|error: Edit cancelled, no valid changes were saved.
        E|A copy of your changes has been stored to "D/"#]]
    .assert_eq(
        edit("edit cm/a", "sed -i s/^kind.*/kind:\\ Other/").await.split("karmadactl-edit-").next().unwrap_or_default(),
    );
    expect![[r#"
        E|Error from server (NotFound): configmaps "nosuch" not found
        rc=1
    "#]]
    .assert_eq(&edit("edit cm/nosuch", "true").await);
    expect![[r#"
        E|error: must specify a resource to edit, such as deployment/nginx, or -f
        E|Usage: karmadactl edit (RESOURCE/NAME | -f FILENAME) [options]
        E|See 'karmadactl edit --help' for usage.
        rc=1
    "#]]
    .assert_eq(&edit("edit", "true").await);
    expect![[r#"
        E|error: the editor "false" ended with exit status: 1
        rc=1
    "#]]
    .assert_eq(&edit("edit cm/a", "false").await);
    desk.check(
        "get cm a -o jsonpath={.data}",
        expect![[r#"
        O|{"k":"w"}
        rc=0
    "#]],
    )
    .await;
}

#[tokio::test]
async fn clusters_are_tainted_and_objects_promoted() {
    let desk = Desk::new(&["member1"]).await;
    desk.check(
        "taint clusters member1 dedicated=special-user:NoSchedule",
        expect![[r#"
        O|cluster/member1 tainted
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "taint clusters member1 dedicated=special-user:NoSchedule",
        expect![[r#"
        E|error: cluster member1 already has dedicated taint(s) with same effect(s) and --overwrite is false
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "taint cluster member1 dedicated:NoSchedule-",
        expect![[r#"
        O|cluster/member1 untainted
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "taint cluster member1 drain=yes:NoExecute --dry-run",
        expect![[r#"
        O|cluster/member1 tainted
        E|Warning: NoExecute evicts from cluster member1 the workloads whose policies do not tolerate the taint
        rc=0
    "#]],
    )
    .await;
    desk.check("taint cluster member1 a=b:PreferNoSchedule", expect![[r#"
        E|The Cluster "member1" is invalid: spec.taints[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoSchedule", "NoExecute"
        rc=1
    "#]]).await;
    desk.check(
        "taint cluster nosuch a=b:NoSchedule",
        expect![[r#"
        E|Error from server (NotFound): clusters.cluster.karmada.io "nosuch" not found
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "taint nodes n a=b:NoSchedule",
        expect![[r#"
        E|error: invalid resource type nodes, only ["cluster" "clusters"] are supported
        rc=1
    "#]],
    )
    .await;
    let member = desk.fleet.plane.members().iter().next().expect("a member").client().clone();
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cmx", "namespace": "default"}});
    let config_maps = apimachinery::ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    member.create(&config_maps, &config_map).await.expect("created");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "legacy", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx", "envFrom": [{"configMapRef": {"name": "cmx"}}]}]}}}});
    let deployments = apimachinery::ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    member.create(&deployments, &deployment).await.expect("created");
    desk.check(
        "promote deployment legacy -n default",
        expect![[r#"
        E|error: the cluster cannot be empty
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "promote deployment -C member1",
        expect![[r#"
        E|error: incorrect command format, please use correct command format
        rc=1
    "#]],
    )
    .await;
    desk.check("promote deployment nosuch -n default -C member1", expect![[r#"
        E|error: failed to get resource in cluster(member1). err: the deployment or nosuch don't exist in cluster(member1)
        rc=1
    "#]]).await;
    desk.check(
        "promote nosuch legacy -n default -C member1",
        expect![[r#"
        E|error: failed to get resource in cluster(member1). err: the server doesn't have a resource type "nosuch"
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "promote deployment legacy -n default -C nosuch",
        expect![[r#"
        E|error: failed to get Factory of the member cluster. err: clusters.cluster.karmada.io "nosuch" not found
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "promote deployment legacy -n default -C member1 --dry-run",
        expect![[r#"
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "promote deployment legacy -n default -C member1 -d",
        expect![[r#"
        O|use default interpreter
        O|Dependency resource "/v1, Resource=configmaps"(default/cmx) is promoted successfully
        O|ResourceTemplate (default/legacy) is created successfully
        O|PropagationPolicy (default/legacy-6d7f8d5f5b) is created successfully
        O|Resource "apps/v1, Resource=deployments"(default/legacy) is promoted successfully
        rc=0
    "#]],
    )
    .await;
    desk.check("promote deployment legacy -n default -C member1", expect![[r#"
        E|Resource "apps/v1, Resource=deployments"(default/legacy) already exist in karmada control plane, you can edit PropagationPolicy and OverridePolicy to propagate it
        rc=0
    "#]]).await;
    desk.check("get propagationpolicy legacy-6d7f8d5f5b -o jsonpath={.spec.conflictResolution}~{.spec.propagateDeps}~{.spec.preserveResourcesOnDeletion}~{.spec.placement.clusterAffinity}", expect![[r#"
        O|Overwrite true true {"clusterNames":["member1"]}
        rc=0
    "#]]).await;
    crate::fleet::until("the member's object is managed", async || {
        let key = apimachinery::ObjectKey::namespaced("default", "legacy");
        let object = member.get(&deployments, &key).await.expect("the object stays");
        object.label("karmada.io/managed").map(drop)
    })
    .await;
    desk.check(
        "api-versions -s members --cluster member1",
        expect![[r#"
        O|admissionregistration.k8s.io/v1
        O|apiextensions.k8s.io/v1
        O|apiregistration.k8s.io/v1
        O|apps/v1
        O|authentication.k8s.io/v1
        O|authorization.k8s.io/v1
        O|autoscaling/v1
        O|autoscaling/v2
        O|batch/v1
        O|certificates.k8s.io/v1
        O|coordination.k8s.io/v1
        O|discovery.k8s.io/v1
        O|events.k8s.io/v1
        O|flowcontrol.apiserver.k8s.io/v1
        O|networking.k8s.io/v1
        O|node.k8s.io/v1
        O|policy/v1
        O|rbac.authorization.k8s.io/v1
        O|resource.k8s.io/v1
        O|scheduling.k8s.io/v1
        O|storage.k8s.io/v1
        O|v1
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "api-versions -s members",
        expect![[r#"
        E|error: must specify a member cluster
        rc=1
    "#]],
    )
    .await;
}
