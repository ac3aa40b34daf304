//! TLS in both directions.

use std::sync::Arc;

use etcd::{Certificates, EtcdStore, Options, Renewal};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use storage::{Error, Store};

use super::Etcd;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for 127.0.0.1 and its key.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// The authority of both sides is replaced beneath a store. Its certificates are read again when it connects again.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn renewed_certificates_are_used_by_the_next_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |authority: &Authority| {
        let (server, client) = (authority.issue(), authority.issue());
        let files = [("ca.crt", authority.0.pem()), ("server.crt", server.0), ("server.key", server.1)];
        for (name, text) in files.into_iter().chain([("client.crt", client.0), ("client.key", client.1)]) {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
    };
    write(&Authority::new());
    let flags = [
        format!("--cert-file={}", path("server.crt").display()),
        format!("--key-file={}", path("server.key").display()),
        format!("--trusted-ca-file={}", path("ca.crt").display()),
        "--client-cert-auth".to_owned(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let mut etcd = Etcd::start(&flags);
    let files = ["ca.crt", "client.crt", "client.key"].map(path);
    let read = move || {
        let read = |file: &std::path::PathBuf| std::fs::read(file).map_err(|error| error.to_string());
        let client = Some((read(&files[1])?, read(&files[2])?));
        Ok(Certificates { authority: Some(read(&files[0])?), client })
    };
    let options = Options {
        certificates: read().unwrap(),
        renewal: Some(Renewal(Arc::new(read))),
        ..etcd.process.options(super::layout()).unwrap()
    };
    let store = EtcdStore::open(options).await.unwrap();
    assert_eq!(store.revision().await, Ok(1));

    let address = etcd.process.address().to_string();
    let restart = |etcd: &mut Etcd| {
        etcd.process.kill();
        etcd.process = etcd::process::Process::start_at(etcd.directory.path(), &address, &flags).unwrap();
    };
    // A key that does not fit, as while files are replaced: the former certificates go on.
    std::fs::write(path("client.key"), Authority::new().issue().1).unwrap();
    restart(&mut etcd);
    assert_eq!(store.revision().await, Ok(1));
    write(&Authority::new());
    restart(&mut etcd);
    assert_eq!(store.revision().await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn both_sides_are_verified() {
    let (authority, other) = (Authority::new(), Authority::new());
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.issue();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let flags = [
        format!("--cert-file={}", file("server.crt", &certificate)),
        format!("--key-file={}", file("server.key", &key)),
        format!("--trusted-ca-file={}", file("ca.crt", &authority.0.pem())),
        "--client-cert-auth".to_owned(),
    ];
    let etcd = Etcd::start(&flags.each_ref().map(String::as_str));
    let client = |(certificate, key): (String, String)| Some((certificate.into_bytes(), key.into_bytes()));
    let rows = [
        ("both", Some(&authority), client(authority.issue()), true),
        ("no client certificate", Some(&authority), None, false),
        ("a client certificate of another authority", Some(&authority), client(other.issue()), false),
        ("a server of another authority", Some(&other), client(authority.issue()), false),
        ("no authority", None, client(authority.issue()), false),
    ];
    for (case, trusted, client, works) in rows {
        let options = Options {
            certificates: Certificates { authority: trusted.map(|it| it.0.pem().into_bytes()), client },
            timeout: std::time::Duration::from_secs(if works { 10 } else { 1 }),
            ..etcd.process.options(super::layout()).unwrap()
        };
        match EtcdStore::open(options).await {
            Ok(store) => assert_eq!((works, store.revision().await), (true, Ok(1)), "{case}"),
            Err(Error::Unavailable(why)) => assert!(!works, "{case}: {why}"),
            Err(error) => panic!("{case}: {error}"),
        }
    }
}
