//! `karmadactl get` over a hundred clusters: all are queried before any has responded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use crate::fleet::Fleet;
use crate::kubelet;

const CLUSTERS: usize = 100;

/// A server for all members. It responds to lists of ConfigMaps when all members have received theirs.
struct Members {
    all_received: Barrier,
    late: AtomicUsize,
}

impl Members {
    async fn start() -> (SocketAddr, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let members = Arc::new(Self { all_received: Barrier::new(CLUSTERS), late: AtomicUsize::new(0) });
        let server = members.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().answer(stream));
            }
        });
        (address, members)
    }

    async fn answer(self: Arc<Self>, mut stream: TcpStream) {
        let Some(head) = kubelet::head_of(&mut stream).await else { return };
        let target = head.split(' ').nth(1).expect("a target");
        let path = target.split('?').next().unwrap_or_default();
        let (member, path) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        if path.ends_with("/configmaps") {
            // Long enough for any machine, and short enough for a failing test.
            let all = tokio::time::timeout(Duration::from_secs(60), self.all_received.wait()).await;
            self.late.fetch_add(usize::from(all.is_err()), Ordering::SeqCst);
        }
        let body = document(member, path).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // A client that has disconnected needs no response.
        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    }
}

fn document(member: &str, path: &str) -> Value {
    match path {
        "api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        "api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps",
            "singularName": "configmap", "namespaced": true, "kind": "ConfigMap", "shortNames": ["cm"],
            "verbs": ["get", "list"]}]}),
        _ => json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("of-{member}"), "namespace": "default"}}]}),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clusters_answer_at_the_same_time() {
    let fleet = Fleet::start_with(&[], |options| {
        options.server.admission.allow_http_endpoints = true;
        // These members have no nodes to report.
        options.controllers = vec!["cluster".into()];
    })
    .await;
    let (address, members) = Members::start().await;
    for at in 0..CLUSTERS {
        fleet.add_cluster(&format!("m{at}"), &format!("http://{address}/m{at}")).await;
    }
    let names = fleet.karmadactl(&["get", "configmaps", "-s", "members", "-o", "name"]).await.ok();
    assert_eq!(members.late.load(Ordering::SeqCst), 0, "no member waited for another's answer");
    let mut found: Vec<&str> = names.lines().collect();
    found.sort_unstable();
    let mut expected: Vec<String> = (0..CLUSTERS).map(|at| format!("configmap/of-m{at}")).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
