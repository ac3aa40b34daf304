//! The behaviour of `karmadactl` on a terminal only: tables that fit its width, and progress lines.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use apimachinery::ApiResource;
use serde_json::json;

use crate::fleet::Fleet;

/// The output on a terminal of `columns` characters per line.
async fn on_terminal(fleet: &Fleet, columns: u16, line: &str) -> String {
    let mut command = Command::new("script");
    let program = env!("CARGO_BIN_EXE_karmada");
    command.args(["-qec", &format!("stty cols {columns}; {program} karmadactl {line}"), "/dev/null"]);
    command.env("KUBECONFIG", fleet.kubeconfig()).env_remove("KARMADACTL_OPERATION_SCOPE");
    fleet.run(command).await.ok().replace("\r\n", "\n")
}

#[tokio::test]
async fn tables_fit_a_terminal_and_pipes_get_whole_cells() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    let value = "a-value-that-is-far-longer-than-a-narrow-terminal";
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "whole-in-every-table", "namespace": "default", "labels": {"app": value}}});
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    fleet.plane.client().create(&config_maps, &config_map).await.expect("created");

    let narrow = on_terminal(&fleet, 80, "get cm -l app -L app").await;
    let lines: Vec<&str> = narrow.lines().collect();
    assert_eq!(lines.len(), 2, "{narrow}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(lines[1].starts_with("whole-in-every-table   Karmada") && lines[1].ends_with('…'), "{narrow}");

    let wide = on_terminal(&fleet, 80, "get cm -l app -L app -o wide").await;
    assert!(wide.contains(value), "{wide}");
    let piped = fleet.karmadactl(&["get", "cm", "-l", "app", "-L", "app"]).await.ok();
    assert!(piped.contains(value), "{piped}");

    // Responding members are counted; the line is erased before the table.
    let both = on_terminal(&fleet, 200, "get cm -l app -s all").await;
    assert!(both.contains("Reading clusters: 2/2\r\u{1b}[KNAME"), "{both:?}");
    let ran = fleet.karmadactl(&["get", "cm", "-l", "app", "-s", "all"]).await;
    assert_eq!(ran.err, "");
}

#[tokio::test]
async fn tokens_and_releases_can_be_tried() {
    let fleet = Fleet::start(&["member1"]).await;
    let token = fleet.karmadactl(&["token", "create"]).await.ok();
    let id = token.split('.').next().expect("an id");
    let tried = fleet.karmadactl(&["token", "delete", id, "--dry-run"]).await.ok();
    assert_eq!(tried, format!("bootstrap token \"{id}\" deleted (server dry run)\n"));
    assert!(fleet.karmadactl(&["token", "list"]).await.ok().contains(id));

    let condition = json!({"type": "EvictionsPaused", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let key = apimachinery::ObjectKey::cluster("member1");
    let append = client::Patch::Json(json!([{"op": "add", "path": "/status/conditions/-", "value": condition}]));
    let options = client::PatchOptions::status();
    fleet.reachable("member1").await;
    fleet.plane.client().patch(&clusters, &key, &append, &options).await.expect("the pause is set");
    let tried = fleet.karmadactl(&["failover", "release", "member1", "--dry-run"]).await;
    let cluster = fleet.plane.client().get(&clusters, &key).await.expect("the cluster");
    assert_eq!(cluster.annotation("failover.karmada.io/evictions-released"), None);
    assert_eq!(tried.ok(), "cluster member1: evictions are released (server dry run)\n");
}

#[tokio::test]
async fn a_watch_ends_with_the_reader_of_its_output() {
    let fleet = Fleet::start(&[]).await;
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let config_map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    fleet.plane.client().create(&config_maps, &config_map("first")).await.expect("created");
    for output in ["wide", "yaml"] {
        let mut command = fleet.command(&["get", "cm", "-w", "-o", output]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        // Another thread reads: this one also serves.
        let read = tokio::task::spawn_blocking(move || lines.read_line(&mut String::new()).map(|_| drop(lines)));
        read.await.expect("no panic").expect("a line");
        let mut ended = tokio::task::spawn_blocking(move || child.wait_with_output().expect("ended"));
        // The next change that is printed finds the pipe closed.
        let mut number = 0;
        let ended = loop {
            number += 1;
            let name = format!("{output}-{number}");
            fleet.plane.client().create(&config_maps, &config_map(&name)).await.expect("created");
            match tokio::time::timeout(std::time::Duration::from_millis(200), &mut ended).await {
                Ok(ended) => break ended.expect("no panic"),
                Err(_) => assert!(number < 100, "the watch goes on"),
            }
        };
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(141), ""), "{output}");
    }
}
