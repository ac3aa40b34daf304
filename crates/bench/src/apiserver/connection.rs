//! A client that costs little: one HTTP/2 connection, headers and bodies as they are, nothing parsed.

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

/// What Go's client gives a stream, and enough for many streams on one connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// A server and how to prove who one is.
#[derive(Clone)]
pub struct Target {
    address: String,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
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
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.context("the client's certificate")?, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(host.to_owned()).context("the server's name")?;
        Ok(Self { address: address.to_owned(), name, tls: Arc::new(tls) })
    }

    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream =
            TcpStream::connect(&self.address).await.with_context(|| format!("connecting to {}", self.address))?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(self.name.clone(), stream).await?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Connection { sender, authority: self.address.as_str().into() })
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
}

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

    fn request(self, authority: &str) -> anyhow::Result<http::Request<Full<Bytes>>> {
        let mut builder = http::Request::builder()
            .method(self.method)
            .uri(format!("https://{authority}{}", self.path))
            .header("user-agent", "bench/1")
            .header("accept", self.accept);
        if !self.content_type.is_empty() {
            builder = builder.header("content-type", self.content_type);
        }
        if self.gzip {
            builder = builder.header("accept-encoding", "gzip");
        }
        Ok(builder.body(Full::new(self.body))?)
    }
}

impl Connection {
    /// The body of the answer, which must be a success.
    pub async fn call(&self, call: Call) -> anyhow::Result<Bytes> {
        let response = self.open(call).await?;
        Ok(response.collect().await.context("reading the answer")?.to_bytes())
    }

    /// How many bytes the answer has; they are not kept.
    pub async fn count(&self, call: Call) -> anyhow::Result<usize> {
        let mut body = self.open(call).await?;
        let mut count = 0;
        while let Some(frame) = body.frame().await {
            count += frame.context("reading the answer")?.data_ref().map_or(0, Bytes::len);
        }
        Ok(count)
    }

    /// The answer as it comes.
    pub async fn open(&self, call: Call) -> anyhow::Result<Incoming> {
        let what = format!("{} {}", call.method, call.path);
        let request = call.request(&self.authority)?;
        let response = self.sender.clone().send_request(request).await.with_context(|| what.clone())?;
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(response.into_body())
    }
}
