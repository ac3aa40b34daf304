//! Cases that need a real connection: protocols, headers, and many streams.

use std::time::Duration;

use apiserver::serve::{self, Limits};
use storage::memory::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};
use transport::{ApiService, Identity};
use world::World;

/// Every client is the administrator: the tested code runs before authentication.
fn trusting(service: ApiService) -> ApiService {
    ApiService::new(service.map_request(|mut request: transport::Request| {
        request.extensions_mut().insert(Identity::system("test"));
        request
    }))
}

/// The start of the answer to some bytes; empty when the connection is closed without one.
async fn answer(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    // The server may answer, and close, before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut text = vec![0; 4096];
    let read =
        tokio::time::timeout(Duration::from_secs(30), stream.read(&mut text)).await.expect("an answer or an end");
    String::from_utf8_lossy(&text[..read.unwrap_or(0)]).into_owned()
}

#[tokio::test]
async fn hostile_connections_get_a_response_and_block_no_others() {
    let server = crate::objects::server_in(std::sync::Arc::new(MemoryStore::new()), World::system()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("address");
    let shutdown = CancellationToken::new();
    let limits = Limits { head_timeout: Duration::from_millis(300), ..Limits::default() };
    let task = tokio::spawn(serve::serve(listener, None, trusting(server.service()), limits, shutdown.clone()));

    let flood: String = (0..5_000).map(|n| format!("X-{n}: y\r\n")).collect();
    let long = format!("GET /api?{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    let large = format!("GET /api HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(2_000_000));
    let post = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n";
    for (what, request, expected) in [
        ("HTTP/1.0", "GET /api HTTP/1.0\r\n\r\n".to_owned(), "200"),
        ("HTTP/0.9", "GET /api\r\n\r\n".to_owned(), "400"),
        ("HEAD", "HEAD /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "405"),
        ("no protocol", "\0\0\0\0\r\n\r\n".to_owned(), "400"),
        ("a flood of headers", format!("GET /api HTTP/1.1\r\nHost: x\r\n{flood}\r\n"), "431"),
        ("a large header", large, "431"),
        ("a long URL", long, "414"),
        ("an absolute URL", "GET http://x/api HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "200"),
        ("two lengths", format!("{post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"), "400"),
        ("a negative length", format!("{post}Content-Length: -1\r\n\r\n"), "400"),
        (
            "a length and chunks",
            format!("{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "400",
        ),
        ("a chunk of 2^64 bytes", format!("{post}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"), "400"),
        (
            "a length beyond the limit",
            format!("{post}Content-Length: 99999999999\r\n\r\n{}", " ".repeat(4 << 20)),
            "413",
        ),
        ("a head that never ends", "GET /api HTTP/1.1\r\nHost: x\r\nX: ".to_owned(), ""),
    ] {
        let answer = answer(address, request.as_bytes()).await;
        let code = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(code, expected, "{what}: {answer}");
    }

    // Ten thousand unread watches do not prevent serving others.
    let mut service = trusting(server.service());
    let mut watches = Vec::new();
    for _ in 0..10_000 {
        let request = http::Request::get("/api/v1/configmaps?watch=1").body(transport::empty()).expect("a request");
        watches.push(service.ready().await.expect("infallible").call(request).await.expect("infallible"));
    }
    let served = answer(address, b"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    drop(watches);
    shutdown.cancel();
    task.await.expect("no panic");
    server.shutdown();
}
