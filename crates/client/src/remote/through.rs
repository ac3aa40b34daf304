//! Connections that a [`Dial`], such as a tunnel, opens instead of a socket of this process; TLS and HTTP run over them
//! as over any other. Also the far end, which opens plain connections to one server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::ServiceExt as _;
use transport::BoxError;

use super::{Endpoint, config_of, dial};
use crate::Result;
use crate::failure::NoConnection;

/// The limit for the direct connection if the [`Dial`] has none, within the limit for the whole connection.
const DIRECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens connections to a server that this process may not reach itself.
pub trait Dial: Send + Sync + 'static {
    /// Opens a connection to `authority` (host and port). `None` while no such connection is possible: the endpoint is
    /// then dialled directly.
    fn dial(&self, authority: &str) -> Option<BoxFuture<'static, std::result::Result<Stream, BoxError>>>;

    /// Adds the reason why the [`Dial`] had no connection to the error of a direct connection.
    fn unreachable(&self, authority: &str, error: BoxError) -> BoxError;
}

trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

/// A bidirectional byte stream.
pub struct Stream(Box<dyn Io>);

impl Stream {
    /// Wraps a byte stream.
    pub fn new(io: impl Read + Write + Send + Unpin + 'static) -> Self {
        Self(Box::new(io))
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream(..)")
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }
}

pub(super) type Streams = tower::util::BoxCloneSyncService<Uri, Stream, BoxError>;

/// Host and port of a URL, with the default port of its scheme.
pub fn authority(uri: &Uri) -> String {
    let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    format!("{}:{}", uri.host().unwrap_or_default().to_ascii_lowercase(), uri.port_u16().unwrap_or(default))
}

/// A connector through a [`Dial`], and through `direct` while the [`Dial`] has no connection.
#[derive(Clone)]
pub(super) struct Through {
    pub way: Arc<dyn Dial>,
    pub direct: Streams,
}

impl tower::Service<Uri> for Through {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, std::result::Result<Stream, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        self.direct.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let authority = authority(&uri);
        if let Some(dialling) = self.way.dial(&authority) {
            return dialling;
        }
        let (way, direct) = (Arc::clone(&self.way), self.direct.clone());
        Box::pin(async move {
            let error = match tokio::time::timeout(DIRECT_TIMEOUT, direct.oneshot(uri)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error,
                Err(_) => BoxError::from(NoConnection(DIRECT_TIMEOUT)),
            };
            Err(way.unreachable(&authority, error))
        })
    }
}

/// The far end of a [`Dial`]: connections to one server, without TLS.
#[derive(Clone)]
pub struct Egress {
    server: Uri,
    streams: Streams,
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Egress({})", self.server)
    }
}

impl Egress {
    /// To the server of a kubeconfig, through its proxy if it has one. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`crate::Error::Config`] naming the invalid URL.
    pub fn to(server: &str, proxy: Option<&str>) -> Result<Self> {
        let endpoint =
            Endpoint { server: server.to_owned(), proxy_url: proxy.map(str::to_owned), ..Endpoint::default() };
        let config = config_of(&endpoint)?;
        Ok(Self { streams: dial::plain(&config)?, server: config.server })
    }

    /// Host and port of the server.
    pub fn authority(&self) -> String {
        authority(&self.server)
    }

    /// Opens a connection to the server.
    pub fn connect(&self) -> BoxFuture<'static, std::result::Result<Stream, BoxError>> {
        Box::pin(self.streams.clone().oneshot(self.server.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::Client;

    #[test]
    fn authorities_have_ports() {
        for (url, expected) in [
            ("https://M1.example", "m1.example:443"),
            ("http://m1.example/base", "m1.example:80"),
            ("https://10.0.0.1:6443/", "10.0.0.1:6443"),
            ("https://[2001:db8::1]", "[2001:db8::1]:443"),
        ] {
            assert_eq!(authority(&url.parse().expect("a URL")), expected);
        }
    }

    /// Answers one request over an in-memory pipe while it is enabled.
    struct Pipe(AtomicBool);

    impl Dial for Pipe {
        fn dial(&self, authority: &str) -> Option<BoxFuture<'static, std::result::Result<Stream, BoxError>>> {
            assert_eq!(authority, "member.invalid:80");
            self.0.load(Ordering::Relaxed).then(|| {
                let (near, mut far) = tokio::io::duplex(1024);
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while !read.ends_with(b"\r\n\r\n") {
                        read.push(far.read_u8().await.expect("a head"));
                    }
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                    far.write_all(answer).await.expect("written");
                });
                let stream = Stream::new(TokioIo::new(near));
                Box::pin(std::future::ready(Ok(stream))) as BoxFuture<'static, _>
            })
        }

        fn unreachable(&self, authority: &str, _: BoxError) -> BoxError {
            format!("neither {authority} nor a pipe").into()
        }
    }

    #[tokio::test]
    async fn connections_use_the_dial_while_it_has_one() {
        let pipe = Arc::new(Pipe(AtomicBool::new(true)));
        let endpoint = Endpoint { server: "http://member.invalid".into(), pull: true, ..Endpoint::default() };
        let client = Client::from_endpoint_over(&endpoint, pipe.clone()).expect("a client");
        assert_eq!(&client.request(http::Method::GET, "/version", None).await.expect("an answer")[..], b"ok");
        pipe.0.store(false, Ordering::Relaxed);
        let error = client.request(http::Method::GET, "/version", None).await.expect_err("no way").to_string();
        assert!(error.ends_with("neither member.invalid:80 nor a pipe"), "{error}");
    }
}
