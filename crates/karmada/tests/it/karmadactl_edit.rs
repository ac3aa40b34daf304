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
        E|error: Edit cancelled, no valid changes were saved.
        rc=1"#]]
    .assert_eq(&stored("sed -i s/^kind.*/kind:\\ Other/").await);
    // The editor also changes the comments, which contain the problem.
    expect![[r#"
        E|error: configmaps "a" is invalid
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
        E|error: You must provide one or more resources by argument or filename.
        E|Example resource specifications include:
        E|   '-f rsrc.yaml'
        E|   '--filename=rsrc.json'
        E|   '<resource> <name>'
        E|   '<resource>'
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

/// An editor that appends what it opens to a file, and then runs the line of its turn; `$F` is the opened file.
fn editor(desk: &Desk, turns: &[&str]) -> String {
    let mut script = "n=$(cat D/turns 2>/dev/null || echo 0); n=$((n+1)); echo $n > D/turns; F=$1\n\
                      { echo \"--- $n\"; cat \"$F\"; } >> D/opened\ncase $n in\n"
        .to_owned();
    for (at, turn) in turns.iter().enumerate() {
        script.push_str(&format!("{}) {turn};;\n", at + 1));
    }
    script.push_str("esac\n");
    let directory = desk.path().display().to_string();
    desk.write("editor.sh", &script.replace("D/", &format!("{directory}/")));
    for file in ["turns", "opened"] {
        let _ = std::fs::remove_file(desk.path().join(file));
    }
    format!("sh {directory}/editor.sh")
}

/// The output of a command with that editor, without names of temporary files, and the comments that it opened.
async fn edited(desk: &Desk, line: &str, turns: &[&str]) -> String {
    let editor = editor(desk, turns);
    let shown = desk.run_with(line, &[("KUBE_EDITOR", &editor)]).await;
    let shown: String = shown
        .lines()
        .map(|line| match line.find("karmadactl-edit-").and_then(|at| line[at..].find('.').map(|end| (at, at + end))) {
            Some((from, to)) => format!("{}FILE{}\n", &line[..from], &line[to..]),
            None => format!("{line}\n"),
        })
        .collect();
    let opened = std::fs::read_to_string(desk.path().join("opened")).unwrap_or_default();
    let reasons: String = opened
        .lines()
        .filter(|line| line.starts_with("---") || line.starts_with("# *") || line.contains("not valid"))
        .map(|line| format!("{line}\n"))
        .collect();
    format!("{shown}{reasons}")
}

#[tokio::test]
async fn a_refused_edit_is_opened_again_as_by_kubectl() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.run_with("create -f D/a.yaml", &[]).await;
    // The same malformed text twice ends the command.
    expect![[r#"
        E|error: configmaps "a" is invalid
        E|A copy of your changes has been stored to "D/FILE.yaml"
        E|error: Edit cancelled, no valid changes were saved.
        rc=1
        --- 1
        --- 2
        # configmaps "a" was not valid:
        # * <nil>: Invalid value: "The edited file failed validation": error converting YAML to JSON: yaml: line 1: unclosed bracket '{'
    "#]].assert_eq(&edited(&desk, "edit cm/a", &["echo '{{{' > $F", "true"]).await);
    expect![[r#"
        E|error: configmaps "a" is invalid
        E|A copy of your changes has been stored to "D/FILE.yaml"
        E|error: Edit cancelled, no valid changes were saved.
        rc=1
        --- 1
        --- 2
        # configmaps "a" was not valid:
        # * <nil>: Invalid value: "The edited file failed validation": invalid object to validate
    "#]]
    .assert_eq(&edited(&desk, "edit cm/a", &[": > $F", "true"]).await);
    expect![[r#"
        E|Edit cancelled, saved file was empty.
        rc=0
        --- 1
    "#]]
    .assert_eq(&edited(&desk, "edit cm/a --validate=false", &[": > $F"]).await);
    expect![[r#"
        O|configmap/a edited
        E|error: configmaps "a" is invalid
        rc=0
        --- 1
        --- 2
        # configmaps "a" was not valid:
        # * data[k~]: Invalid value: "k~": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
    "#]]
        .assert_eq(&edited(&desk, "edit cm/a", &["sed -i 's/^  k:/  k~:/' $F", "sed -i 's/^  k~:/  l:/' $F"]).await);
    expect![[r#"
        E|A copy of your changes has been stored to "D/FILE.yaml"
        E|error: Edit cancelled, no valid changes were saved.
        rc=1
        --- 1
        --- 2
    "#]]
    .assert_eq(&edited(&desk, "edit cm/a", &["sed -i 's/v1$/v9/' $F", "true"]).await);
    // A conflict and a deleted object keep the text for another command.
    let conflict = "sed -i 's/resourceVersion: .*/resourceVersion: \"1\"/' $F";
    expect![[r#"
        E|error: configmaps "a" could not be patched: Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again
        E|You can run `kubectl replace -f D/FILE.yaml` to try this update again.
        rc=1
        --- 1
    "#]].assert_eq(&edited(&desk, "edit cm/a", &[conflict]).await);
    expect![[r#"
        E|A copy of your changes has been stored to "D/FILE.yaml"
        E|error: no original object found for configmap/a
        rc=1
        --- 1
    "#]]
    .assert_eq(&edited(&desk, "edit cm/a", &["sed -i 's/uid: .*/uid: other/' $F"]).await);
}

#[tokio::test]
async fn several_objects_are_edited_in_one_file() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.run_with("create -f D/a.yaml", &[]).await;
    desk.run_with("create cm b --from-literal=k=v", &[]).await;
    let first = "sed -i '0,/k: v/s//k: w/' $F";
    expect![[r#"
        O|configmap/a edited
        O|configmap/b skipped
        rc=0
        --- 1
    "#]]
    .assert_eq(&edited(&desk, "edit cm a b", &[first]).await);
    let shown = std::fs::read_to_string(desk.path().join("opened")).expect("opened");
    assert!(shown.ends_with("kind: List\nmetadata: {}\n"), "{shown}");
    // A type alone is all of its objects.
    expect![[r#"
        O|configmap/a edited
        O|configmap/b edited
        rc=0
        --- 1
    "#]]
    .assert_eq(&edited(&desk, "edit cm", &["sed -i 's/k: ./k: x/' $F"]).await);
    expect![[r#"
        E|error: edit cancelled, no objects found
        rc=1
    "#]]
    .assert_eq(&edited(&desk, "edit ingress", &["true"]).await);
    expect![[r#"
        E|error: unable to match a printer suitable for the output format "jsonpath={.data}", allowed formats are: json,kyaml,yaml
        rc=1
    "#]].assert_eq(&edited(&desk, "edit cm a -o jsonpath={.data}", &["true"]).await);
    // -o also prints the object afterwards.
    let json = edited(&desk, "edit cm a -o json", &["sed -i 's/\"x\"/\"y\"/' $F"]).await;
    assert!(json.starts_with("O|{\n") && json.contains("\"k\": \"y\""), "{json}");
    // `create --edit` opens a file for each object.
    desk.write("two.yaml", &format!("{CONFIG_MAP}---\n{CONFIG_MAP}"));
    let renamed = ["sed -i 's/name: a/name: c/' $F", "sed -i 's/name: a/name: C_/' $F"];
    expect![[r#"
        O|configmap/c created
        E|A copy of your changes has been stored to "D/FILE.yaml"
        E|The ConfigMap "C_" is invalid: metadata.name: Invalid value: "C_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        rc=1
        --- 1
        --- 2
    "#]].assert_eq(&edited(&desk, "create -f D/two.yaml --edit", &renamed).await);
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
    .assert_eq(&run("edit cm/a -o json", "'python3' -m json.tool --no-ensure-ascii --indent 4 >/dev/null").await);
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
        E|error: incorrect command format, please use correct command format: promote TYPE NAME -C CLUSTER, with one name
        rc=1
    "#]],
    )
    .await;
    desk.check("promote deployment nosuch -n default -C member1", expect![[r#"
        E|error: failed to get resource in cluster(member1). err: deployments.apps "nosuch" not found in namespace "default"
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
        "promote deployment legacy -n default -C member1 -d --dry-run",
        expect![[r#"
        O|use default interpreter
        O|Dependency resource "/v1, Resource=configmaps"(default/cmx) is promoted successfully (server dry run)
        O|ResourceTemplate (default/legacy) is created successfully (server dry run)
        O|PropagationPolicy (default/legacy-6d7f8d5f5b) is created successfully (server dry run)
        O|Resource "apps/v1, Resource=deployments"(default/legacy) is promoted successfully (server dry run)
        rc=0
    "#]],
    )
    .await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "there"}});
    let namespaces = apimachinery::ApiResource::cluster("", "v1", "Namespace", "namespaces");
    member.create(&namespaces, &namespace).await.expect("created");
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "there"}});
    member.create(&config_maps, &config_map).await.expect("created");
    for line in ["promote configmap c -n there -C member1 --dry-run", "promote configmap c -n there -C member1"] {
        desk.check(line, expect![[r#"
            E|error: the control plane has no namespace "there"; create it with: karmadactl promote namespace there -C member1
            rc=1
        "#]]).await;
    }
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
    desk.check(
        "promote deployment legacy -n default -C member1 -o xml",
        expect![[r#"
            E|error: invalid output format "xml": it is not one of json, yaml
            rc=1
        "#]],
    )
    .await;
    // A policy of another template is not changed.
    desk.check(
        "promote configmap kube-root-ca.crt -n default -C member1 --policy-name=legacy-6d7f8d5f5b",
        expect![[r#"
            E|error: the PropagationPolicy(default/legacy-6d7f8d5f5b) already exist, please edit it to propagate resource
            rc=1
        "#]],
    )
    .await;
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
