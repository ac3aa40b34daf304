//! Invalid and malicious responses of a remote server: they are bounded, and never accepted as valid ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport::WatchEvent;

use crate::{Client, DeleteOptions, Endpoint, Error, ListOptions, Result, WatchOptions};

/// The response to every request.
enum Reply {
    /// This text, then silence.
    Once(String),
    /// The first text, then the second without end.
    Endless(&'static str, String),
    /// A byte at a time.
    Dribble(&'static str),
    Nothing,
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn body(text: &str) -> Reply {
    Reply::Once(format!("{OK}content-length: {}\r\n\r\n{text}", text.len()))
}

/// A server with one response for all requests, and the number of connections.
async fn server(reply: Reply) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let connections = Arc::new(AtomicUsize::new(0));
    let (counted, reply) = (connections.clone(), Arc::new(reply));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(answer(stream, reply.clone()));
        }
    });
    (address, connections)
}

/// Writes until the client closes the connection.
async fn answer(mut stream: TcpStream, reply: Arc<Reply>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    match &*reply {
        Reply::Once(text) => stream.write_all(text.as_bytes()).await?,
        Reply::Endless(begin, more) => {
            stream.write_all(begin.as_bytes()).await?;
            loop {
                stream.write_all(more.as_bytes()).await?;
            }
        }
        Reply::Dribble(begin) => {
            stream.write_all(begin.as_bytes()).await?;
            loop {
                stream.write_all(b"1\r\n \r\n").await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Reply::Nothing => {}
    }
    if let Reply::Once(text) = &*reply
        && text.contains("connection: close")
    {
        return stream.shutdown().await;
    }
    std::future::pending().await
}

fn client(server: &str) -> Client {
    let endpoint = Endpoint { server: server.to_owned(), ..Endpoint::default() };
    Client::from_endpoint(&endpoint).expect("a client").with_timeout(Duration::from_millis(700))
}

fn pods() -> ApiResource {
    ApiResource::namespaced("", "v1", "Pod", "pods")
}

fn why<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.to_string(),
    }
}

/// A chunk of the text, repeated `count` times.
fn chunk(text: &str, count: usize) -> String {
    format!("{:x}\r\n{}\r\n", text.len() * count, text.repeat(count))
}

/// A redirect would send the token to another server.
#[tokio::test]
async fn redirects_are_not_followed() {
    let (elsewhere, connections) = server(body("{}")).await;
    for code in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let answer = format!("HTTP/1.1 {code}\r\nlocation: {elsewhere}/version\r\ncontent-length: 0\r\n\r\n");
        let (member, _) = server(Reply::Once(answer)).await;
        let endpoint = Endpoint { server: member, token: Some("secret".into()), ..Endpoint::default() };
        let client = Client::from_endpoint(&endpoint).expect("a client");
        let request = http::Request::get("/version").body(transport::empty()).expect("a request");
        let answer = client.send(request).await.expect("an answer");
        assert!(answer.status().is_redirection(), "{code}");
        assert_eq!(connections.load(Ordering::Relaxed), 0, "{code}");
    }
}

#[tokio::test]
async fn malformed_responses_are_errors() {
    let named = |kind: &str, name: &str| body(&format!(r#"{{"kind":"{kind}","metadata":{{"name":"{name}"}}}}"#));
    for (reply, expected) in [
        (body("<html>"), "expected value"),
        (body("[]"), "cannot understand the answer"),
        (body("{\"kind\":\"Pod\",\"metadata\":7}"), "cannot understand the answer"),
        (body(&"[".repeat(100_000)), "cannot understand the answer"),
        (body("{\"kind\":\"Pod\""), "EOF while parsing"),
        (body(""), "EOF while parsing"),
        (body("{}"), r#"its kind is "", not "Pod""#),
        (named("Status", "a"), r#"its kind is "Status", not "Pod""#),
        (named(&"x".repeat(100_000), "a"), "not \"Pod\""),
        (named("Pod", "b"), "an object of another name"),
        (Reply::Once("HTTP/1.1 204 No Content\r\n\r\n".into()), "EOF while parsing"),
        (Reply::Once("HTTP/1.1 500 Oops\r\ncontent-length: 3\r\n\r\n{}\n".into()), "the server answered 500"),
        (Reply::Once("SSH-2.0-OpenSSH_9.6\r\n".into()), "GET /api/v1/namespaces/n/pods/a"),
        (Reply::Once(format!("{OK}content-length: 900000000000000000\r\n\r\n{{")), "no answer within"),
        (Reply::Nothing, "no answer within"),
        (Reply::Dribble(CHUNKED), "no answer within"),
        (Reply::Endless(CHUNKED, chunk("{\"a\":", 10_000)), "length limit exceeded"),
        (Reply::Endless("HTTP/1.1 200 OK\r\n", "a: b\r\n".repeat(1000)), "GET /api/v1/namespaces/n/pods/a"),
    ] {
        let (address, _) = server(reply).await;
        let got = why(client(&address).get(&pods(), &ObjectKey::namespaced("n", "a")).await);
        assert!(got.contains(expected) && got.len() < 1000, "{expected:?} in {got:?}");
    }
}

/// A deletion that no API server confirmed may not have reached one.
#[tokio::test]
async fn malformed_responses_confirm_no_deletion() {
    let confirmed =
        [r#"{"kind":"Status","status":"Success"}"#, r#"{"kind":"Pod","metadata":{"name":"a"},"status":{}}"#];
    for (text, expected) in [
        ("<html>", Some("expected value")),
        ("", Some("EOF while parsing")),
        ("{}", Some("neither an object nor a Status")),
        (r#"{"kind":"Status"}"#, Some("without success")),
        (confirmed[0], None),
        (confirmed[1], None),
    ] {
        let (address, _) = server(body(text)).await;
        let (client, key, options) = (client(&address), ObjectKey::namespaced("n", "a"), DeleteOptions::default());
        let got = client.delete(&pods(), &key, &options).await.map_err(|error| error.to_string());
        match expected {
            Some(expected) => assert!(got.clone().is_err_and(|got| got.contains(expected)), "{expected:?} in {got:?}"),
            None => assert_eq!(got, Ok(()), "{text}"),
        }
    }
}

#[tokio::test]
async fn verbs_do_not_follow_redirects() {
    let (elsewhere, connections) = server(body(r#"{"kind":"Pod","metadata":{"name":"a"}}"#)).await;
    for code in [301, 302, 303, 307, 308] {
        let head =
            format!("HTTP/1.1 {code} Go\r\nlocation: {elsewhere}/x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let (address, _) = server(Reply::Once(head)).await;
        let (client, key) = (client(&address), ObjectKey::namespaced("n", "a"));
        for got in [
            why(client.get(&pods(), &key).await),
            why(client.delete(&pods(), &key, &DeleteOptions::default()).await),
            why(client.list(&pods(), None, &ListOptions::default()).await),
            why(client.watch(&pods(), None, &WatchOptions::default()).await),
        ] {
            assert!(got.contains(&format!("the server answered {code}")), "{got}");
        }
    }
    assert_eq!(connections.load(Ordering::Relaxed), 0);
}

/// Objects missing from a list count as deleted, so a response that is not a list is an error.
#[tokio::test]
async fn malformed_lists_are_errors() {
    for (text, expected) in [
        ("{}", "not \"PodList\""),
        (r#"{"kind":"Status","status":"Success"}"#, "not \"PodList\""),
        (r#"{"kind":"Pod","metadata":{"name":"a"}}"#, "not \"PodList\""),
        (r#"{"kind":"PodList","items":{"a":1}}"#, "cannot understand"),
        (r#"{"kind":"PodList","items":[1,2]}"#, "cannot understand"),
        (r#"{"kind":"PodList","items":[],"metadata":{"resourceVersion":"soon"}}"#, "not an integer"),
    ] {
        let (address, _) = server(body(text)).await;
        let got = why(client(&address).list(&pods(), None, &ListOptions::default()).await);
        assert!(got.contains(expected), "{expected:?} in {got:?}");
    }
}

#[tokio::test]
async fn watches_end_at_the_first_malformed_line() {
    let pod = r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}}"#;
    for (line, expected) in [
        ("<html>\n".to_owned(), "is malformed"),
        (format!("{}\n", "[".repeat(100_000)), "is malformed"),
        ("{\"type\":\"GROWN\",\"object\":{}}\n".to_owned(), "unknown type"),
        ("{\"type\":\"ERROR\",\"object\":7}\n".to_owned(), "is malformed"),
    ] {
        let text = format!("{pod}\n{line}");
        let reply = Reply::Once(format!("{CHUNKED}{}", chunk(&text, 1)));
        let (address, _) = server(reply).await;
        let mut events = client(&address).watch(&pods(), None, &WatchOptions::default()).await.expect("it begins");
        assert!(matches!(events.next().await, Some(WatchEvent::Added(_))), "{line}");
        let Some(WatchEvent::Error(status)) = events.next().await else { panic!("{line} is nonsense") };
        assert!(status.message.contains(expected), "{expected:?} in {}", status.message);
    }
    let (address, _) = server(Reply::Endless(CHUNKED, chunk("x", 1 << 20))).await;
    let mut events = client(&address).watch(&pods(), None, &WatchOptions::default()).await.expect("it begins");
    let Some(WatchEvent::Error(status)) = events.next().await else { panic!("no line is that long") };
    assert!(status.message.contains("larger than") && events.next().await.is_none(), "{}", status.message);
    // A response that never starts.
    let (address, _) = server(Reply::Nothing).await;
    let Err(Error::Timeout { .. }) = client(&address).watch(&pods(), None, &WatchOptions::default()).await else {
        panic!("expected a time-out");
    };
}
