//! `karmadactl rollout` and `wait` over a control plane and two members.

use std::process::Stdio;

use apimachinery::{ApiResource, ObjectKey};
use client::{DeleteOptions, Patch, PatchOptions};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Ran};
use crate::plane::{deployments, policies};

/// Deployment default/web in both members.
async fn fleet() -> Fleet {
    let fleet = Fleet::start(&["member1", "member2"]).await;
    fleet.reachable("member1").await;
    fleet.reachable("member2").await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "default"}, "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}],
            "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]}}}});
    let labels = json!({"app": "web"});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
    fleet.plane.client().create(&policies(), &policy).await.expect("created");
    fleet.plane.client().create(&deployments(), &web).await.expect("created");
    fleet
}

fn shown(ran: &Ran) -> String {
    let mut text = String::new();
    for (stream, output) in [("O", &ran.out), ("E", &ran.err)] {
        output.lines().for_each(|line| text.push_str(&format!("{stream}|{line}\n")));
    }
    text + &format!("rc={}\n", ran.code.unwrap_or(-1))
}

async fn check(fleet: &Fleet, line: &str, expected: Expect) {
    let words: Vec<&str> = line.split(' ').collect();
    expected.assert_eq(&shown(&fleet.karmadactl(&words).await));
}

fn web() -> ObjectKey {
    ObjectKey::namespaced("default", "web")
}

async fn change(fleet: &Fleet, patch: Value) {
    let options = PatchOptions::default();
    fleet.plane.client().patch(&deployments(), &web(), &Patch::Merge(patch), &options).await.expect("patched");
}

async fn restarted_at(fleet: &Fleet) -> Value {
    let tree = fleet.plane.client().get(&deployments(), &web()).await.expect("there").to_value().expect("a tree");
    tree["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].clone()
}

/// The last line of each cluster: the number of earlier ones depends on the members' speed.
fn last_lines(ran: Ran) -> Vec<String> {
    let mut last = std::collections::BTreeMap::new();
    for line in ran.ok().lines() {
        let (cluster, text) = line.split_once(": ").expect("a cluster and its text");
        last.insert(cluster.to_owned(), text.to_owned());
    }
    last.into_iter().map(|(cluster, text)| format!("{cluster}: {text}")).collect()
}

const FINISHED: [&str; 3] = [
    "Karmada: deployment \"web\" is scheduled to member1, member2",
    "member1: deployment \"web\" successfully rolled out",
    "member2: deployment \"web\" successfully rolled out",
];

#[tokio::test]
async fn a_change_is_followed_into_every_cluster() {
    let fleet = fleet().await;
    for line in [
        "rollout status deployment/web --timeout=60s",
        "rollout status deploy web -w",
        "rollout status deployment/web --operation-scope=karmada --timeout=60s",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(last_lines(fleet.karmadactl(&words).await), FINISHED, "{line}");
    }
    check(
        &fleet,
        "rollout status deploy -l app=web -s members --timeout=60s -C member2",
        expect![[r#"
        O|member2: deployment "web" successfully rolled out
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout restart deployment/web --dry-run=server",
        expect![[r#"
        O|deployment.apps/web restarted (server dry run)
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout restart deployment/web --dry-run=client -o name",
        expect![[r#"
        O|deployment.apps/web
        rc=0
    "#]],
    )
    .await;
    assert_eq!(restarted_at(&fleet).await, Value::Null);
    check(
        &fleet,
        "rollout restart deployment",
        expect![[r#"
        O|deployment.apps/web restarted
        rc=0
    "#]],
    )
    .await;
    assert!(restarted_at(&fleet).await.is_string());
    assert_eq!(last_lines(fleet.karmadactl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await), FINISHED);
    check(
        &fleet,
        "rollout history deployment/web",
        expect![[r#"
        O|deployment.apps/web
        O|CLUSTER   REVISION   CHANGE-CAUSE
        O|member1   1          <none>
        O|member1   2          <none>
        O|member2   1          <none>
        O|member2   2          <none>
        O|
        rc=0
    "#]],
    )
    .await;
    let second = fleet.karmadactl(&["rollout", "history", "deploy/web", "--revision=2", "-C", "member1"]).await.ok();
    assert!(second.starts_with("deployment.apps/web with revision #2 in cluster member1\nPod Template:\n"), "{second}");
    assert!(second.contains("kubectl.kubernetes.io/restartedAt"), "{second}");
}

#[tokio::test]
async fn a_cluster_that_does_not_finish_is_named() {
    let fleet = fleet().await;
    fleet.karmadactl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.ok();
    let overrides = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies");
    let rule = |operator: &str, path: &str, value: Value| {
        json!({"targetCluster": {"clusterNames": ["member2"]},
            "overriders": {"plaintext": [{"path": path, "operator": operator, "value": value}]}})
    };
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "nowhere", "namespace": "default"},
        "spec": {"overrideRules": [rule("add", "/spec/template/spec/nodeSelector", json!({"disk": "none"}))]}});
    fleet.plane.client().create(&overrides, &policy).await.expect("created");
    let ran = fleet.karmadactl(&["rollout", "status", "deployment/web", "--timeout=2s"]).await;
    assert_eq!(ran.code, Some(1));
    let waiting =
        "member2: Waiting for deployment \"web\" rollout to finish: 1 out of 2 new replicas have been updated...";
    assert_eq!(ran.err, format!("error: timed out waiting for the condition on deployments/web: {waiting}\n"));
    change(&fleet, json!({"spec": {"progressDeadlineSeconds": 1}})).await;
    let ran = fleet.karmadactl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await;
    assert_eq!(ran.err, "error: cluster(member2): deployment \"web\" exceeded its progress deadline\n");
    assert_eq!(ran.code, Some(1));

    // A restart that member2 would not notice.
    let mut policy = policy;
    policy["spec"]["overrideRules"] =
        json!([rule("replace", "/spec/template/metadata", json!({"labels": {"app": "web"}}))]);
    let key = ObjectKey::namespaced("default", "nowhere");
    let rules = Patch::Merge(json!({"spec": policy["spec"]}));
    fleet.plane.client().patch(&overrides, &key, &rules, &PatchOptions::default()).await.expect("patched");
    check(&fleet, "rollout restart deployment/web", expect![[r#"
        O|deployment.apps/web restarted
        E|Warning: the restart has no effect in cluster member2: OverridePolicy nowhere changes the annotations of the pod template
        rc=0
    "#]])
    .await;
}

#[tokio::test]
async fn rollout_commands_print_kubectls_messages() {
    let fleet = fleet().await;
    check(
        &fleet,
        "rollout pause deployment/web",
        expect![[r#"
        O|deployment.apps/web paused
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout pause deployment/web",
        expect![[r#"
        E|error: deployments.apps "web" is already paused
        rc=1
    "#]],
    )
    .await;
    check(&fleet, "rollout restart deployment/web", expect![[r#"
        E|error: deployments.apps "web" can't restart paused deployment (run `karmadactl rollout resume deployment/web` first)
        rc=1
    "#]])
    .await;
    check(
        &fleet,
        "rollout resume deployment/web",
        expect![[r#"
        O|deployment.apps/web resumed
        rc=0
    "#]],
    )
    .await;
    check(&fleet, "rollout undo deployment/web", expect![[r#"
        E|error: cannot undo the rollout of deployment.apps/web: the control plane keeps no revisions of templates. Print those of the member clusters with `karmadactl rollout history deployment.apps/web`, one of them with --revision=N -o yaml, and apply the earlier manifest
        rc=1
    "#]]).await;
    check(
        &fleet,
        "rollout status deployment/none",
        expect![[r#"
        E|Error from server (NotFound): deployments.apps "none" not found
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout status deployment/web -C nowhere",
        expect![[r#"
        E|error: clusters don't exist: nowhere
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout status propagationpolicy/all",
        expect![[r#"
        E|error: propagationpolicy.policy.karmada.io/all: objects of kind PropagationPolicy stay in the control plane: they have no rollout
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "wait --for=propagated namespace/default",
        expect![[r#"
        E|error: namespace/default: namespaces are propagated to every cluster without a policy: karmadactl why namespace/default
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout history deployment/none",
        expect![[r#"
        E|error: no member cluster holds the object
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout history deployment/web --revision=9 -C member1",
        expect![[r#"
        E|error: cluster(member1): unable to find revision 9 of deployment.apps/web
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout",
        expect![[r#"
        O|Manage the rollout of workloads over clusters.
        O|
        O| For deployments, daemonsets and statefulsets; status follows other kinds by their health.
        O|
        O|Examples:
        O|  # Follow the newest change of a deployment into all its clusters
        O|  karmadactl rollout status deployment/web
        O|
        O|  # Restart a deployment in all its clusters
        O|  karmadactl rollout restart deployment/web
        O|
        O|Available Commands:
        O|  status      Show the status of the rollout in every cluster
        O|  history     View the revisions in member clusters
        O|  restart     Restart a resource in every cluster
        O|  pause       Mark a deployment as paused
        O|  resume      Resume a paused deployment
        O|  undo        Explain how to return to a revision
        O|
        O|Usage:
        O|  karmadactl rollout [options]
        O|
        O|Use "karmadactl options" for a list of global command-line options (applies to all commands).
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "rollout status",
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
}

#[tokio::test]
async fn conditions_are_waited_for() {
    let fleet = fleet().await;
    check(
        &fleet,
        "wait --for=propagated deployment/web --timeout=60s",
        expect![[r#"
        O|deployment.apps/web condition met
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "wait --for=condition=Available deploy/web -s members --timeout=60s",
        expect![[r#"
        O|deployment.apps/web condition met in cluster member1
        O|deployment.apps/web condition met in cluster member2
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "wait --for=jsonpath={.status.readyReplicas}=4 deployment -l app=web --timeout=60s",
        expect![[r#"
        O|deployment.apps/web condition met
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "wait --for=condition=Nothing deployment/web --timeout=0",
        expect![[r#"
        E|error: condition not met for deployments/web
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "wait --for=condition=Ready deployment/none",
        expect![[r#"
        E|Error from server (NotFound): deployments.apps "none" not found
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "wait --for=condition=Ready pod -l app=none",
        expect![[r#"
        E|error: no matching resources found
        rc=1
    "#]],
    )
    .await;
    check(&fleet, "wait deployment/web", expect![[r#"
        E|error: unrecognized condition: ""; it is create, delete, propagated, condition=NAME[=VALUE] or jsonpath={PATH}[=VALUE]
        rc=1
    "#]]).await;
    check(&fleet, "wait --for=propagated deployment/web -s all", expect![[r#"
        E|error: --for=propagated is about the control plane's objects: leave out --operation-scope, and name clusters with -C
        rc=1
    "#]]).await;
    check(
        &fleet,
        "wait --for=delete deployment/none",
        expect![[r#"
            rc=0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn creation_and_deletion_end_a_wait() {
    let fleet = fleet().await;
    let begin = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        fleet.command(&words).stdout(Stdio::piped()).spawn().expect("the binary starts")
    };
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}});
    let control = fleet.plane.client();
    let ended = async |child: std::process::Child| {
        let output = tokio::task::spawn_blocking(move || child.wait_with_output());
        shown(&Ran::from(output.await.expect("no panic").expect("it ends")))
    };
    let created = begin("wait --for=create cm/settings --timeout=60s");
    let copied = begin("wait --for=create cm/settings -s members --timeout=60s");
    control.create(&config_maps, &settings).await.expect("created");
    expect![[r#"
        O|configmap/settings condition met
        rc=0
    "#]]
    .assert_eq(&ended(created).await);
    expect![[r#"
        O|configmap/settings condition met in cluster member1
        O|configmap/settings condition met in cluster member2
        rc=0
    "#]]
    .assert_eq(&ended(copied).await);
    check(
        &fleet,
        "wait --for=propagated cm/settings --timeout=60s",
        expect![[r#"
        O|configmap/settings condition met
        rc=0
    "#]],
    )
    .await;
    let gone = begin("wait --for=delete cm/settings -s all --timeout=60s");
    let key = ObjectKey::namespaced("default", "settings");
    control.delete(&config_maps, &key, &DeleteOptions::default()).await.expect("deleted");
    // Objects that are gone before the first read are not printed.
    let gone = ended(gone).await;
    assert!(gone.ends_with("rc=0\n") && !gone.contains("E|"), "{gone}");
}
