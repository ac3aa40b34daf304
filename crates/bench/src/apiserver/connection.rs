//! A cheap client: one HTTP/2 connection; headers and bodies are not parsed.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The window of Go's client per stream, and enough for many streams on one connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// A server and the client's credentials.
#[derive(Clone)]
pub struct Target {
    address: String,
    name: ServerName<'static>,
    roots: RootCertStore,
    tls: Arc<ClientConfig>,
    /// The value of the header `Authorization`, for users without a certificate.
    token: Option<Arc<str>>,
}

impl Target {
    pub fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
        let config = apimachinery::yaml::to_json_value(&text).context("parsing the kubeconfig")?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let server = cluster["server"].as_str().unwrap_or_default();
        let address = server.strip_prefix("https://").context("the server's URL")?.trim_end_matches('/');
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&data(cluster, "certificate-authority-data")?) {
            roots.add(root.context("the authority's certificate")?)?;
        }
        let chain = CertificateDer::pem_slice_iter(&data(user, "client-certificate-data")?).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(&data(user, "client-key-data")?).context("the client's key")?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.context("the client's certificate")?, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(host.to_owned()).context("the server's name")?;
        Ok(Self { address: address.to_owned(), name, roots, tls: Arc::new(tls), token: None })
    }

    /// The same server without a client certificate, for a bearer token or without credentials.
    pub fn with_token(&self, token: Option<&str>) -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        // Each connection is the first one of a new client.
        tls.resumption = rustls::client::Resumption::disabled();
        let token = token.map(|token| format!("Bearer {token}").into());
        Ok(Self { tls: Arc::new(tls), token, ..self.clone() })
    }

    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let (connection, driver) = self.dial(STREAM_WINDOW).await?;
        tokio::spawn(driver);
        Ok(connection)
    }

    /// TCP and TLS alone.
    pub async fn handshake(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream =
            TcpStream::connect(&self.address).await.with_context(|| format!("connecting to {}", self.address))?;
        stream.set_nodelay(true)?;
        Ok(TlsConnector::from(Arc::clone(&self.tls)).connect(self.name.clone(), stream).await?)
    }

    /// A connection and the future that drives it; `window` is the number of unread bytes per response.
    pub async fn dial(&self, window: u32) -> anyhow::Result<(Connection, Driver)> {
        let stream = self.handshake().await?;
        let (sender, driver) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok((Connection { sender, authority: self.address.as_str().into(), token: self.token.clone() }, driver))
    }
}

fn data(section: &Value, field: &str) -> anyhow::Result<Vec<u8>> {
    let text = section[field].as_str().with_context(|| format!("the kubeconfig has no {field}"))?;
    STANDARD.decode(text).with_context(|| format!("decoding {field}"))
}

/// Clones share the connection.
#[derive(Clone)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: Arc<str>,
    token: Option<Arc<str>>,
}

pub type Driver = hyper::client::conn::http2::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>, TokioExecutor>;

/// One request of a load.
#[derive(Clone, Default)]
pub struct Call {
    pub method: http::Method,
    pub path: String,
    pub content_type: &'static str,
    pub accept: &'static str,
    pub gzip: bool,
    pub body: Bytes,
}

pub const JSON: &str = "application/json";

impl Call {
    pub fn get(path: impl Into<String>) -> Self {
        Self { path: path.into(), accept: JSON, ..Self::default() }
    }

    pub fn send(
        method: http::Method,
        path: impl Into<String>,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self { method, path: path.into(), content_type, accept: JSON, body: body.into(), gzip: false }
    }

    fn request(self, authority: &str, token: Option<&str>) -> anyhow::Result<http::Request<Full<Bytes>>> {
        let mut builder = http::Request::builder()
            .method(self.method)
            .uri(format!("https://{authority}{}", self.path))
            .header("user-agent", "bench/1")
            .header("accept", self.accept);
        if !self.content_type.is_empty() {
            builder = builder.header("content-type", self.content_type);
        }
        if let Some(token) = token {
            builder = builder.header("authorization", token);
        }
        if self.gzip {
            builder = builder.header("accept-encoding", "gzip");
        }
        Ok(builder.body(Full::new(self.body))?)
    }
}

impl Connection {
    /// The body of a successful response.
    pub async fn call(&self, call: Call) -> anyhow::Result<Bytes> {
        let response = self.open(call).await?;
        Ok(response.collect().await.context("reading the answer")?.to_bytes())
    }

    /// The size of a response, whose bytes are dropped.
    pub async fn count(&self, call: Call) -> anyhow::Result<usize> {
        let mut body = self.open(call).await?;
        let mut count = 0;
        while let Some(frame) = body.frame().await {
            count += frame.context("reading the answer")?.data_ref().map_or(0, Bytes::len);
        }
        Ok(count)
    }

    /// The response, successful or not, without its body.
    pub async fn send(&self, call: Call) -> anyhow::Result<http::Response<Incoming>> {
        let request = call.request(&self.authority, self.token.as_deref())?;
        Ok(self.sender.clone().send_request(request).await?)
    }

    /// The response as a stream.
    pub async fn open(&self, call: Call) -> anyhow::Result<Incoming> {
        let what = format!("{} {}", call.method, call.path);
        let response = self.send(call).await.with_context(|| what.clone())?;
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(response.into_body())
    }
}
