//! Connections without credentials.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use apiserver::serve::Limits;
use storage::memory::MemoryStore;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{Listening, server};

#[tokio::test]
async fn a_newcomer_is_served_beside_idle_connections_without_credentials() {
    let server = server(Arc::new(MemoryStore::new())).await;
    let limits = Limits { connections: 60, unauthenticated: 40, unauthenticated_per_address: 30, ..Limits::default() };
    let listening = Listening::start(server.service(), limits).await;
    let known = listening.connect().await;
    assert_eq!(listening.get(&known, Some("neighbor-token"), "/version").await, Some(200));
    let (open, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for n in 0..1200 {
        let mut stream = TcpStream::connect(listening.address).await.expect("connected");
        let (open, closed) = (Arc::clone(&open), Arc::clone(&closed));
        open.fetch_add(1, Relaxed);
        tasks.push(tokio::spawn(async move {
            // It sends nothing; the server closes it.
            let _end = stream.read(&mut [0]).await;
            open.fetch_sub(1, Relaxed);
            closed.fetch_add(1, Relaxed);
        }));
        if n % 20 == 0 {
            let new_connection = listening.connect().await;
            assert_eq!(listening.get(&new_connection, Some("greedy-token"), "/version").await, Some(200), "after {n}");
            let anonymous = listening.connect().await;
            assert_eq!(listening.get(&anonymous, None, "/version").await, Some(200), "after {n}");
        }
    }
    while open.load(Relaxed) > 30 {
        tokio::task::yield_now().await;
    }
    assert!(closed.load(Relaxed) >= 1170);
    assert_eq!(listening.get(&known, Some("neighbor-token"), "/version").await, Some(200), "a known client stays");
    drop(known);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    listening.end().await;
    server.shutdown();
}

#[tokio::test]
async fn the_bound_on_requests_applies_per_user() {
    let server = server(Arc::new(MemoryStore::new())).await;
    let limits = Limits { requests_per_user: 0, ..Limits::default() };
    let listening = Listening::start(server.service(), limits).await;
    let sender = listening.connect().await;
    for (path, code) in [
        ("/api/v1/configmaps", 429),
        ("/version", 429),
        ("/readyz", 200),
        ("/api/v1/configmaps?watch=1&timeoutSeconds=1", 200),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases/a", 404),
    ] {
        assert_eq!(listening.get(&sender, Some("greedy-token"), path).await, Some(code), "{path}");
    }
    drop(sender);
    listening.end().await;
    server.shutdown();
}
