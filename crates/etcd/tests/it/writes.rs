//! Writes are decided by the cache of a server, and the store confirms the decision: no request precedes them.

use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use apimachinery::ApiResource;
use client::{DeleteOptions, Patch, PatchOptions, Preconditions};
use serde_json::json;

use super::Etcd;
use super::apiserver::{Server, config_maps, key, map};

async fn server(etcd: &Etcd) -> Server {
    Server::on(Arc::new(etcd.store().await)).await
}

/// The requests of a method that etcd has handled.
fn handled(etcd: &Etcd, method: &str) -> f64 {
    let mut stream = TcpStream::connect(etcd.process.address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let label = format!("grpc_method=\"{method}\"");
    let lines = metrics.lines().filter(|line| line.starts_with("grpc_server_handled_total{") && line.contains(&label));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_write_is_one_request() {
    let etcd = Etcd::start(&[]);
    let server = server(&etcd).await;
    let before = ["Txn", "Range"].map(|method| handled(&etcd, method));
    for n in 0..20 {
        let name = format!("m{n}");
        server.create(&name).await;
        server.label(&name, "x").await;
        server.client.delete(&config_maps(), &key(&name), &DeleteOptions::default()).await.unwrap();
    }
    let after = ["Txn", "Range"].map(|method| handled(&etcd, method));
    assert!(after[0] - before[0] >= 60.0, "{before:?} {after:?}");
    assert!(after[1] - before[1] < 5.0, "no read precedes a write: {before:?} {after:?}");
}

/// What a server answers without a write includes the writes of the other server. Its cache may lack them.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn nothing_is_answered_from_a_state_that_another_server_has_changed() {
    let etcd = Etcd::start(&[]);
    let (one, other) = (server(&etcd).await, server(&etcd).await);
    let (maps, namespaces) = (config_maps(), ApiResource::cluster("", "v1", "Namespace", "namespaces"));
    let options = PatchOptions::default();
    for n in 0..30 {
        let (name, namespace) = (format!("m{n}"), format!("n{n}"));
        // A patch without a change, of a new object and of a changed one.
        one.create(&name).await;
        let labelled = other.label(&name, "x").await;
        let again = one.label(&name, "x").await;
        assert_eq!(again, labelled, "{name} was changed already");
        // An update of the version that the other server has stored.
        let changed = other.label(&name, "y").await;
        let mut update = map(&name);
        update["metadata"]["resourceVersion"] = changed.to_string().into();
        let updated = one.client.update(&maps, &update).await.unwrap().revision();
        // A patch that is invalid for an older state only.
        let guarded = Patch::Json(json!([{"op": "test", "path": "/data/k", "value": "2"}]));
        let two = Patch::Merge(json!({"data": {"k": "2"}, "metadata": {"resourceVersion": updated.to_string()}}));
        other.client.patch(&maps, &key(&name), &two, &options).await.unwrap();
        let known = one.client.patch(&maps, &key(&name), &guarded, &options).await.unwrap().revision();
        // A deletion of the version that the other server has stored.
        let last = other.label(&name, "z").await;
        assert!(updated < known && known < last);
        let unchanged = Preconditions { uid: None, resource_version: Some(last.to_string()) };
        let deletion = DeleteOptions { preconditions: Some(unchanged), ..DeleteOptions::default() };
        one.client.delete(&maps, &key(&name), &deletion).await.unwrap();
        assert!(other.client.delete(&maps, &key(&name), &deletion).await.is_err_and(|error| error.is_not_found()));
        // An object that the other server has deleted is created again, in a namespace that it has created.
        other.create(&name).await;
        one.client.create(&namespaces, &json!({"metadata": {"name": namespace}})).await.unwrap();
        let mut inside = map(&name);
        inside["metadata"]["namespace"] = namespace.into();
        other.client.create(&maps, &inside).await.unwrap();
    }
}
