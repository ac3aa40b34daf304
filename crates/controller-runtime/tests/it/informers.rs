//! Informers of servers that answer oddly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, Endpoint};
use controller_runtime::InformerSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use world::World;

use crate::{key, maps, served};

fn map(value: &str, version: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","namespace":"demo","uid":"u","resourceVersion":"{version}","labels":{{"v":"{value}"}}}}}}"#
    )
}

/// Each list returns one object, with a different label each time; the first watch sends a change with an invalid
/// resource version and stays open.
async fn answer(mut stream: TcpStream, lists: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    if !String::from_utf8_lossy(&head).contains("watch=true") {
        let count = lists.fetch_add(1, Ordering::Relaxed) + 1;
        let item = map(&count.to_string(), &count.to_string());
        let body = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{count}"}},"items":[{item}]}}"#
        );
        let length = body.len();
        return stream
            .write_all(format!("{OK}connection: close\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes())
            .await;
    }
    if lists.load(Ordering::Relaxed) == 1 {
        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", map("odd", "soon"));
        let chunk = format!("{OK}transfer-encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).await?;
    }
    std::future::pending().await
}

#[tokio::test]
async fn a_non_numeric_resource_version_ends_the_watch() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, counted.clone()));
        }
    });
    let client = Client::from_endpoint(&Endpoint { server, ..Endpoint::default() }).expect("a client");
    let informers = InformerSet::new(client, World::system());
    let informer = informers.informer(&maps());
    assert!(informer.synced().await);
    let label = || informer.cache().get(&key("a")).and_then(|object| object.label("v").map(|value| value.to_string()));
    let listed = async {
        while label().as_deref() != Some("2") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), listed).await.expect("it lists again");
    informers.stop_all();
}

#[tokio::test]
async fn an_in_process_informer_shares_the_caches_objects() {
    let served = served().await;
    served.local.create(&maps(), &crate::map("a", "1")).await.expect("created");
    let set = InformerSet::until(served.local.clone(), served.world.clone(), served.stop.child_token());
    let informer = set.informer(&maps());
    assert!(informer.synced().await);
    let informed = informer.cache().get(&key("a")).expect("the object");
    let cached = served.local.get(&maps(), &key("a")).await.expect("the object");
    assert!(Arc::ptr_eq(&informed, &cached), "one allocation");
    served.stop.cancel();
}
