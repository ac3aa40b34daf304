//! Lists and objects that are not read, or slowly.

use std::collections::HashSet;

use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const LIST: &str = "/api/v1/namespaces/default/configmaps";
const PIECE: usize = 64 << 10;

#[tokio::test(start_paused = true)]
async fn unread_lists_use_bounded_memory_and_are_closed() {
    let budget = Bytes { connection: 1 << 20, user: 64 << 20, server: 128 << 20 };
    let rig = Rig::new(budget).await;
    rig.fill(300, 2000).await;
    let sender = rig.http2(0).await;
    let begun = Instant::now();
    let table = ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let mut open = Vec::new();
    for n in 0..1000 {
        let selected = format!("{LIST}?labelSelector=n!={n}");
        open.push(match n % 5 {
            0 | 1 => send(&sender, LIST, &[]).await,
            2 => send(&sender, &selected, &[]).await,
            3 => send(&sender, &selected, &[("accept-encoding", "gzip")]).await,
            _ => send(&sender, &format!("{selected}&includeObject=Object"), &[table]).await,
        });
    }
    settle().await;
    assert!(open.iter().all(|response| response.status() == 200));
    // Pieces, the objects that each list refers to, the beginnings of tables, and some encoders.
    let referred = 600 * 300 * 8 + 200 * (2 * PIECE + 3000) + 4 * (320 << 10);
    let in_flight = rig.in_flight();
    assert!(in_flight > 0 && in_flight <= budget.connection + PIECE + referred, "{in_flight} bytes in flight");
    for response in open {
        let took = until_cut(response, begun).await;
        // Some have room for a first piece only when the others are cut, and get their time then.
        assert!(took >= STALL && took <= 2 * LATEST, "{took:?}");
    }
    settle().await;
    assert_eq!(rig.in_flight(), 0);
    // The last ones may end with their connection, which makes no progress.
    assert!(rig.cut("stream") >= 900 && rig.cut("connection") <= 1, "{} streams", rig.cut("stream"));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_identical_lists_share_their_bytes() {
    let rig = Rig::new(Bytes::default()).await;
    rig.fill(200, 2000).await;
    let mut bodies = Vec::new();
    for _ in 0..10_000 {
        let request = http::Request::get(LIST).extension(Identity::system("test"));
        let answer = rig.server.service().oneshot(request.body(transport::empty()).expect("a request")).await;
        bodies.push(answer.expect("infallible").into_body());
    }
    let mut all = Vec::new();
    for at in 0.. {
        let mut places = HashSet::new();
        let mut frames = Vec::new();
        for body in &mut bodies {
            let Some(frame) = body.frame().await else { continue };
            let data = frame.expect("no error").into_data().expect("no trailers");
            // The first frame precedes the items.
            places.insert(if at == 0 { std::ptr::null() } else { data.as_ptr() });
            frames.push(data);
        }
        let Some(first) = frames.first() else { break };
        assert_eq!((places.len(), frames.len()), (1, 10_000), "frame {at}");
        all.extend_from_slice(first);
    }
    let list: Value = serde_json::from_slice(&all).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(200));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_closed_and_sees_one_revision() {
    let rig = Rig::new(Bytes::default()).await;
    rig.fill(200, 2000).await;
    let sender = rig.http2(4 << 10).await;
    for accept in ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
        let response = send(&sender, &format!("{LIST}?includeObject=Object"), &[("accept", accept)]).await;
        // Everything changes after it has begun.
        for n in 0..200 {
            let key = apimachinery::ObjectKey::namespaced("default", format!("c{n:06}"));
            let patch = client::Patch::Merge(json!({"data": {"k": format!("changed before {accept}")}}));
            let options = client::PatchOptions::default();
            rig.client.patch(&crate::objects::config_maps(), &key, &patch, &options).await.expect("a patch");
        }
        let mut frames = response.into_body().into_data_stream();
        let mut all = Vec::new();
        let mut pause = 0;
        while let Some(frame) = frames.next().await {
            all.extend_from_slice(&frame.expect("it is not cut"));
            // 100 bytes a second.
            if all.len() >= pause + (4 << 10) {
                pause = all.len();
                tokio::time::sleep(Duration::from_secs(40)).await;
            }
        }
        let list: Value = serde_json::from_slice(&all).expect("JSON");
        let revision = |value: &Value| -> u64 {
            value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
        };
        let items: Vec<&Value> = match list["items"].as_array() {
            Some(items) => items.iter().collect(),
            None => list["rows"].as_array().expect("rows").iter().map(|row| &row["object"]).collect(),
        };
        assert_eq!(items.len(), 200);
        assert!(items.iter().all(|item| revision(item) <= revision(&list)), "{accept}");
        let before = |item: &&&Value| item["data"]["k"] != format!("changed before {accept}");
        assert_eq!(items.iter().filter(before).count(), 200, "{accept}");
    }
    assert_eq!(rig.cut("stream") + rig.cut("connection"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http1_that_stops_reading_is_closed() {
    let rig = Rig::new(Bytes::default()).await;
    rig.fill(200, 2000).await;
    let mut stream = rig.pipe(10_000);
    let begun = Instant::now();
    stream.write_all(format!("GET {LIST} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.expect("sent");
    let mut start = [0; 5000];
    stream.read_exact(&mut start).await.expect("the beginning");
    assert!(start.starts_with(b"HTTP/1.1 200"));
    while rig.cut("connection") == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(begun.elapsed() >= STALL && begun.elapsed() <= LATEST, "{:?}", begun.elapsed());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("the end");
    assert!(rest.len() < 100_000, "{} bytes", rest.len());
    assert_eq!(rig.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn unread_objects_delay_only_their_users() {
    let rig = Rig::new(Bytes { connection: 1 << 20, user: 3 << 20, server: 16 << 20 }).await;
    rig.fill(1, 40_000).await;
    let object = format!("{LIST}/c000000");
    let mut open = Vec::new();
    let senders = [rig.http2(0).await, rig.http2(0).await];
    for (user, sender) in ["ann", "bob"].iter().zip(&senders) {
        // A small object is sent as a copy; each begins while there is room.
        while rig.in_flight() < 4 << 20 || open.len() < 160 {
            let headers = [("user", *user)];
            let answer = send(sender, &object, &headers);
            let Ok(response) = tokio::time::timeout(Duration::from_secs(1), answer).await else { break };
            if response.status() == 429 {
                assert_eq!(response.headers()["retry-after"], "1");
                break;
            }
            open.push(response);
        }
    }
    assert!(rig.in_flight() <= (6 << 20) + 100_000, "{}", rig.in_flight());
    assert!(rig.in_flight() >= 4 << 20, "{}", rig.in_flight());
    let reader = rig.http2(1 << 20).await;
    assert_eq!(send(&reader, &object, &[("user", "eve")]).await.status(), 200);
    let delayed = send(&reader, &object, &[("user", "ann")]);
    assert!(tokio::time::timeout(Duration::from_secs(1), delayed).await.is_err(), "its user reads first");
    assert_eq!(send(&reader, "/readyz", &[("user", "eve")]).await.status(), 200);
    // What is not read is cut.
    tokio::time::sleep(LATEST).await;
    drop(open);
    assert_eq!(send(&reader, &object, &[("user", "ann")]).await.status(), 200);
}
