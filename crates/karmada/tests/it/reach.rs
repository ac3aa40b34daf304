//! Names, addresses and certificates of an API server, for clients over TLS.

use std::path::Path;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::serve::Protocol;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use karmada::apiserver::{Options, Running, start};
use karmada::engine::Kind;
use karmada::reach::Listen;
use karmada::serving::OwnCertificate;
use pki::{Authority, KeyPairPem, ServerNames};
use serde_json::Value;
use tempfile::TempDir;
use world::World;

use crate::process::Karmada;

fn options(directory: &Path, change: impl FnOnce(&mut Listen)) -> Options {
    let mut listen = Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, "karmada-apiserver");
    change(&mut listen);
    Options {
        data_dir: directory.to_owned(),
        store: Kind::Embedded,
        listen,
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
    }
}

async fn serve(directory: &Path, change: impl FnOnce(&mut Listen)) -> Running {
    start(&options(directory, change), &World::system()).await.expect("a server")
}

fn kubeconfig(running: &Running) -> String {
    std::fs::read_to_string(&running.socket.kubeconfig).expect("a kubeconfig")
}

/// The cluster in a kubeconfig.
fn field(kubeconfig: &str, name: &str) -> Option<String> {
    let document = apimachinery::yaml::to_json_value(kubeconfig.as_bytes()).expect("YAML");
    document["clusters"][0]["cluster"][name].as_str().map(str::to_owned)
}

/// The result for a client with a kubeconfig that connects to a server and verifies its certificate by a name.
async fn verified(kubeconfig: &str, server: &str, name: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    let lines = kubeconfig.lines().filter(|line| !line.trim().starts_with("tls-server-name: "));
    let lines = lines.map(|line| match line.split_once("server: ") {
        Some((indent, _)) => format!("{indent}server: {server}\n{indent}tls-server-name: \"{name}\"\n"),
        None => format!("{line}\n"),
    });
    std::fs::write(&path, lines.collect::<String>()).expect("a file");
    let client = Client::from_kubeconfig(&path, None).await.map_err(|error| format!("{error:#}"))?;
    request(&client).await
}

async fn request(client: &Client) -> Result<(), String> {
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let answer = client.get(&namespaces, &ObjectKey::cluster("default")).await;
    let text = |error: &dyn std::error::Error| {
        std::iter::successors(Some(error), |error| error.source()).map(|it| format!("{it}: ")).collect::<String>()
    };
    answer.map(drop).map_err(|error| text(&error))
}

async fn own(client: &Client, group: &str, kind: &str, plural: &str) -> Value {
    let resource = ApiResource::namespaced(group, "v1", kind, plural);
    let key = ObjectKey::namespaced("default", "kubernetes");
    client.get(&resource, &key).await.expect(kind).to_value().expect("an object")
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_connect_by_the_names_given_and_by_no_others() {
    let directory = TempDir::new().expect("a directory");
    let names = |listen: &mut Listen| listen.names = vec!["api.example.org".into(), "203.0.113.10".into()];
    let first = serve(directory.path(), names).await;
    let (config, url) = (kubeconfig(&first), first.socket.url.clone());
    for name in ["api.example.org", "203.0.113.10", "localhost", "127.0.0.1", "kubernetes.default.svc"] {
        assert_eq!(verified(&config, &url, name).await, Ok(()), "{name}");
    }
    for name in ["other.example.org", "203.0.113.11", "example.org"] {
        let refused = verified(&config, &url, name).await.expect_err(name);
        assert!(refused.to_lowercase().contains("certificate"), "{name}: {refused}");
    }
    first.stop().await.expect("an end");

    let served = || std::fs::read_to_string(directory.path().join("pki/apiserver.pem")).expect("a certificate");
    let before = served();
    let again = serve(directory.path(), names).await;
    again.stop().await.expect("an end");
    assert_eq!(served(), before, "the same names keep the certificate");

    let changed = serve(directory.path(), |listen| listen.names = vec!["new.example.org".into()]).await;
    assert_ne!(served(), before);
    let url = changed.socket.url.clone();
    // The kubeconfig of the first start: its authority and its client certificate are still valid.
    assert_eq!(verified(&config, &url, "new.example.org").await, Ok(()));
    verified(&config, &url, "api.example.org").await.expect_err("a name that was taken away");
    let authority = |text: &str| field(text, "certificate-authority-data").expect("an authority");
    assert_eq!(authority(&kubeconfig(&changed)), authority(&config));
    changed.stop().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_advertised_address_is_in_the_kubeconfig_and_in_the_service() {
    let directory = TempDir::new().expect("a directory");
    for (advertise, external, url, address, port) in [
        ("203.0.113.10", "", "https://203.0.113.10:PORT", "203.0.113.10", None),
        ("203.0.113.11:443", "", "https://203.0.113.11:443", "203.0.113.11", Some(443)),
        ("203.0.113.11:443", "api.example.org:8443", "https://api.example.org:8443", "203.0.113.11", Some(443)),
        ("[2001:db8::1]:443", "", "https://[2001:db8::1]:443", "2001:db8::1", Some(443)),
    ] {
        let running = serve(directory.path(), |listen| {
            listen.advertise = Some(advertise.parse().expect("an address"));
            listen.external = (!external.is_empty()).then(|| external.parse().expect("a host"));
        })
        .await;
        let bound = running.socket.address.port();
        let url = url.replace("PORT", &bound.to_string());
        assert_eq!(field(&kubeconfig(&running), "server"), Some(url.clone()), "{advertise}");
        assert_eq!(running.socket.url, url);
        let client = running.opened.client("test");
        let endpoints = own(&client, "", "Endpoints", "endpoints").await;
        let port = port.unwrap_or(bound);
        assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], address, "{advertise}");
        assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], port);
        let slice = own(&client, "discovery.k8s.io", "EndpointSlice", "endpointslices").await;
        assert_eq!(
            (&slice["endpoints"][0]["addresses"][0], &slice["ports"][0]["port"]),
            (&address.into(), &port.into())
        );
        let service = own(&client, "", "Service", "services").await;
        assert_eq!(service["spec"]["ports"][0]["targetPort"], port);
        // The address is a name of the certificate, too.
        let host = if external.is_empty() { address } else { "api.example.org" };
        let local = format!("https://127.0.0.1:{bound}");
        assert_eq!(verified(&kubeconfig(&running), &local, host).await, Ok(()), "{host}");
        running.stop().await.expect("an end");
    }
}

/// A certificate of another authority, in files.
struct OtherCertificate {
    directory: TempDir,
    root: String,
}

impl OtherCertificate {
    fn new(dns: &[&str], with_root: bool) -> Self {
        let world = World::system();
        let (authority, root) = Authority::generate("their-ca", &world).expect("an authority");
        let dns = dns.iter().map(|name| (*name).to_owned()).collect();
        let names = ServerNames { common_name: "theirs".into(), dns, addresses: Vec::new() };
        let pair = authority.issue_server(&names, &world).expect("a certificate");
        let directory = TempDir::new().expect("a directory");
        let chain = if with_root { root.certificate.clone() } else { String::new() };
        write(directory.path(), &KeyPairPem { certificate: format!("{}{chain}", pair.certificate), key: pair.key });
        Self { directory, root: root.certificate }
    }

    fn read(&self) -> Option<OwnCertificate> {
        let file = |name| self.directory.path().join(name);
        let (certificate, key) = (file("tls.crt"), file("tls.key"));
        let read = OwnCertificate::from_files(Some(&certificate), Some(&key), &Protocol::default(), &World::system());
        read.expect("a usable certificate")
    }
}

fn fingerprint(pem: &str) -> String {
    pki::Holder::from_pem(pem).expect("a certificate").fingerprint
}

fn authorities(bundle: &str) -> Vec<String> {
    bundle.split_inclusive("-----END CERTIFICATE-----").filter(|pem| pem.contains("BEGIN")).map(fingerprint).collect()
}

fn write(directory: &Path, pair: &KeyPairPem) {
    std::fs::write(directory.join("tls.crt"), &pair.certificate).expect("a file");
    std::fs::write(directory.join("tls.key"), &pair.key).expect("a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kubeconfig_fits_a_certificate_of_another_authority() {
    for (with_root, external, expected_name) in [
        (true, None, Some("api.example.org")),
        (false, None, Some("api.example.org")),
        (true, Some("api.example.org"), None),
    ] {
        let other = OtherCertificate::new(&["api.example.org"], with_root);
        let directory = TempDir::new().expect("a directory");
        let running = serve(directory.path(), |listen| {
            listen.certificate = other.read();
            listen.external = external.map(|name| name.parse().expect("a host"));
        })
        .await;
        let config = kubeconfig(&running);
        assert_eq!(field(&config, "tls-server-name").as_deref(), expected_name);
        let bundle = STANDARD.decode(field(&config, "certificate-authority-data").expect("a bundle")).expect("base64");
        let bundle = String::from_utf8(bundle).expect("PEM");
        assert!(bundle.contains(running.opened.data.pki.authority.certificate()), "{bundle}");
        assert_eq!(authorities(&bundle).contains(&fingerprint(&other.root)), with_root);
        if external.is_none() {
            // As written, from this machine.
            let client = Client::from_kubeconfig(&running.socket.kubeconfig, None).await.expect("a kubeconfig");
            assert_eq!(request(&client).await, Ok(()), "{with_root}");
        }
        let local = format!("https://127.0.0.1:{}", running.socket.address.port());
        assert_eq!(verified(&config, &local, "api.example.org").await, Ok(()));
        verified(&config, &local, "localhost").await.expect_err("a name of ours alone");
        running.stop().await.expect("an end");
    }
}

/// As a remote machine would: over the machine's own address, by a name that is not in DNS.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn kubectl_reaches_a_server_on_all_addresses_by_the_names_given() {
    let directory = TempDir::new().expect("a directory");
    let machine = karmada::sockets::Machine::read(std::net::Ipv4Addr::UNSPECIFIED.into());
    let address = machine.addresses.first().map_or_else(|| "127.0.0.1".to_owned(), ToString::to_string);
    let up = |names: &str| Karmada::up_with(directory.path(), &["--bind-address=0.0.0.0", "--tls-san", names]);
    let plane = up("api.example.org,api.internal");
    let url = |plane: &Karmada| {
        let local =
            field(&std::fs::read_to_string(plane.kubeconfig()).expect("a kubeconfig"), "server").expect("a URL");
        assert!(local.starts_with("https://127.0.0.1:"), "{local}");
        local.replace("127.0.0.1", &address)
    };
    let server = url(&plane);
    let host_name = machine.host_name.as_deref().unwrap_or("localhost");
    for name in ["api.example.org", "api.internal", &address, host_name] {
        let got = plane.ok(&["get", "namespace", "default", "-o", "name", "-s", &server, "--tls-server-name", name]);
        assert_eq!(got, "namespace/default\n", "{name}");
    }
    let by = |plane: &Karmada, server: &str, name: &str| {
        plane.refused(&["get", "namespace", "default", "-s", server, "--tls-server-name", name])
    };
    assert!(by(&plane, &server, "other.example.org").contains("certificate"));
    let before = std::fs::read(plane.kubeconfig()).expect("a kubeconfig");
    assert!(plane.terminate());

    let plane = up("new.example.org");
    let server = url(&plane);
    // The client still has the kubeconfig of the first start.
    std::fs::write(plane.kubeconfig(), before).expect("a file");
    plane.ok(&["get", "namespace", "default", "-s", &server, "--tls-server-name", "new.example.org"]);
    assert!(by(&plane, &server, "api.example.org").contains("certificate"));
    assert!(plane.terminate());
}
