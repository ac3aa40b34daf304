//! The HTTP stack: connect (through a proxy if configured), TLS, HTTP/2, or HTTP/1.1 with reused connections. Bodies
//! stream in both directions and upgrades are supported, so that one client serves objects, watches, logs and terminals.
//!
//! There are no retries here: queues have back-off, and a hidden retry would not be counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::InvalidDnsNameError;
use tower::ServiceExt;
use transport::{Body, BoxError, Request, Response};

use super::Service;
use super::credentials::Credentials;
use super::guard::{Guard, Guarded};
use super::sharing::Connections;
use super::through::{Dial, Stream, Streams, Through};
use crate::config::{Config, Source};
use crate::failure::NoConnection;
use crate::{Error, Result};

/// For TCP, the proxy and TLS together. A slower member counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// A silently lost peer is detected after `ALIVE + 3 * PROBE`, also during an idle watch.
const ALIVE: Duration = Duration::from_secs(30);
const PROBE: Duration = Duration::from_secs(10);
/// Shorter than the idle limits of servers and middleboxes.
const IDLE: Duration = Duration::from_secs(60);

/// The service from a request with a path to its response. `proxy_headers` are sent to an HTTP proxy only.
pub(super) fn service(config: &Config, proxy_headers: HeaderMap, guard: Guard) -> Result<Service> {
    let resolver = Guarded { resolver: GaiResolver::new(), guard };
    over(config, connecting(config, proxy_headers, resolver)?)
}

/// As [`service`], through `way` while it has a connection.
pub(super) fn service_over(
    config: &Config,
    proxy_headers: HeaderMap,
    guard: Guard,
    way: Arc<dyn Dial>,
) -> Result<Service> {
    let resolver = Guarded { resolver: GaiResolver::new(), guard };
    let direct = connecting(config, proxy_headers, resolver)?;
    over(config, Streams::new(Through { way, direct }))
}

/// Connections to the server without TLS, through its proxy if there is one.
pub(super) fn plain(config: &Config) -> Result<Streams> {
    let resolver = Guarded { resolver: GaiResolver::new(), guard: Guard::OFF };
    connecting(config, HeaderMap::new(), resolver)
}

/// Its result is boxed: with a type for each kind of proxy, TLS and HTTP would be compiled for each of them.
fn connecting<R>(config: &Config, proxy_headers: HeaderMap, resolver: Guarded<R>) -> Result<Streams>
where
    R: tower::Service<Name, Error = std::io::Error> + Clone + Send + Sync + 'static,
    R::Response: Iterator<Item = SocketAddr>,
    R::Future: Send + 'static,
{
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(ALIVE));
    tcp.set_keepalive_interval(Some(PROBE));
    tcp.set_keepalive_retries(Some(3));
    let tcp = streams(tcp);
    let Some(proxy) = &config.proxy else { return Ok(tcp) };
    match proxy.scheme_str() {
        Some("socks5" | "socks5h") => Ok(socks(proxy, tcp)),
        Some("http") => Ok(tunnel(proxy, proxy_headers, tcp)),
        Some("https") => {
            let tls = super::tls::client(config, &Credentials::new(&Source::None)?)?;
            Ok(tunnel(proxy, proxy_headers, streams(secured(config, tls, tcp, Offer::Http1)?)))
        }
        _ => Err(Error::Config(format!("proxy URL {proxy}: unsupported scheme, must be http, https, or socks5"))),
    }
}

fn streams(connector: impl Connect) -> Streams {
    Streams::new(connector.map_response(Stream::new).map_err(Into::into))
}

fn socks(proxy: &Uri, connector: Streams) -> Streams {
    let socks = SocksV5::new(proxy.clone(), connector);
    let plain = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    match user_of(proxy).map(|user| user.split_once(':').unwrap_or((user, ""))) {
        Some((user, password)) => streams(socks.with_auth(plain(user), plain(password))),
        None => streams(socks),
    }
}

/// `user:password`, percent-encoded.
fn user_of(proxy: &Uri) -> Option<&str> {
    proxy.authority().and_then(|authority| authority.as_str().rsplit_once('@')).map(|(user, _)| user)
}

fn tunnel(proxy: &Uri, headers: HeaderMap, connector: Streams) -> Streams {
    let tunnel = Tunnel::new(proxy.clone(), connector).with_headers(headers);
    match user_of(proxy).and_then(basic) {
        Some(value) => streams(tunnel.with_auth(value)),
        None => streams(tunnel),
    }
}

/// `Basic` credentials from the user part of a URL, after percent-decoding.
fn basic(user: &str) -> Option<HeaderValue> {
    use base64::Engine as _;
    let mut plain: Vec<u8> = percent_encoding::percent_decode_str(user).collect();
    if !user.contains(':') {
        plain.push(b':');
    }
    let mut value: HeaderValue = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(plain)).parse().ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A connector: TCP or through a proxy, with or without TLS.
trait Connect:
    tower::Service<
        Uri,
        Response: Connection + Read + Write + Send + Unpin + 'static,
        Future: Send + 'static,
        Error: Into<BoxError>,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Connect for T where
    T: tower::Service<
            Uri,
            Response: Connection + Read + Write + Send + Unpin + 'static,
            Future: Send + 'static,
            Error: Into<BoxError>,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// The versions of HTTP that a connector offers to a server.
#[derive(Clone, Copy)]
enum Offer {
    Http1,
    Http1And2,
}

/// TLS over the connector.
fn secured(config: &Config, tls: ClientConfig, connector: Streams, offer: Offer) -> Result<HttpsConnector<Streams>> {
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.server_name {
        let name = name.clone().try_into().map_err(|e: InvalidDnsNameError| Error::Config(e.to_string()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(match offer {
        Offer::Http1 => builder.enable_http1().wrap_connector(connector),
        Offer::Http1And2 => builder.enable_http1().enable_http2().wrap_connector(connector),
    })
}

pub(super) type Http = hyper_util::client::legacy::Client<InTime, Body>;

pub(super) fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = hyper_util::client::legacy::Builder::new(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
    builder
}

fn over(config: &Config, connector: Streams) -> Result<Service> {
    let credentials = Credentials::new(&config.credentials)?;
    // Both share the sessions to resume.
    let tls = super::tls::client(config, &credentials)?;
    let upgrades = builder().build(InTime(secured(config, tls.clone(), connector.clone(), Offer::Http1)?));
    let offer = if config.balanced { Offer::Http1 } else { Offer::Http1And2 };
    let connections = Connections::new(InTime(secured(config, tls, connector, offer)?));
    let server = Arc::new(Server { base: Base::new(config), credentials, upgrades, connections });
    Ok(Service::new(tower::service_fn(move |request: Request| send(Arc::clone(&server), request))))
}

/// How requests to a server are sent.
struct Server {
    base: Base,
    credentials: Credentials,
    /// HTTP/2 has no upgrades.
    upgrades: Http,
    connections: Connections,
}

async fn send(server: Arc<Server>, mut request: Request) -> std::result::Result<Response, BoxError> {
    let Server { base, credentials, upgrades, connections } = &*server;
    base.complete(&mut request)?;
    let header = match credentials.known() {
        Some(known) => known,
        None => credentials.header().await?,
    };
    if let Some(header) = &header {
        request.headers_mut().insert(http::header::AUTHORIZATION, header.clone());
    }
    let response = if request.headers().contains_key(http::header::UPGRADE) {
        upgrades.request(request).await?.map(|body| body.map_err(BoxError::from).boxed_unsync())
    } else {
        connections.request(request).await?
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        credentials.rejected(header.as_ref());
    }
    Ok(response)
}

/// Connections within [`CONNECT_TIMEOUT`].
#[derive(Clone)]
pub(super) struct InTime(HttpsConnector<Streams>);

impl tower::Service<Uri> for InTime {
    type Response = MaybeHttpsStream<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, std::result::Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        tower::Service::<Uri>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.0.call(uri));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected,
                Err(_) => Err(NoConnection(CONNECT_TIMEOUT).into()),
            }
        })
    }
}

/// What a request to a server has, besides what its sender says.
struct Base {
    server: Uri,
    /// Without the last slash.
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Base {
    fn new(config: &Config) -> Self {
        let path = config.server.path().trim_end_matches('/').to_owned();
        Self { server: config.server.clone(), path, headers: config.headers.clone() }
    }

    fn complete(&self, request: &mut Request) -> std::result::Result<(), BoxError> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = self.server.scheme().cloned();
        parts.authority = self.server.authority().cloned();
        let below = parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
        if !self.path.is_empty() {
            *below = PathAndQuery::try_from(format!("{}{below}", self.path))?;
        }
        *request.uri_mut() = Uri::from_parts(parts)?;
        for (name, value) in &self.headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::{Client, Endpoint};

    async fn head(stream: &mut TcpStream) -> String {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read.push(stream.read_u8().await.expect("a head"));
        }
        String::from_utf8(read).expect("text").to_ascii_lowercase()
    }

    /// A proxy that accepts one connection and then acts as the member.
    #[tokio::test]
    async fn proxy_headers_reach_the_proxy_and_not_the_member() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let connect = head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("written");
            let request = head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("written");
            (connect, request)
        });
        let client = Client::from_endpoint(&Endpoint {
            server: "http://member.example:6443/base".into(),
            token: Some("secret".into()),
            proxy_url: Some(format!("http://ann:pa%40ss@{address}")),
            proxy_headers: vec![("X-Team".into(), "a,b".into())],
            ..Endpoint::default()
        });
        let answer = client.expect("a client").request(http::Method::GET, "/version", None).await.expect("an answer");
        assert_eq!(&answer[..], b"ok");
        let (connect, request) = proxy.await.expect("no panic");
        assert!(connect.starts_with("connect member.example:6443 http/1.1\r\n"), "{connect}");
        // Base64 of `ann:pa@ss`, in lower case like the whole head.
        for line in ["x-team: a\r\n", "x-team: b\r\n", "proxy-authorization: basic yw5uonbhqhnz\r\n"] {
            assert!(connect.contains(line), "{line} in {connect}");
        }
        assert!(!connect.contains("secret"), "the proxy receives the member's token: {connect}");
        assert!(request.starts_with("get /base/version http/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: bearer secret\r\n"), "{request}");
        assert!(!request.contains("x-team") && !request.contains("proxy-authorization"), "{request}");
    }

    #[tokio::test]
    async fn socks_proxies_receive_their_user() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut methods = vec![0; 2];
            stream.read_exact(&mut methods).await.expect("a greeting");
            methods.resize(usize::from(methods[1]), 0);
            stream.read_exact(&mut methods).await.expect("methods");
            stream.write_all(&[5, 2]).await.expect("written");
            let mut user = vec![0; b"\x01\x03ann\x03p@w".len()];
            stream.read_exact(&mut user).await.expect("a user");
            user
        });
        let mut config = Config::new("http://member.example:6443".parse().expect("a URL"));
        config.proxy = Some(format!("socks5h://ann:p%40w@{address}").parse().expect("a URL"));
        let client = Client::from_config(&config).expect("a client");
        client.request(http::Method::GET, "/version", None).await.expect_err("the proxy ends the connection");
        assert_eq!(proxy.await.expect("no panic"), b"\x01\x03ann\x03p@w");
    }

    /// A name that resolves to a forbidden address, as after DNS rebinding: no connection is opened, neither directly
    /// nor through a proxy.
    #[tokio::test]
    async fn resolved_addresses_are_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("written");
            }
        });
        let get = async |server: &str, proxy: Option<&str>, found: &[&str], is_on: bool| {
            let mut config = Config::new(server.parse().expect("a URL"));
            config.credentials = Source::Bearer("secret".into());
            config.proxy = proxy.map(|proxy| proxy.parse().expect("a URL"));
            let found: Vec<SocketAddr> =
                found.iter().map(|address| SocketAddr::new(address.parse().expect("an address"), 0)).collect();
            let resolver = tower::service_fn(move |_: Name| std::future::ready(Ok(found.clone().into_iter())));
            let resolver = Guarded { resolver, guard: Guard { is_on } };
            let streams = connecting(&config, HeaderMap::new(), resolver).expect("a connector");
            let service = over(&config, streams).expect("a service");
            let client = Client::over(crate::Transport::Remote(service), "member");
            let answer = client.request(http::Method::GET, "/version", None);
            let answer = tokio::time::timeout(Duration::from_secs(5), answer).await;
            answer.map_or_else(|_| "no answer".to_owned(), |answer| answer.err().map_or("ok".into(), |e| e.to_string()))
        };
        let member = format!("http://member.example:{port}");
        assert_eq!(get(&member, None, &["127.0.0.1"], true).await, "ok");
        assert_eq!(get(&member, None, &["169.254.169.254", "127.0.0.1"], true).await, "ok");
        for address in ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "224.0.0.1"]
        {
            let refused = get(&member, None, &[address], true).await;
            assert!(refused.contains(&format!("member.example ({address}) is refused")), "{refused}");
            let proxy = format!("http://proxy.example:{port}");
            let refused = get("http://10.0.0.1", Some(&proxy), &[address], true).await;
            assert!(refused.contains(&format!("proxy.example ({address}) is refused")), "{refused}");
        }
        // Clients that are not members are not guarded: 0.0.0.0 is this machine.
        assert_eq!(get(&member, None, &["0.0.0.0"], false).await, "ok");
    }

    #[tokio::test]
    async fn hosts_of_guarded_endpoints_are_checked() {
        for (server, proxy, guarded, accepted) in [
            ("https://169.254.169.254", None, true, false),
            ("https://169.254.169.254", None, false, true),
            ("https://0xa9fea9fe:6443", None, true, false),
            ("https://[::ffff:a9fe:a9fe]:6443", None, true, false),
            ("https://metadata.google.internal", None, true, false),
            ("https://10.0.0.1", Some("http://169.254.169.254:3128"), true, false),
            ("https://10.0.0.1", Some("socks5://u:p@[fe80::1]:1080"), true, false),
            ("https://127.0.0.1:6443", Some("http://localhost:3128"), true, true),
        ] {
            let endpoint = Endpoint {
                server: server.into(),
                proxy_url: proxy.map(str::to_owned),
                insecure: true,
                guarded,
                ..Endpoint::default()
            };
            assert_eq!(Client::from_endpoint(&endpoint).is_ok(), accepted, "{server} {proxy:?} {guarded}");
        }
    }

    #[test]
    fn proxy_credentials_are_unescaped() {
        let check = |user: &str, plain: &str| {
            use base64::Engine as _;
            let value = basic(user).expect("a header");
            let encoded = value.to_str().expect("text").strip_prefix("Basic ").expect("the scheme").to_owned();
            assert_eq!(base64::prelude::BASE64_STANDARD.decode(encoded).expect("base64"), plain.as_bytes());
        };
        check("user:pass", "user:pass");
        check("user:pa%40ss%3Aword", "user:pa@ss:word");
        check("user:%+A%", "user:%+A%");
        check("us%3Aer", "us:er:");
    }
}
