//! TLS in both directions.

use etcd::{Certificates, EtcdStore, Options};
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
