//! `karmadactl get` and `api-resources` as commands: the control plane and members in one table.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use apimachinery::ApiResource;
use client::Client;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Ran};

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn config_map(name: &str, managed: bool) -> Value {
    let mut labels = json!({"app": "demo"});
    if managed {
        labels["karmada.io/managed"] = json!("true");
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {"a": "1"}})
}

async fn create(client: &Client, resource: &ApiResource, object: &Value) {
    client.create(resource, object).await.expect("created");
}

/// member1 has propagated objects, member2 its own objects, and `gone` does not respond.
async fn fleet() -> Fleet {
    let fleet = Fleet::start(&["member1", "member2"]).await;
    for cluster in ["member1", "member2"] {
        fleet.reachable(cluster).await;
    }
    let control = fleet.plane.client();
    create(control, &config_maps(), &config_map("shared", false)).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "robot", "namespace": "default", "labels": {"app": "demo"}}});
    create(control, &ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts"), &account).await;
    for (member, (name, managed)) in fleet.plane.members().iter().zip([("shared", true), ("own", false)]) {
        create(member.client(), &config_maps(), &config_map(name, managed)).await;
    }
    fleet
}

async fn add_unreachable(fleet: &Fleet) {
    fleet.add_cluster("gone", "https://127.0.0.1:1").await;
}

/// The output, with normalized ages and columns.
fn seen(ran: &Ran) -> String {
    let age = |word: &str| {
        let digits = word.strip_suffix('s').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == 'm'));
        if digits && word.len() > 1 { "AGED".to_owned() } else { word.to_owned() }
    };
    let words = |words: &str| words.split_whitespace().map(age).collect::<Vec<_>>().join(" ");
    let line = |line: &str| match line.split_once('|') {
        Some((stream, rest)) => format!("{stream}|{}\n", words(rest)),
        None => format!("{line}\n"),
    };
    ran.transcript().lines().map(line).collect()
}

async fn check(fleet: &Fleet, args: &str, expected: &Expect) {
    let args: Vec<&str> = args.split(' ').collect();
    expected.assert_eq(&seen(&fleet.karmadactl(&args).await));
}

#[tokio::test]
async fn one_table_shows_the_control_plane_and_its_members() {
    let fleet = fleet().await;
    check(
        &fleet,
        "get cm -l app=demo",
        &expect![[r#"
        O|NAME CLUSTER DATA AGE ADOPTION
        O|shared Karmada 1 AGED -
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get configmap -l app=demo --operation-scope all --chunk-size 1",
        &expect![[r#"
        O|NAME CLUSTER DATA AGE ADOPTION
        O|shared Karmada 1 AGED -
        O|shared member1 1 AGED Y
        O|own member2 1 AGED N
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm -l app=demo -s members -C member2 -A --show-labels",
        &expect![[r#"
        O|NAMESPACE NAME CLUSTER DATA AGE ADOPTION LABELS
        O|default own member2 1 AGED N app=demo
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm shared -s members",
        &expect![[r#"
        O|NAME CLUSTER DATA AGE ADOPTION
        O|shared member1 1 AGED Y
        E|error: cluster(member2): configmaps "shared" not found
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm/shared -s members --ignore-not-found --no-headers",
        &expect![[r#"
        O|shared member1 1 AGED Y
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get sa,cm -l app=demo",
        &expect![[r#"
        O|NAME CLUSTER DATA AGE ADOPTION
        O|configmap/shared Karmada 1 AGED -
        O|
        O|NAME CLUSTER AGE ADOPTION
        O|serviceaccount/robot Karmada AGED -
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm -l app=demo -s all --field-selector metadata.name=own",
        &expect![[r#"
        O|NAME CLUSTER DATA AGE ADOPTION
        O|own member2 1 AGED N
        rc=0
    "#]],
    )
    .await;
    // The order is that of all rows, not of each server's.
    check(
        &fleet,
        "get cm -l app=demo -s all --sort-by .metadata.name",
        &expect![[r#"
        O|NAME CLUSTER DATA AGE ADOPTION
        O|own member2 1 AGED N
        O|shared Karmada 1 AGED -
        O|shared member1 1 AGED Y
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm -n nosuch",
        &expect![[r#"
        E|No resources found in nosuch namespace.
        rc=0
    "#]],
    )
    .await;
    let mut members = fleet.command(&["get", "cm", "-l", "app=demo", "-o", "name"]);
    members.env("KARMADACTL_OPERATION_SCOPE", "members");
    assert_eq!(fleet.run(members).await.ok(), "configmap/shared\nconfigmap/own\n");
}

#[tokio::test]
async fn other_forms_show_each_servers_objects() {
    let fleet = fleet().await;
    check(
        &fleet,
        "get cm -l app=demo -s all -o jsonpath={range..items[*]}{.metadata.name};{end}",
        &expect![[r#"
        O|shared;shared;own;
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm -l app=demo -s all -o jsonpath={.items[*].metadata.name};",
        &expect![[r#"
        O|shared;shared;own;
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm shared -o custom-columns=NAME:.metadata.name,A:data.a",
        &expect![[r#"
        O|NAME A
        O|shared 1
        rc=0
    "#]],
    )
    .await;
    let one: Value =
        serde_json::from_str(&fleet.karmadactl(&["get", "cm", "shared", "-o", "json"]).await.ok()).expect("JSON");
    assert_eq!((&one["kind"], &one["data"]["a"]), (&json!("ConfigMap"), &json!("1")));
    assert_eq!(one["metadata"]["managedFields"], Value::Null);
    let yaml = fleet.karmadactl(&["get", "cm", "-l", "app=demo", "-s", "members", "-o", "yaml"]).await.ok();
    let names: Vec<_> = yaml.lines().filter(|line| line.trim_start().starts_with("name: ") || *line == "---").collect();
    assert_eq!(names, ["    name: shared", "---", "    name: own"], "{yaml}");
}

#[tokio::test]
async fn failures_name_the_cluster_and_hide_nothing() {
    let fleet = fleet().await;
    add_unreachable(&fleet).await;
    let ran = fleet.karmadactl(&["get", "cm", "-l", "app=demo", "-s", "members", "-C", "gone,member1"]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("shared   member1"), "{}", ran.out);
    let begins = "error: basic connection test to cluster(gone) failed, please check authorization or network: cluster \
                  gone cannot be reached: GET /api: ";
    assert!(ran.err.starts_with(begins), "{}", ran.err);
    check(
        &fleet,
        "get nosuch",
        &expect![[r#"
        E|error: cluster(Karmada): the server doesn't have a resource type "nosuch"
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm -s members -C a,member1,b",
        &expect![[r#"
        E|error: clusters don't exist: a,b
        rc=1
    "#]],
    )
    .await;
    let ran = fleet.karmadactl(&["get", "cm", "shared", "-C", "member1"]).await;
    assert!(ran.out.contains("Karmada") && !ran.out.contains("member1"), "{}", ran.out);
    let warning = "Warning: -C/--clusters has no effect without --operation-scope=members or --operation-scope=all\n";
    assert_eq!(ran.err, warning);
    // Flags may precede the command. A missing namespace is the more useful error.
    check(
        &fleet,
        "-n nosuch get cm shared -s members -C member1",
        &expect![[r#"
        E|error: cluster(member1): namespaces "nosuch" not found
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm -s bogus",
        &expect![[r#"
        E|error: invalid argument "bogus" for "-s, --operation-scope" flag: not support OperationScope: bogus
        E|See 'karmadactl get --help' for usage.
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "get cm --nosuch",
        &expect![[r#"
        E|error: unknown flag: --nosuch
        E|See 'karmadactl get --help' for usage.
        rc=1
    "#]],
    )
    .await;
    check(&fleet, "get cm,sa -w", &expect![[r#"
        E|error: watch is only supported on individual resources and resource collections - more than 1 resource was found
        rc=1
    "#]])
    .await;
    check(
        &fleet,
        "nosuch",
        &expect![[r#"
        E|error: unknown command "nosuch" for "karmadactl"
        rc=1
    "#]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_show_changes_of_every_server() {
    let fleet = fleet().await;
    let mut command = fleet.command(&["get", "cm", "-l", "app=demo", "-s", "all", "-w", "--output-watch-events"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let stdout = child.stdout.take().expect("piped");
    let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("text"));
    let mut next = |n: usize| lines.by_ref().take(n).collect::<Vec<_>>();
    let first: Vec<String> = tokio::task::block_in_place(|| next(4));
    assert!(first[0].starts_with("EVENT   NAME     CLUSTER   DATA   AGE"), "{first:?}");
    assert!(first.iter().any(|line| line.starts_with("ADDED   own      member2   1 ")), "{first:?}");
    let member2 = fleet.plane.members().iter().last().expect("two members");
    let key = apimachinery::ObjectKey::namespaced("default", "own");
    member2.client().delete(&config_maps(), &key, &client::DeleteOptions::background()).await.expect("deleted");
    let changed = tokio::task::block_in_place(|| next(1));
    assert!(changed[0].starts_with("DELETED   own      member2   1 "), "{changed:?}");
    child.kill().expect("running");
    child.wait().expect("ended");
}

#[tokio::test]
async fn api_resources_of_either_side() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    check(
        &fleet,
        "api-resources --api-group cluster.karmada.io",
        &expect![[r#"
        O|NAME SHORTNAMES APIVERSION NAMESPACED KIND
        O|clusters cluster.karmada.io/v1alpha1 false Cluster
        rc=0
    "#]],
    )
    .await;
    check(
        &fleet,
        "api-resources --api-group cluster.karmada.io -s members --cluster member1",
        &expect![[r#"
        O|NAME SHORTNAMES APIVERSION NAMESPACED KIND
        rc=0
    "#]],
    )
    .await;
    let served = fleet.karmadactl(&["api-resources", "-s", "members", "--cluster", "member1", "-o", "name"]).await.ok();
    assert!(served.lines().any(|line| line == "deployments.apps"), "{served}");
    check(
        &fleet,
        "api-resources -s members",
        &expect![[r#"
        E|error: must specify a member cluster
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "api-resources -s members --cluster nosuch",
        &expect![[r#"
        E|Error from server (NotFound): clusters.cluster.karmada.io "nosuch" not found
        rc=1
    "#]],
    )
    .await;
    check(
        &fleet,
        "api-resources -s all",
        &expect![[r#"
        E|error: not support operation scope: all
        rc=1
    "#]],
    )
    .await;
}
