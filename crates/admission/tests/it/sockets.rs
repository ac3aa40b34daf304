//! Webhooks that break the protocol: below HTTP, in the middle of it, and between requests.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::harness::{CONFIG_MAPS, Hooks, Listening, Plane, config_map};

const FAILED: &str = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: ";

/// What a server does with the requests of a connection.
#[derive(Clone, Copy, Debug)]
enum Script {
    /// Accepts the connection and sends no byte.
    NoHandshake,
    /// Sends bytes that are not TLS.
    NoTls,
    /// Closes its half of the connection after the request, and reads on.
    HalfClose,
    /// Resets the connection in the middle of the response.
    BrokenBody,
    /// The beginning of a response, and no more.
    Stall,
    /// Sends this, then the other again and again.
    Endless(&'static str, &'static str),
    /// Sends this once.
    Once(&'static str),
    /// The verdict, and closes its half after it.
    VerdictAndClose,
    /// The verdict, and the rest of another response without a request.
    VerdictAndMore,
}

/// Reads one request; returns its review.
async fn request(stream: &mut TlsStream<TcpStream>) -> Option<Value> {
    let mut all = Vec::new();
    loop {
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&all[..head]).to_lowercase();
            let length = text.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
            if all.len() >= head + length {
                return serde_json::from_slice(&all[head..head + length]).ok();
            }
        }
        if stream.read_buf(&mut all).await.ok()? == 0 {
            return None;
        }
    }
}

fn verdict(review: &Value) -> String {
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    let body = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}).to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

impl Script {
    /// A webhook that follows the script.
    async fn start(self, more: Value) -> Value {
        let Listening { listener, tls, url, ca } = Listening::start().await;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(self.run(stream, tls));
            }
        });
        let mut webhook = json!({
            "name": "w.example.com", "clientConfig": {"url": format!("{url}/x"), "caBundle": ca}, "timeoutSeconds": 1,
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        webhook.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        webhook
    }

    async fn run(self, mut stream: TcpStream, tls: tokio_rustls::TlsAcceptor) {
        match self {
            Self::NoHandshake => return std::future::pending().await,
            Self::NoTls => {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                return;
            }
            _ => {}
        }
        let Ok(mut stream) = tls.accept(stream).await else { return };
        while let Some(review) = request(&mut stream).await {
            if self.reply(&mut stream, &review).await.is_none() {
                return;
            }
        }
    }

    /// `None` ends the connection.
    async fn reply(self, stream: &mut TlsStream<TcpStream>, review: &Value) -> Option<()> {
        match self {
            Self::NoHandshake | Self::NoTls => return None,
            Self::HalfClose => {
                stream.shutdown().await.ok()?;
                while stream.read(&mut [0; 100]).await.ok()? > 0 {}
                return None;
            }
            Self::BrokenBody => {
                let text = verdict(review);
                stream.write_all(&text.as_bytes()[..text.len() - 10]).await.ok()?;
                stream.flush().await.ok()?;
                return None;
            }
            Self::Stall => {
                stream.write_all(&verdict(review).as_bytes()[..50]).await.ok()?;
                stream.flush().await.ok()?;
                return std::future::pending().await;
            }
            Self::Endless(first, then) => {
                stream.write_all(first.as_bytes()).await.ok()?;
                let then = then.repeat(100);
                loop {
                    stream.write_all(then.as_bytes()).await.ok()?;
                }
            }
            Self::Once(text) => {
                stream.write_all(text.as_bytes()).await.ok()?;
                stream.flush().await.ok()?;
            }
            Self::VerdictAndClose => {
                stream.write_all(verdict(review).as_bytes()).await.ok()?;
                stream.shutdown().await.ok()?;
                return None;
            }
            Self::VerdictAndMore => {
                let more = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
                stream.write_all([verdict(review).as_bytes(), more.as_bytes()].concat().as_slice()).await.ok()?;
                stream.flush().await.ok()?;
            }
        }
        Some(())
    }
}

/// Nothing is acknowledged without its verdict, whatever the webhook sends; with `Ignore` it is as if there were none.
#[tokio::test]
async fn broken_replies_are_failures_and_cost_a_bounded_time_and_memory() {
    let plane = Plane::start().await;
    let deadline = "context deadline exceeded";
    let gzip = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\u{b}\u{8}";
    for (n, (script, expected)) in [
        (Script::NoHandshake, deadline),
        (Script::NoTls, ""),
        (Script::HalfClose, "EOF"),
        (
            Script::BrokenBody,
            "unexpected error when reading response body. Please retry. Original error: unexpected EOF",
        ),
        (
            Script::Once("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"),
            "unexpected error when reading response body. Please retry. Original error: context deadline exceeded",
        ),
        (Script::Stall, deadline),
        (Script::Endless("HTTP/1.1 200 OK\r\n", "X: y\r\n"), ""),
        (
            Script::Endless(
                "HTTP/1.1 200 OK\r\nX: ",
                "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
            ),
            "",
        ),
        (Script::Endless("", "HTTP/1.1 100 Continue\r\n\r\n"), ""),
        (Script::Endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "10\r\n0123456789abcdef\r\n"), ""),
        (Script::Endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1;x=y\r\n \r\n"), ""),
        (Script::Endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n"), ""),
        (Script::Once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), ""),
        (Script::Once("HTTP/1.1 103 Early Hints\r\n\r\n"), deadline),
        (Script::Once("HTTP/1.1 204 No Content\r\n\r\n"), ""),
        (Script::Once("HTTP/1.1 307 X\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), ""),
        (Script::Once("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"), ""),
        (Script::Once(gzip), ""),
        (Script::Once("nonsense\r\n\r\n"), ""),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{n}");
        let webhook = script.start(json!({})).await;
        plane.configure("Validating", "v", vec![webhook]).await;
        let reply = plane.post(CONFIG_MAPS, &config_map(&name)).await;
        assert_eq!((reply.code, &reply.body["reason"]), (500, &json!("InternalError")), "{script:?}: {reply:?}");
        assert!(reply.message().starts_with(FAILED) && reply.message().ends_with(expected), "{script:?}: {reply:?}");
        let stored = plane.send(http::Method::GET, &format!("{CONFIG_MAPS}/{name}"), "", &Value::Null).await;
        assert_eq!(stored.code, 404, "{script:?}");
        plane.configure("Validating", "v", vec![script.start(json!({"failurePolicy": "Ignore"})).await]).await;
        assert_eq!(plane.post(CONFIG_MAPS, &config_map(&name)).await.code, 201, "{script:?}");
    }
}

/// A kept connection that its server closes costs no request.
#[tokio::test]
async fn connections_that_are_closed_between_requests_are_replaced() {
    let plane = Plane::start().await;
    for script in [Script::VerdictAndClose, Script::VerdictAndMore] {
        plane.configure("Validating", "v", vec![script.start(json!({})).await]).await;
        for n in 0..20 {
            let name = format!("{}{n}", format!("{script:?}").to_lowercase());
            let reply = plane.post(CONFIG_MAPS, &config_map(&name)).await;
            assert_eq!(reply.code, 201, "{script:?} {n}: {reply:?}");
        }
    }
    // Another webhook is not concerned.
    let hooks = Hooks::start().await;
    plane.configure("Validating", "v", vec![hooks.webhook("w", "allow", json!({}))]).await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("last")).await.code, 201);
}
