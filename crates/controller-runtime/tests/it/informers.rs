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

/// Where the change that the first watch does not deliver is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    ByList,
    ByWatch,
}

struct Odd {
    /// The answer to a watch before the change is found.
    watch: String,
    found: Found,
    lists: AtomicUsize,
    watches: AtomicUsize,
}

/// Answers one request. Lists and watches return one object, whose label is "1" before the change.
async fn answer(mut stream: TcpStream, odd: Arc<Odd>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    if !head.contains("watch=true") {
        let whole = usize::from(head.contains("limit=500"));
        let count = odd.lists.fetch_add(whole, Ordering::Relaxed) + whole;
        let label = if count > 1 && odd.found == Found::ByList { "2" } else { "1" };
        let body = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{count}"}},"items":[{}]}}"#,
            map(label, &count.to_string())
        );
        let length = body.len();
        let head = format!("{OK}connection: close\r\ncontent-length: {length}\r\n\r\n");
        return stream.write_all(format!("{head}{body}").as_bytes()).await;
    }
    let repeated = odd.watches.fetch_add(1, Ordering::Relaxed) > 0;
    if odd.found == Found::ByWatch && repeated {
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, map("2", "2"));
        stream.write_all(sent(&event).as_bytes()).await?;
    } else if odd.lists.load(Ordering::Relaxed) == 1 {
        stream.write_all(odd.watch.as_bytes()).await?;
    }
    std::future::pending().await
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/// A watch that delivers one line and stays open.
fn sent(line: &str) -> String {
    format!("{OK}transfer-encoding: chunked\r\n\r\n{:x}\r\n{line}\n\r\n", line.len() + 1)
}

/// Virtual time: whatever a watch does, the informer notices what it does not deliver.
#[tokio::test(start_paused = true)]
async fn a_change_that_a_watch_does_not_deliver_is_found() {
    let status = r#"{"kind":"Status","status":"Failure","reason":"InternalError","code":500,"message":"undecodable"}"#;
    let refused = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned();
    for (name, watch, found) in [
        ("no number", sent(&format!(r#"{{"type":"MODIFIED","object":{}}}"#, map("odd", "soon"))), Found::ByList),
        ("an error", sent(&format!(r#"{{"type":"ERROR","object":{status}}}"#)), Found::ByList),
        ("no Status", sent(r#"{"type":"ERROR","object":"rubbish"}"#), Found::ByList),
        ("no event", sent("<html>"), Found::ByList),
        ("no revision", sent(r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#), Found::ByList),
        ("a refusal", refused, Found::ByList),
        ("silence", format!("{OK}transfer-encoding: chunked\r\n\r\n"), Found::ByWatch),
        ("a refusal without an end", "HTTP/1.1 500 Oops\r\ncontent-length: 9\r\n\r\n".into(), Found::ByWatch),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let odd = Arc::new(Odd { watch, found, lists: AtomicUsize::new(0), watches: AtomicUsize::new(0) });
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, odd.clone()));
            }
        });
        let client = Client::from_endpoint(&Endpoint { server, ..Endpoint::default() }).expect("a client");
        let informers = InformerSet::new(client, World::system());
        let informer = informers.informer(&maps());
        assert!(informer.synced().await);
        let label = || informer.cache().get(&key("a")).and_then(|it| it.label("v").map(|value| value.to_string()));
        let noticed = async {
            while label().as_deref() != Some("2") {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(900), noticed).await.is_ok(), "{name}: nothing is noticed");
        informers.stop_all();
        accepting.abort();
    }
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
