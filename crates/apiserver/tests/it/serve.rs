//! Real connections on a port of the system's choosing.

use std::convert::Infallible;
use std::time::Duration;

use apiserver::Peer;
use apiserver::serve::{self, Limits, TlsConfig};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response, full};
use world::World;

/// Returns the identity of the peer.
fn echo() -> ApiService {
    let answer = |request: Request| async move {
        let peer = request.extensions().get::<Peer>().cloned().expect("every request has a peer");
        let user = peer
            .certificates()
            .first()
            .map(|certificate| pki::Holder::from_der(certificate).expect("readable").user)
            .unwrap_or_default();
        let text = format!("{{\"user\":\"{user}\",\"version\":\"{:?}\"}}", request.version());
        Ok::<_, Infallible>(Response::new(full(text)))
    };
    ApiService::new(tower::service_fn(answer))
}

#[tokio::test]
async fn a_kube_client_connects_with_a_certificate_and_shutdown_drains() {
    let world = World::system();
    let (authority, _) = pki::Authority::generate("test-ca", &world).expect("authority");
    let names = pki::ServerNames::api_server("test", &[]);
    let server = authority.issue_server(&names, &world).expect("server certificate");
    let admin = authority.issue_client("ann", &["system:masters".to_owned()], &world).expect("client certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("https://{}", listener.local_addr().expect("address"));
    let shutdown = CancellationToken::new();
    let tls = TlsConfig::new(&server.certificate, &server.key).expect("TLS");
    let task = tokio::spawn(serve::serve(listener, Some(tls), echo(), Limits::default(), shutdown.clone()));

    let user = pki::kubeconfig::User::with_certificate(&admin);
    let document = pki::Kubeconfig::new("test", &url, authority.certificate(), "ann", user);
    let config = Kubeconfig::from_yaml(&document.to_yaml().expect("YAML")).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.expect("config");
    let client = kube::Client::try_from(config).expect("client");
    let request = http::Request::get("/whoami").body(Vec::new()).expect("request");
    let answer: serde_json::Value = client.request(request).await.expect("answer");
    assert_eq!(answer["user"], "ann");

    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("drained in time").expect("no panic");
}

#[tokio::test]
async fn plain_http_has_no_identity() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("address");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve::serve(listener, None, echo(), Limits::default(), shutdown.clone()));
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.ends_with("{\"user\":\"\",\"version\":\"HTTP/1.1\"}"), "{answer}");
    shutdown.cancel();
    task.await.expect("no panic");
}

/// Answers with the code in the path, before it has read anything of the body.
fn early() -> ApiService {
    let answer = |request: Request| async move {
        let code = request.uri().path().trim_start_matches('/').parse::<u16>().expect("a code");
        let mut response = Response::new(full("refused"));
        *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
        Ok::<_, Infallible>(response)
    };
    ApiService::new(tower::service_fn(answer))
}

/// Clients that send the whole body before they read lose a response that comes with a reset of the connection.
#[tokio::test]
async fn early_refusals_over_http_1_are_read_to_their_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("address");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve::serve(listener, None, early(), Limits::default(), shutdown.clone()));
    for (code, length, expect, closes) in [
        (401, 3 << 20, "", true),
        (403, 3 << 20, "", true),
        (413, 3 << 20, "", true),
        (403, 0, "", false),
        (404, 1 << 20, "", false),
        (401, 0, "Content-Length: 9\r\nExpect: 100-continue\r\n", true),
    ] {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        let announced = if expect.is_empty() { format!("Content-Length: {length}\r\n") } else { expect.to_owned() };
        let head = format!("POST /{code} HTTP/1.1\r\nHost: x\r\n{announced}\r\n");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&vec![b'x'; length]).await.unwrap_or_else(|error| panic!("{code}: {error}"));
        let mut answer = Vec::new();
        while !answer.ends_with(b"refused") {
            let read = stream.read_buf(&mut answer).await.unwrap_or_else(|error| panic!("{code}: {error}"));
            assert_ne!(read, 0, "{code}: {}", String::from_utf8_lossy(&answer));
        }
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        assert!(text.starts_with(&format!("http/1.1 {code} ")), "{text}");
        assert_eq!(text.contains("connection: close\r\n"), closes, "{text}");
        if closes {
            assert_eq!(stream.read_buf(&mut answer).await.expect("an orderly end"), 0, "{code}");
        }
    }
    shutdown.cancel();
    task.await.expect("no panic");
}

/// Curl loses a response that comes with a reset of the stream it is still sending on.
#[tokio::test]
async fn a_response_survives_an_unread_body() {
    use http_body_util::{BodyExt, StreamBody};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("address");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve::serve(listener, None, echo(), Limits::default(), shutdown.clone()));
    let stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    for _ in 0..20 {
        let (mut part, body) = futures::channel::mpsc::channel::<Result<http_body::Frame<bytes::Bytes>, Infallible>>(1);
        let request = http::Request::post(format!("http://{address}/nothing")).body(StreamBody::new(body));
        let answer = sender.send_request(request.expect("a request")).await.expect("an answer before the body");
        let text = answer.into_body().collect().await.expect("all of it").to_bytes();
        assert!(text.starts_with(b"{\"user\""));
        // A stream that was reset would have closed the channel.
        part.try_send(Ok(http_body::Frame::data(bytes::Bytes::from_static(b"late")))).expect("still open");
    }
    shutdown.cancel();
    drop(sender);
    let _ended = connection.await;
    task.await.expect("no panic");
}
