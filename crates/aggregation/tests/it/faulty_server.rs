//! A server whose response depends on the group of the request.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::Trust;

type Body = BoxBody<Bytes, std::io::Error>;

/// The server; `requests` has the heads of requests below group versions, and whether the peer had a certificate.
#[derive(Clone, Default)]
pub struct FaultyServer {
    pub requests: Arc<Mutex<Vec<http::request::Parts>>>,
    /// The OpenAPI v2 document. An empty one never ends.
    pub openapi: Arc<Mutex<Option<Bytes>>>,
    /// How often it was read.
    pub read: Arc<AtomicUsize>,
}

/// The beginning of a body that never ends.
fn begun(text: &'static str) -> Result<Response<Body>, std::io::Error> {
    let first = futures::stream::iter([Ok(Frame::data(Bytes::from_static(text.as_bytes())))]);
    let body = BodyExt::boxed(StreamBody::new(first.chain(futures::stream::pending())));
    Ok(Response::builder().header("content-type", "application/json").body(body).expect("a response"))
}

fn full(code: u16, text: impl Into<Bytes>) -> Result<Response<Body>, std::io::Error> {
    let body = Full::new(text.into()).map_err(|never| match never {}).boxed();
    Ok(Response::builder().status(code).header("content-type", "application/json").body(body).expect("a response"))
}

impl FaultyServer {
    /// Serves with the certificate of the service `odd`; returns the port.
    pub async fn start(trust: &Trust) -> (Self, u16) {
        let names = pki::ServerNames::api_server("test", &["odd.default.svc".to_owned()]);
        let pair = trust.servers.issue_server(&names, &trust.world).expect("a certificate");
        let certificate = pki::holder::pem_to_der(&pair.certificate).expect("PEM");
        let key = pki::holder::pem_to_der(&pair.key).expect("PEM");
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], rustls_pki_types::PrivatePkcs8KeyDer::from(key).into())
            .expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let faulty_server = Self::default();
        tokio::spawn(faulty_server.clone().serve(listener, TlsAcceptor::from(Arc::new(tls))));
        (faulty_server, port)
    }

    async fn serve(self, listener: TcpListener, tls: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (faulty_server, tls) = (self.clone(), tls.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |request| faulty_server.clone().reply(request));
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                // A reply that breaks off is part of the tests.
                let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn reply(self, mut request: http::Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let openapi = (path == "/openapi/v2").then(|| self.openapi.lock().clone()).flatten();
        self.read.fetch_add(usize::from(openapi.is_some()), Relaxed);
        match openapi {
            Some(document) if document.is_empty() => return begun("{\"paths\":{"),
            Some(document) => return full(200, document),
            None => {}
        }
        let ["apis", group, "v1", rest @ ..] = segments.as_slice() else { return full(404, "404 page not found") };
        let kind = group.split('.').next().unwrap_or_default();
        let verbs = ["get", "list"];
        let list = json!({"kind": "APIResourceList", "groupVersion": format!("{group}/v1"), "resources": [
            {"name": "odds", "singularName": "odd", "namespaced": true, "kind": "Odd", "verbs": verbs}]});
        if rest.is_empty() {
            return match kind {
                "html" => full(200, "<html>"),
                "missing" => full(404, "404 page not found"),
                "failing" => full(500, "no"),
                "hanging" => std::future::pending().await,
                "ending" => Err(std::io::Error::other("closed")),
                "stalling" => begun("{\"kind\":"),
                "vast" => full(200, "x".repeat(5 << 20)),
                "deep" => full(200, format!("{{\"kind\":\"APIResourceList\",\"x\":{}", "[".repeat(1 << 20))),
                _ => full(200, list.to_string()),
            };
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        self.requests.lock().push(parts);
        match *rest {
            ["redirect"] => {
                let mut response = full(302, "")?;
                response.headers_mut().insert("location", "https://elsewhere.example/".parse().expect("a header"));
                Ok(response)
            }
            ["end"] => Err(std::io::Error::other("closed")),
            ["hang"] => std::future::pending().await,
            ["stall"] => begun("{\"items\":["),
            // Streams the body back.
            ["echo"] => {
                let frames = body.into_data_stream().map(|piece| piece.map(Frame::data).map_err(std::io::Error::other));
                Ok(Response::new(BodyExt::boxed(StreamBody::new(frames))))
            }
            ["pretty"] => full(200, r#"{"a":1}"#),
            // Switches protocols, whether requested or not, and echoes.
            ["switch"] => {
                tokio::spawn(async move {
                    let Ok(upgraded) = upgrade.await else { return };
                    let mut stream = TokioIo::new(upgraded);
                    let mut piece = [0; 64];
                    while let Ok(count @ 1..) = stream.read(&mut piece).await {
                        if stream.write_all(&piece[..count]).await.is_err() {
                            return;
                        }
                    }
                });
                let mut response = full(200, "")?;
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                let headers = response.headers_mut();
                headers.remove("content-type");
                headers.insert("connection", "Upgrade".parse().expect("a header"));
                headers.insert("upgrade", "SPDY/3.1".parse().expect("a header"));
                Ok(response)
            }
            _ => full(404, "404 page not found"),
        }
    }
}
