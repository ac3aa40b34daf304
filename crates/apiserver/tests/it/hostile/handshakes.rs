//! Connections that stop before their first request: in the TLS handshake, after it, and in the preface of HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::serve::{self, Limits, TlsConfig};
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use transport::ApiService;
use world::World;

struct Served {
    address: SocketAddr,
    client: Arc<rustls::ClientConfig>,
    shutdown: CancellationToken,
}

impl Served {
    async fn start() -> Self {
        let world = World::system();
        let (authority, _) = pki::Authority::generate("test-ca", &world).expect("an authority");
        let names = pki::ServerNames::api_server("test", &[]);
        let pair = authority.issue_server(&names, &world).expect("a certificate");
        let mut roots = rustls::RootCertStore::empty();
        let authority = rustls::pki_types::CertificateDer::from_pem_slice(authority.certificate().as_bytes());
        roots.add(authority.expect("PEM")).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let shutdown = CancellationToken::new();
        let answer = async |_| Ok::<_, Infallible>(http::Response::new(transport::full("served")));
        let service = ApiService::new(tower::service_fn(move |request| Box::pin(answer(request))));
        let tls = TlsConfig::new(&pair.certificate, &pair.key).expect("TLS");
        tokio::spawn(serve::serve(listener, Some(tls), service, Limits::default(), shutdown.clone()));
        Self { address, client: Arc::new(client), shutdown }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connected")
    }

    async fn over_tls(&self) -> TlsStream<TcpStream> {
        let name = "localhost".try_into().expect("a name");
        let connector = TlsConnector::from(Arc::clone(&self.client));
        connector.connect(name, self.connect().await).await.expect("a handshake")
    }

    /// The bytes that begin a handshake.
    fn hello(&self) -> Vec<u8> {
        let name = "localhost".try_into().expect("a name");
        let mut connection = rustls::ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).expect("in memory");
        bytes
    }
}

type Opened = Box<dyn AsyncRead + Send + Unpin>;

/// Connections that have sent what they send; the server waits for more.
async fn stopped(server: &Served) -> Vec<(&'static str, Opened)> {
    let hello = server.hello();
    let mut all: Vec<(&'static str, Opened)> = Vec::new();
    for (what, bytes) in [("nothing", &[][..]), ("a byte", &hello[..1]), ("half a hello", &hello[..hello.len() / 2])] {
        let mut stream = server.connect().await;
        stream.write_all(bytes).await.expect("sent");
        all.push((what, Box::new(stream)));
    }
    let mut stream = server.connect().await;
    stream.write_all(&hello).await.expect("sent");
    stream.read_u8().await.expect("the server's part");
    all.push(("a hello", Box::new(stream)));
    for (what, text) in [
        ("no request", ""),
        ("half a head", "GET / HTTP/1.1\r\nHost:"),
        ("half a preface", "PRI * HTTP/2.0\r\n"),
        ("a letter", "P"),
    ] {
        let mut stream = server.over_tls().await;
        stream.write_all(text.as_bytes()).await.expect("sent");
        stream.flush().await.expect("sent");
        all.push((what, Box::new(stream)));
    }
    all
}

async fn served(server: &Served) {
    let mut stream = server.over_tls().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    assert!(text.ends_with("served"), "{text}");
}

#[tokio::test]
async fn connections_that_stop_before_a_request_are_closed_in_time_and_delay_no_other() {
    let server = Served::start().await;
    let stopped = stopped(&server).await;
    served(&server).await;
    // From here on the virtual time advances when all tasks are idle.
    tokio::time::pause();
    let (begun, limit) = (Instant::now(), Limits::default().head_timeout);
    for (what, mut stream) in stopped {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(2 * limit, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{what}: the connection is still open after {:?}", begun.elapsed());
        assert!(begun.elapsed() <= limit + Duration::from_secs(1), "{what}: {:?}", begun.elapsed());
    }
    tokio::time::resume();
    served(&server).await;
    server.shutdown.cancel();
}

#[tokio::test]
async fn half_closed_and_foreign_handshakes_are_refused_at_once() {
    let server = Served::start().await;
    let hello = server.hello();
    // A record of a handshake message of 16 MiB.
    let vast = [&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &vec![0; 0x4000 - 4]].concat();
    for (what, bytes) in [
        ("nothing", &[][..]),
        ("half a hello", &hello[..hello.len() / 2]),
        ("a hello", &hello),
        ("plain HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("a message of 16 MiB", &vast),
        ("an alert", &[0x15, 3, 3, 0, 2, 2, 40]),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(bytes).await.expect("sent");
        stream.shutdown().await.expect("half closed");
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{what}: the connection is still open");
        let text = String::from_utf8_lossy(&rest);
        assert!(!text.contains("served"), "{what}: {text}");
    }
    served(&server).await;
    server.shutdown.cancel();
}
