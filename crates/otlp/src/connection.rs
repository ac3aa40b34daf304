//! The connection to the collector, opened when spans are to be sent.

use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::config::Endpoint;
use crate::wire;

/// A collector that answers no ping for this long while spans are sent is away.
const PING: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(5);
const AGENT: &str = concat!("karmada/", env!("CARGO_PKG_VERSION"));

pub(crate) struct Connection {
    endpoint: Endpoint,
    origin: Uri,
    sender: Option<SendRequest<Body>>,
}

impl Connection {
    pub fn new(endpoint: Endpoint) -> Self {
        let origin = match &endpoint {
            Endpoint::Tcp(..) => format!("http://{endpoint}").parse().ok(),
            Endpoint::Unix(_) => None,
        };
        Self { endpoint, origin: origin.unwrap_or_else(|| Uri::from_static("http://localhost")), sender: None }
    }

    /// Sends spans; the answer names those that were refused. The caller bounds the time, and drops the future then.
    ///
    /// # Errors
    /// The status of the collector, [`Code::Unavailable`] if it cannot be reached.
    pub async fn export(
        &mut self,
        request: wire::ExportTraceServiceRequest,
    ) -> Result<Option<wire::ExportTracePartialSuccess>, Status> {
        // Kept only after a response: a connection that hangs is not reused.
        let mut sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => self.open().await.map_err(|why| Status::unavailable(format!("cannot connect: {why}")))?,
        };
        sender.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let through = service_fn({
            let sender = sender.clone();
            move |request: Request<Body>| {
                let mut sender = sender.clone();
                async move { sender.send_request(request).await }
            }
        });
        let mut request = tonic::Request::new(request);
        request.metadata_mut().insert("user-agent", MetadataValue::from_static(AGENT));
        let codec = ProstCodec::<_, wire::ExportTraceServiceResponse>::default();
        let mut grpc = Grpc::with_origin(through, self.origin.clone());
        let answer = grpc.unary(request, PathAndQuery::from_static(wire::EXPORT), codec).await;
        if !answer.as_ref().is_err_and(|status| status.code() == Code::Unknown) {
            self.sender = Some(sender);
        }
        Ok(answer?.into_inner().partial_success)
    }

    async fn open(&self) -> Result<SendRequest<Body>, Box<dyn std::error::Error + Send + Sync>> {
        match &self.endpoint {
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                let _ = stream.set_nodelay(true);
                shake(stream).await
            }
            Endpoint::Unix(path) => shake(UnixStream::connect(path).await?).await,
        }
    }
}

async fn shake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Body>, Box<dyn std::error::Error + Send + Sync>> {
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_ANSWER)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(err = %error, "Connection to the trace collector ended");
        }
    });
    Ok(sender)
}
