//! Transcripts of `karmadactl edit`, `taint` and `promote`.

use expect_test::expect;
use serde_json::json;

use crate::karmadactl_desk::{CONFIG_MAP, Desk};

#[tokio::test]
async fn objects_are_edited_until_the_server_accepts_them() {
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
    let stored = async |editor: &str| {
        let shown = edit("edit cm/a", editor).await;
        shown.lines().map(|line| line.split(" \"D/").next().unwrap_or(line).to_owned()).collect::<Vec<_>>().join("\n")
    };
    expect![[r#"
        E|A copy of your changes has been stored to
        E|error: At least one of apiVersion, kind and name was changed
        rc=1"#]]
    .assert_eq(&stored("sed -i s/^kind.*/kind:\\ Other/").await);
    // The editor also changes the comments, which contain the problem.
    expect![[r#"
        E|The ConfigMap "a" is invalid: data[k~]: Invalid value: "k~": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        E|A copy of your changes has been stored to
        E|error: Edit cancelled, no valid changes were saved.
        rc=1"#]]
    .assert_eq(&stored("sed -i -e s/invalid/wrong/ -e s/^..k:/\\ \\ k~:/").await);
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
        E|error: there was a problem with the editor "false"
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
async fn an_edit_keeps_the_last_applied_manifest() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    let run = async |line: &str, editor: &str| desk.run_with(line, &[("KUBE_EDITOR", editor)]).await;
    let last = "get cm a -o jsonpath={.metadata.annotations}";
    run("apply -f D/a.yaml", "true").await;
    let applied = run(last, "true").await;
    assert!(applied.contains("last-applied-configuration"), "{applied}");
    run("edit cm/a", "sed -i s/^..k:.v/\\ \\ k:\\ w/").await;
    assert_eq!(run(last, "true").await, applied);
    run("edit cm/a --save-config", "sed -i s/^..k:.w/\\ \\ k:\\ x/").await;
    let saved = run(last, "true").await;
    assert!(saved.contains(r#"\"k\":\"x\""#), "{saved}");
    // JSON has no comments.
    expect![[r#"
        E|Edit cancelled, no changes made.
        rc=0
    "#]]
    .assert_eq(&run("edit cm/a -o json", "python3 -m json.tool --no-ensure-ascii --indent 4 >/dev/null").await);
    assert_eq!(run("create -f D/a.yaml --edit -o json", "head -c 1").await.lines().next(), Some("O|{"));
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
        O|Cluster member1 with the taints drain=yes:NoExecute
        O|0 workloads would move, 0 would find no place, 0 would stay
        O|Nothing leaves while no other cluster is ready
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
        O|metrics.k8s.io/v1beta1
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
