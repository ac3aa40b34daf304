//! A control plane that runs for ten years: certificates and authorities are renewed while clients are connected.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::serve::Protocol;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use karmada::apiserver::{Options, Running, start};
use karmada::engine::Kind;
use karmada::reach::Listen;
use karmada::serving::OwnCertificate;
use pki::rotation::{Kind as Authority, Step};
use pki::{KeyPairPem, ServerNames};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use world::World;

const DAY: u64 = 24 * 3600;
const YEAR: u64 = 365 * DAY;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The virtual clock, by which clients verify certificates.
#[derive(Debug)]
struct Clock(World);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// The parts of a kubeconfig, in PEM.
#[derive(Clone)]
struct Config {
    bundle: String,
    certificate: String,
    key: String,
}

impl Config {
    fn read(running: &Running) -> Self {
        let text = std::fs::read(&running.socket.kubeconfig).expect("a kubeconfig");
        let document = apimachinery::yaml::to_json_value(&text).expect("YAML");
        let data = |path: &str| {
            let encoded = document.pointer(path).and_then(Value::as_str).expect(path);
            String::from_utf8(STANDARD.decode(encoded).expect("base64")).expect("PEM")
        };
        Self {
            bundle: data("/clusters/0/cluster/certificate-authority-data"),
            certificate: data("/users/0/user/client-certificate-data"),
            key: data("/users/0/user/client-key-data"),
        }
    }
}

struct Plane {
    world: World,
    running: Running,
}

impl Plane {
    async fn start(directory: &Path, certificate: Option<OwnCertificate>) -> Self {
        let world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7);
        let listen = Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, "karmada-apiserver");
        let options = Options {
            data_dir: directory.to_owned(),
            store: Kind::Memory,
            listen: Listen { certificate, ..listen },
            token_auth_file: None,
            admission_config: None,
            identity: Default::default(),
            service_accounts: Default::default(),
            audit: Default::default(),
            overload: Default::default(),
            aggregation: Default::default(),
            services: Default::default(),
            plugins: Default::default(),
            admission: Default::default(),
            resource_models: true,
            events: Default::default(),
            backups: None,
            operation: Default::default(),
        };
        let running = start(&options, &world).await.expect("a server");
        Self { world, running }
    }

    /// A new connection: the server's certificate is verified with the bundle, at the virtual time.
    async fn handshake(&self, config: &Config) -> Result<TlsStream<TcpStream>, String> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(config.bundle.as_bytes()) {
            roots.add(certificate.expect("PEM")).expect("a certificate");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clock = Arc::new(Clock(self.world.clone()));
        let tls = rustls::ClientConfig::builder_with_details(provider, clock).with_safe_default_protocol_versions();
        let chain = CertificateDer::pem_slice_iter(config.certificate.as_bytes()).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(config.key.as_bytes()).expect("a key");
        let tls = tls.expect("versions").with_root_certificates(roots);
        let tls = tls.with_client_auth_cert(chain.expect("PEM"), key).expect("a client certificate");
        let stream = TcpStream::connect(self.running.socket.address).await.expect("connected");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
        stream.map_err(|error| error.to_string())
    }

    async fn connect(&self, config: &Config) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = self.handshake(config).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// The response code on a new connection.
    async fn reads(&self, config: &Config) -> Result<u16, String> {
        let request = http::Request::get("/api/v1/namespaces/default").header("host", "localhost");
        let request = request.body(Full::default()).expect("a request");
        let answer = self.connect(config).await?.send_request(request).await;
        Ok(answer.map_err(|error| error.to_string())?.status().as_u16())
    }

    async fn get(&self, config: &Config, path: &str) -> Value {
        let request = http::Request::get(path).header("host", "localhost").body(Full::default()).expect("a request");
        let mut connection = self.connect(config).await.expect("connected");
        let answer = connection.send_request(request).await.expect("answered");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn create(&self, config: &Config, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let request = http::Request::post(CONFIG_MAPS).header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::from(object.to_string())).expect("a request");
        let mut connection = self.connect(config).await.expect("connected");
        assert_eq!(connection.send_request(request).await.expect("answered").status(), 201, "{name}");
    }

    async fn advance_clock(&self, time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    }

    /// Advances the time, and checks the certificates.
    async fn advance(&self, time: Duration) {
        let checks = || {
            let counters = self.running.opened.server.shared().metrics.counters(&karmada::certificates::CHECKS);
            counters.value(&["success"])
        };
        let before = checks();
        self.advance_clock(time).await;
        until("a check", async || checks() > before).await;
    }
}

/// Lets other tasks run until the condition holds. The limit is real time, because conditions may advance the clock.
#[expect(clippy::disallowed_methods, reason = "the limit is real time")]
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} is missing after a minute");
        tokio::task::yield_now().await;
    }
}

/// A watch of the ConfigMaps, over separate connections.
struct Watch {
    open: Option<(SendRequest<Full<Bytes>>, Incoming, Vec<u8>)>,
    revision: String,
    /// The number of its connections.
    connections: usize,
}

impl Watch {
    fn new() -> Self {
        Self { open: None, revision: "0".into(), connections: 0 }
    }

    async fn reopen(&mut self, plane: &Plane, config: &Config) {
        let mut connection = plane.connect(config).await.expect("connected");
        let url = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds={YEAR}&resourceVersion={}", self.revision);
        let request = http::Request::get(url).header("host", "localhost").body(Full::default()).expect("a request");
        let answer = connection.send_request(request).await.expect("answered");
        assert_eq!(answer.status(), 200);
        self.open = Some((connection, answer.into_body(), Vec::new()));
        self.connections += 1;
    }

    /// The name in the next event. A watch that the server has ended, as it does after the requested year, is continued
    /// after the last event with the current kubeconfig.
    async fn next(&mut self, plane: &Plane) -> String {
        loop {
            let Some((_, body, read)) = &mut self.open else {
                self.reopen(plane, &Config::read(&plane.running)).await;
                continue;
            };
            if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = read.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).expect("an event");
                assert_eq!(event["type"], "ADDED", "{event}");
                self.revision = event["object"]["metadata"]["resourceVersion"].as_str().expect("a revision").into();
                return event["object"]["metadata"]["name"].as_str().expect("a name").into();
            }
            match body.frame().await {
                Some(frame) => read.extend_from_slice(&frame.expect("no interruption").into_data().unwrap_or_default()),
                None => {
                    assert!(read.is_empty(), "the last event is whole");
                    self.open = None;
                }
            }
        }
    }
}

#[tokio::test]
async fn ten_years_pass_without_an_interruption() {
    let directory = TempDir::new().expect("a directory");
    let plane = Plane::start(directory.path(), None).await;
    let first = Config::read(&plane.running);
    let mut watch = Watch::new();
    watch.reopen(&plane, &first).await;
    let (mut certificates, mut bundles) = (vec![first.certificate.clone()], vec![first.bundle.clone()]);
    // Certificates of the first day expire before the steps end.
    plane.advance(Duration::from_secs(DAY)).await;
    for month in 1..=125_u64 {
        plane.advance(Duration::from_secs(YEAR / 12)).await;
        let config = Config::read(&plane.running);
        plane.create(&config, &format!("month-{month}")).await;
        assert_eq!(watch.next(&plane).await, format!("month-{month}"));
        // A copy of the first kubeconfig: its certificate is valid for a year.
        let copied = plane.reads(&first).await;
        // A client that renews its certificate, and trusts the first authority only.
        let only_first = plane.reads(&Config { bundle: first.bundle.clone(), ..config.clone() }).await;
        match month {
            0..12 => assert_eq!((copied, only_first), (Ok(200), Ok(200)), "month {month}"),
            12..120 => assert_eq!((copied, only_first), (Ok(401), Ok(200)), "month {month}"),
            _ => assert!(copied.is_err() && only_first.is_err(), "month {month}: its only authority has expired"),
        }
        if certificates.last() != Some(&config.certificate) {
            certificates.push(config.certificate);
        }
        if bundles.last() != Some(&config.bundle) {
            bundles.push(config.bundle);
        }
    }
    assert!(certificates.len() >= 10, "the kubeconfig was rewritten {} times", certificates.len());
    let authorities: Vec<_> = bundles.iter().map(|it| it.matches("BEGIN").count()).collect();
    assert_eq!(authorities, [1, 2, 1], "first, both, the second");
    assert!(watch.connections <= 12, "each watch lasts for the year it requested: {}", watch.connections);
    let metrics = plane.running.opened.server.shared().metrics.text();
    let is_counted = |name: &str| {
        metrics.contains(&format!("karmada_certificate_expiration_timestamp_seconds{{certificate=\"{name}\"}}"))
    };
    assert_eq!(["ca", "ca-2", "admin"].map(is_counted), [false, true, true], "what has expired is gone");
    let client = plane.running.opened.client("test");
    let resource = apimachinery::ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let key = apimachinery::ObjectKey::namespaced("kube-system", "extension-apiserver-authentication");
    let published = client.get(&resource, &key).await.expect("published").to_value().expect("an object");
    assert_eq!(published["data"]["client-ca-file"], bundles[2]);
    let key = apimachinery::ObjectKey::namespaced("kube-public", "cluster-info");
    let info = client.get(&resource, &key).await.expect("published").to_value().expect("an object");
    let info = info["data"]["kubeconfig"].as_str().expect("a kubeconfig");
    assert!(info.contains(&STANDARD.encode(&bundles[2])), "{info}");
    plane.running.stop().await.expect("an end");
}

#[tokio::test]
async fn certificates_survive_steps_of_a_year() {
    let directory = TempDir::new().expect("a directory");
    let plane = Plane::start(directory.path(), None).await;
    let mut watch = Watch::new();
    watch.reopen(&plane, &Config::read(&plane.running)).await;
    for year in 1..=12_u64 {
        // The watch and the certificates end at the same time.
        plane.advance(Duration::from_secs(YEAR)).await;
        until("renewed", async || plane.reads(&Config::read(&plane.running)).await == Ok(200)).await;
        plane.create(&Config::read(&plane.running), &format!("year-{year}")).await;
        assert_eq!(watch.next(&plane).await, format!("year-{year}"));
    }
    plane.running.stop().await.expect("an end");
}

/// Certificates that are not valid by a clock that was set are replaced at once: not at the next scheduled check.
#[tokio::test]
async fn certificates_follow_a_clock_that_is_set() {
    let directory = TempDir::new().expect("a directory");
    let plane = Plane::start(directory.path(), None).await;
    for days in [400, -400, 30, -30] {
        plane.world.step(days * 24 * 3600);
        until("renewed", async || {
            plane.advance_clock(Duration::from_secs(5)).await;
            plane.reads(&Config::read(&plane.running)).await == Ok(200)
        })
        .await;
    }
    plane.running.stop().await.expect("an end");
}

/// `karmada certs renew` and an operator's tool change files beside a server: it is not restarted, and no time passes
/// except for the reload delay.
#[tokio::test]
async fn changed_files_are_reloaded() {
    let directory = TempDir::new().expect("a directory");
    let world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 8);
    let (other_authority, _) = pki::Authority::generate("their-ca", &world).expect("an authority");
    let names = ServerNames::api_server("theirs", &[]);
    let issue = || other_authority.issue_server(&names, &world).expect("a certificate");
    let files = TempDir::new().expect("a directory");
    let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
    let write = |pair: &KeyPairPem| {
        std::fs::write(&certificate, format!("{}{}", pair.certificate, other_authority.certificate())).expect("a file");
        std::fs::write(&key, &pair.key).expect("a file");
    };
    let shown = async |plane: &Plane| {
        let mut connection = plane.handshake(&Config::read(&plane.running)).await.expect("connected");
        let shown = connection.get_mut().1.peer_certificates().expect("a certificate")[0].to_vec();
        pki::holder::der_to_pem("CERTIFICATE", &shown)
    };
    let first = issue();
    write(&first);
    let own = OwnCertificate::from_files(Some(&certificate), Some(&key), &Protocol::default(), &world);
    let plane = Plane::start(directory.path(), own.expect("usable")).await;
    let settled = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::time::resume();
    };
    assert_eq!(shown(&plane).await, first.certificate);
    let second = issue();
    write(&second);
    until("the second certificate", async || {
        settled().await;
        shown(&plane).await == second.certificate
    })
    .await;

    // The key does not match the certificate: the last valid pair stays in effect, and the server keeps working.
    std::fs::write(&key, &first.key).expect("a file");
    let before = Config::read(&plane.running);
    let steps = [Step::Admin, Step::Authority(Authority::Clients), Step::TokenKey];
    pki::directory::renew(&directory.path().join("pki"), &steps, &plane.world).expect("renewed");
    until("the new kubeconfig", async || {
        settled().await;
        Config::read(&plane.running).certificate != before.certificate
    })
    .await;
    let after = Config::read(&plane.running);
    assert_eq!((before.bundle.matches("BEGIN").count(), after.bundle.matches("BEGIN").count()), (2, 3));
    assert_eq!(shown(&plane).await, second.certificate);
    assert_eq!((plane.reads(&before).await, plane.reads(&after).await), (Ok(200), Ok(200)));
    let keys = plane.get(&after, "/openid/v1/jwks").await;
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2), "{keys}");
    write(&issue());
    until("the third certificate", async || {
        settled().await;
        shown(&plane).await != second.certificate
    })
    .await;
    plane.running.stop().await.expect("an end");
}
