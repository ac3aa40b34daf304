//! A TLS server whose answers a test decides, and tokens that an issuer behind it signs.

use std::convert::Infallible;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The response to a request.
#[derive(Clone)]
pub enum Reply {
    Body(u16, String),
    /// The beginning of a body that never ends.
    Begun(String),
    /// The connection is closed.
    Close,
    /// Never responds.
    Silence,
}

impl Reply {
    pub fn json(value: &Value) -> Self {
        Self::Body(200, value.to_string())
    }
}

type Answer = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A server at `https://127.0.0.1:PORT`.
#[derive(Clone)]
pub struct Loopback {
    pub url: String,
    /// PEM.
    pub authority: String,
    answer: Arc<Mutex<Arc<Answer>>>,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Loopback {
    pub async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).expect("a key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let der = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], der.into())
            .expect("a certificate");
        let (authority, answer) = (key.cert.pem(), Arc::new(Mutex::new(Arc::new(answer) as Arc<Answer>)));
        let server = Self { url, authority, answer, requests: Arc::default() };
        tokio::spawn(server.clone().serve(listener, TlsAcceptor::from(Arc::new(tls))));
        server
    }

    pub fn answer_with(&self, answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) {
        *self.answer.lock() = Arc::new(answer);
    }

    /// The requests so far, with their bodies.
    pub fn take_requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.requests.lock())
    }

    /// How many requests have arrived.
    pub fn received(&self) -> usize {
        self.requests.lock().len()
    }

    async fn serve(self, listener: TcpListener, tls: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (server, tls) = (self.clone(), tls.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |request| {
                    let server = server.clone();
                    async move { server.reply(request).await }
                });
                let connection = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                // A reply that breaks off is part of the tests.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn reply(self, request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = Arc::clone(&self.answer.lock());
        let reply = answer(&path, &body);
        self.requests.lock().push((path, body));
        match reply {
            Reply::Body(code, body) => {
                Ok(Response::builder().status(code).body(Full::from(body).boxed()).expect("a response"))
            }
            Reply::Begun(text) => {
                let first = stream::iter([Ok(Frame::data(Bytes::from(text)))]);
                Ok(Response::new(BoxBody::new(StreamBody::new(first.chain(stream::pending())))))
            }
            Reply::Close => Err(std::io::Error::other("closed")),
            Reply::Silence => std::future::pending().await,
        }
    }

    /// A kubeconfig of a webhook at this server.
    pub fn kubeconfig(&self, directory: &std::path::Path) -> client::kubeconfig::Places {
        let authority = base64::prelude::BASE64_STANDARD.encode(&self.authority);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("{}/review", self.url), "certificate-authority-data": authority}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}]});
        let file = directory.join("webhook.kubeconfig");
        std::fs::write(&file, config.to_string()).expect("written");
        client::kubeconfig::Places::file(&file)
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer.
pub struct Key(EcdsaKeyPair);

impl Key {
    pub fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub fn jwk(&self, id: &str) -> Value {
        let point = &self.0.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({"kty": "EC", "kid": id, "crv": "P-256", "x": encoded(x), "y": encoded(y)})
    }

    pub fn sign(&self, id: &str, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": id});
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", encoded(signature))
    }
}
