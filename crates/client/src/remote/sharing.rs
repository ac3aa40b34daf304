//! Requests to a server share connections if it supports HTTP/2, as those of Kubernetes' own clients do. Over HTTP/1.1, a
//! process that watches twenty kinds in each of a thousand clusters would hold twenty thousand connections.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper_util::rt::TokioTimer;
use parking_lot::Mutex;
use transport::{BoxError, Request, Response};

use super::dial::{self, Http, InTime};

/// Fewer than the streams that servers permit on a connection: 100 at least (RFC 9113, section 6.5.2), as kube-apiserver
/// does. A server permits another one only when one of them ends, which watches do late.
const SHARE: usize = 64;
/// Bytes that may be received before they are read, of a response and of a connection.
const RESPONSE_WINDOW: u32 = 1 << 20;
const WINDOW: u32 = 4 << 20;
/// TCP finds a lost peer only after minutes while data is unacknowledged, and further requests would join the connection.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// The connections to one server.
pub(super) struct Connections {
    connector: InTime,
    shared: Mutex<Vec<Shared>>,
}

/// One connection with HTTP/2, or as many with HTTP/1.1 as there are concurrent requests.
struct Shared {
    http: Http,
    /// Each request, and each response that is not read to its end, has a reference.
    requests: Arc<()>,
}

impl Connections {
    pub(super) fn new(connector: InTime) -> Self {
        Self { connector, shared: Mutex::default() }
    }

    pub(super) async fn request(&self, request: Request) -> Result<Response, BoxError> {
        let (http, seat) = self.seat();
        let response = http.request(request).await?;
        Ok(response.map(|body| {
            let body = body.map_err(move |error| {
                // The seat is taken until the body is dropped.
                let _ = &seat;
                BoxError::from(error)
            });
            body.boxed_unsync()
        }))
    }

    fn seat(&self) -> (Http, Arc<()>) {
        let mut shared = self.shared.lock();
        let free = shared.iter().find(|it| Arc::strong_count(&it.requests) <= SHARE);
        if let Some(Shared { http, requests }) = free {
            return (http.clone(), requests.clone());
        }
        let http = dial::builder()
            .timer(TokioTimer::new())
            .http2_initial_stream_window_size(RESPONSE_WINDOW)
            .http2_initial_connection_window_size(WINDOW)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG)
            .build(self.connector.clone());
        let requests = Arc::new(());
        shared.push(Shared { http: http.clone(), requests: requests.clone() });
        (http, requests)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apimachinery::ApiResource;
    use futures::StreamExt as _;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame, Incoming};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto;
    use tokio::net::TcpListener;
    use transport::{WatchEvent, WatchStream};

    use super::super::presented::acceptor;
    use super::*;
    use crate::{Client, Endpoint, WatchOptions};

    /// A server that sends one bookmark to each watch, and its version of HTTP to other requests.
    struct Server {
        client: Client,
        connections: Arc<AtomicUsize>,
    }

    type Reply = futures::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>;

    async fn answer(request: http::Request<Incoming>) -> Result<http::Response<StreamBody<Reply>>, Infallible> {
        let line = |text: String| futures::stream::iter([Ok(Frame::data(Bytes::from(text)))]);
        let body: Reply = if request.uri().query().is_some() {
            let bookmark =
                r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
            Box::pin(line(format!("{bookmark}\n")).chain(futures::stream::pending()))
        } else {
            Box::pin(line(format!("{:?}", request.version())))
        };
        Ok(http::Response::new(StreamBody::new(body)))
    }

    async fn server(protocols: &[&str], balanced: bool) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let endpoint = Endpoint {
            server: format!("https://{}", listener.local_addr().expect("an address")),
            insecure: true,
            balanced,
            ..Endpoint::default()
        };
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, acceptor) = (connections.clone(), acceptor(protocols));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = TokioIo::new(acceptor.accept(stream).await.expect("a handshake"));
                    let service = hyper::service::service_fn(answer);
                    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await;
                });
            }
        });
        Server { client: Client::from_endpoint(&endpoint).expect("a client"), connections }
    }

    impl Server {
        /// Watches that have received their first event.
        async fn watches(&self, count: usize) -> Vec<WatchStream> {
            let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
            let mut watches = Vec::new();
            for _ in 0..count {
                let mut watch = self.client.watch(&pods, None, &WatchOptions::default()).await.expect("a watch");
                let event = watch.next().await.expect("an event");
                assert!(matches!(event, WatchEvent::Bookmark { .. }));
                watches.push(watch);
            }
            watches
        }

        async fn version(&self) -> Bytes {
            self.client.request(http::Method::GET, "/version", None).await.expect("an answer")
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn requests_share_connections_of_http_2() {
        let server = server(&["h2", "http/1.1"], false).await;
        for _ in 0..2 * SHARE {
            assert_eq!(server.version().await, "HTTP/2.0");
        }
        assert_eq!(server.connections(), 1);
        let mut watches = server.watches(SHARE + 2).await;
        assert_eq!(server.connections(), 2);
        // Watches that ended make room.
        watches.truncate(SHARE / 2);
        watches.extend(server.watches(SHARE).await);
        assert_eq!(server.connections(), 2);
    }

    #[tokio::test]
    async fn upgrades_have_connections_of_their_own() {
        let server = server(&["h2", "http/1.1"], false).await;
        let mut request = crate::codec::read("/version", "*/*").expect("a request");
        request.headers_mut().insert("upgrade", http::HeaderValue::from_static("websocket"));
        let response = server.client.send(request).await.expect("an answer");
        assert_eq!(crate::read_body(response.into_body(), 100).await.expect("a body"), "HTTP/1.1");
    }

    #[tokio::test]
    async fn servers_without_http_2_have_a_connection_for_each_watch() {
        for (protocols, balanced) in [(&["http/1.1"][..], false), (&[], false), (&["h2", "http/1.1"], true)] {
            let server = server(protocols, balanced).await;
            let _watches = server.watches(3).await;
            assert_eq!(server.version().await, "HTTP/1.1");
            assert_eq!(server.connections(), 4);
        }
    }
}
