//! Services that refuse, hang, lie and break connections.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, Endpoint};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use transport::Identity;

use super::fake::{self, Fake, Fault};
use super::{Harness, Member, object, seconds};
use crate::opensearch::FAILURES;

const BULK: &str = "POST /_bulk";
const SEARCH: &str = "POST /kubernetes-pod/_search";
const CREATE: &str = "PUT /kubernetes-pod";

#[tokio::test(start_paused = true)]
async fn every_failure_of_a_request_is_retried() {
    let nonsense = ["", "<html>", "[]", "{}", "null", "{\"items\":[]}", "{\"items\":[{},{},{}]}", "{\"hits\":7}"];
    let faults = nonsense.map(Fault::Text).into_iter().chain([
        Fault::Hang,
        Fault::Redirect("http://169.254.169.254/latest"),
        Fault::StatusAfter(429, 20),
    ]);
    let faults = faults.chain([401, 500, 502, 503, 504].map(Fault::Status));
    for fault in faults {
        for request in [BULK, SEARCH, CREATE] {
            let is_accepted = request == CREATE && matches!(fault, Fault::Text(_));
            let mut fake = Fake::default();
            fake.faults.insert(request.to_owned(), vec![fault.clone(); 3]);
            let (harness, member) = (Harness::start(fake), Member::default());
            member.put(object("a", 1));
            let source = harness.add("m1", &member);
            harness.until(&[("a", 1)]).await;
            let failed = harness.metrics.counters(&FAILURES).value(&[]);
            assert_eq!(failed, if is_accepted { 0 } else { 3 }, "{request} {fault:?}");
            harness.put(&source, &member, "a", 2);
            harness.until(&[("a", 2)]).await;
            assert_eq!(harness.count("rejected"), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_with_the_newest_state_and_no_backlog_of_old_ones() {
    let mut fake = Fake::default();
    fake.faults.insert(BULK.to_owned(), vec![Fault::Status(503); 40]);
    let (harness, member) = (Harness::start(fake), Member::default());
    let source = harness.add("m1", &member);
    for version in 1..=200 {
        harness.put(&source, &member, "a", version);
        if version % 2 == 0 {
            harness.put(&source, &member, "b", version);
        } else if version > 1 {
            harness.delete(&source, &member, "b");
        }
        seconds(3).await;
    }
    harness.until(&[("a", 200), ("b", 200)]).await;
    assert!(harness.count("written") < 60, "{}", harness.count("written"));
}

#[tokio::test(start_paused = true)]
async fn one_document_blocks_no_others() {
    // Rejected by itself, too large, or the reason why a whole request is rejected.
    let rejected = Fake { items: [("bad".to_owned(), (400, usize::MAX))].into(), ..Fake::default() };
    let poison = Fake { poison: Some("bad".to_owned()), ..Fake::default() };
    for fake in [rejected, poison] {
        let (harness, member) = (Harness::start(fake), Member::default());
        for n in 0..300 {
            member.put(object(&format!("good-{n}"), 1));
        }
        member.put(object("bad", 1));
        let source = harness.add("m1", &member);
        while harness.fake.lock().versions().len() < 300 {
            seconds(1).await;
        }
        seconds(60).await;
        assert_eq!((harness.count("rejected"), harness.fake.lock().versions().len()), (1, 300));
        // The next change is another attempt.
        harness.fake.lock().items.clear();
        harness.fake.lock().poison = None;
        harness.put(&source, &member, "bad", 2);
        seconds(5).await;
        assert_eq!(harness.fake.lock().versions()["bad"], 2);
    }
}

#[tokio::test(start_paused = true)]
async fn large_requests_are_divided() {
    let fake = Fake { most_bytes: Some(3000), ..Fake::default() };
    let (harness, member) = (Harness::start(fake), Member::default());
    for n in 0..100 {
        member.put(object(&format!("good-{n}"), 1));
    }
    let mut huge = object("huge", 1).to_value().expect("an object");
    huge["spec"]["text"] = "x".repeat(4000).into();
    member.put(apimachinery::Object::from_value(&huge).expect("an object"));
    harness.add("m1", &member);
    while harness.fake.lock().versions().len() < 100 {
        seconds(1).await;
    }
    seconds(60).await;
    assert_eq!((harness.count("rejected"), harness.count("written")), (1, 100));
}

#[tokio::test(start_paused = true)]
async fn documents_that_are_refused_for_now_are_retried_alone() {
    for code in [403, 404, 429, 503] {
        let fake = Fake { items: [("slow".to_owned(), (code, 10))].into(), ..Fake::default() };
        let (harness, member) = (Harness::start(fake), Member::default());
        let source = harness.add("m1", &member);
        harness.put(&source, &member, "slow", 1);
        seconds(3).await;
        // Others are written at once meanwhile.
        for version in 1..=20 {
            harness.put(&source, &member, "quick", version);
            seconds(2).await;
            assert_eq!(harness.fake.lock().versions().get("quick"), Some(&version), "{code}");
        }
        harness.until(&[("slow", 1), ("quick", 20)]).await;
        assert_eq!(harness.count("rejected"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn another_address_replaces_one_that_fails() {
    for fault in [Fault::Hang, Fault::Status(503)] {
        let (good, bad) = (Arc::new(Mutex::new(Fake::default())), Arc::new(Mutex::new(Fake::default())));
        for request in [BULK, SEARCH, CREATE] {
            bad.lock().faults.insert(request.to_owned(), vec![fault.clone(); 1000]);
        }
        let (to_good, to_bad) = (fake::service(&good), fake::service(&bad));
        let connect = move |endpoint: &Endpoint| {
            let service = if endpoint.server.contains("bad") { &to_bad } else { &to_good };
            Ok(Client::in_process(service.clone(), Identity::default()))
        };
        let addresses = ["http://bad:9200", "http://good:9200"];
        let (harness, member) = (Harness::with_addresses(good, &addresses, Some(Arc::new(connect))), Member::default());
        let source = harness.add("m1", &member);
        harness.put(&source, &member, "a", 1);
        harness.until(&[("a", 1)]).await;
        harness.put(&source, &member, "a", 2);
        seconds(3).await;
        harness.until(&[("a", 2)]).await;
        // The address that answers stays in use.
        assert_eq!(bad.lock().log.len(), 1, "{:?}", bad.lock().log);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_search_ends() {
    let mut fake = Fake::default();
    fake.put("kubernetes-pod", "gone", "m1", 1);
    let page =
        r#"{"_scroll_id":"x","hits":{"hits":[{"_id":"y","_source":null},{"_id":"z","_source":{"metadata":[]}}]}}"#;
    fake.faults.insert(SEARCH.to_owned(), vec![Fault::Text(page)]);
    fake.faults.insert("POST /_search/scroll".to_owned(), vec![Fault::Text(page); 5000]);
    fake.faults.insert("DELETE /_search/scroll".to_owned(), vec![Fault::Text("")]);
    let (harness, member) = (Harness::start(fake), Member::default());
    member.put(object("a", 1));
    harness.add("m1", &member);
    harness.until(&[("a", 1), ("gone", 1)]).await;
}

/// Over sockets: each connection is handled by `talk` with its number.
async fn serve(talk: &'static [&'static str]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let requests = seen.clone();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut buffer = vec![0; 64 << 10];
            let read = stream.read(&mut buffer).await.unwrap_or_default();
            requests.lock().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
            let Some(text) = talk.get(number) else { continue };
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
    (address, seen)
}

#[tokio::test]
async fn broken_connections_are_retried() {
    let talk = &[
        // Closed without a response, in its middle, and not HTTP at all.
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"acknow",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 34\r\nconnection: close\r\n\r\n{\"items\":[{\"index\":{\"status\":201}}]",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 36\r\nconnection: close\r\n\r\n{\"items\":[{\"index\":{\"status\":201}}]}",
    ];
    let (address, seen) = serve(talk).await;
    let with_password = address.replace("http://", "http://me:secret@");
    let connect = Arc::new(Client::from_endpoint);
    let fake = Arc::new(Mutex::new(Fake::default()));
    let (harness, member) = (Harness::with_addresses(fake, &[&with_password], Some(connect)), Member::default());
    harness.access.send_replace(Some(super::Access::default()));
    member.put(object("a", 1));
    harness.add("m1", &member);
    let written = tokio::time::timeout(Duration::from_secs(60), async {
        while harness.count("written") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(written.await.is_ok(), "{:#?}", seen.lock());
    let seen = seen.lock();
    assert!(seen.iter().all(|it| it.to_lowercase().contains("authorization: basic bwu6c2vjcmv0")), "{seen:#?}");
    assert!(seen.iter().any(|it| it.starts_with("POST /_bulk?filter_path=")), "{seen:#?}");
}

#[tokio::test]
async fn metadata_services_receive_nothing() {
    let connect = Arc::new(Client::from_endpoint);
    let fake = Arc::new(Mutex::new(Fake::default()));
    let addresses = ["http://169.254.169.254", "http://metadata.google.internal", "http://[fe80::1]:9200"];
    let (harness, member) = (Harness::with_addresses(fake, &addresses, Some(connect)), Member::default());
    member.put(object("a", 1));
    harness.add("m1", &member);
    let failures = harness.metrics.counters(&FAILURES);
    while failures.value(&[]) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(harness.count("written"), 0);
}
