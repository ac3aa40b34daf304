//! TLS in both directions.

use std::sync::Arc;

use etcd::{Certificates, EtcdStore, Options, Renewal};
use storage::{Error, Store};

use super::Etcd;
use super::authority::{Authority, flags};

/// The authority of both sides is replaced beneath a store. Its certificates are read again when it connects again.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn renewed_certificates_are_used_by_the_next_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |authority: &Authority| {
        authority.write(dir.path());
        let client = authority.issue("client");
        for (name, text) in [("client.crt", client.0), ("client.key", client.1)] {
            std::fs::write(path(name), text).unwrap();
        }
    };
    write(&Authority::new());
    let flags = flags(dir.path());
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
    std::fs::write(path("client.key"), Authority::new().issue("client").1).unwrap();
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
    authority.write(dir.path());
    let etcd = Etcd::start(&flags(dir.path()).each_ref().map(String::as_str));
    let client = |(certificate, key): (String, String)| Some((certificate.into_bytes(), key.into_bytes()));
    let rows = [
        ("both", Some(&authority), client(authority.issue("client")), true),
        ("no client certificate", Some(&authority), None, false),
        ("a client certificate of another authority", Some(&authority), client(other.issue("client")), false),
        ("a server of another authority", Some(&other), client(authority.issue("client")), false),
        ("no authority", None, client(authority.issue("client")), false),
    ];
    for (case, trusted, client, works) in rows {
        let options = Options {
            certificates: Certificates { authority: trusted.map(|it| it.pem().into_bytes()), client },
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
