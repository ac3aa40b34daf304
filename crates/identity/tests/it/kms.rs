//! A key management service on a socket: seeds, rotation, failures.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use identity::{EncryptedStore, Encryption};
use parking_lot::Mutex;
use storage::memory::MemoryStore;
use storage::{KeyRange, RangeRequest, Store};
use tokio::net::UnixListener;
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

use crate::encrypted::{configuration, put, raw};

#[derive(Clone, PartialEq, prost::Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

/// Requests and responses of Encrypt and Decrypt have bytes in field 1; of the rest, each has a part.
#[derive(Clone, PartialEq, prost::Message)]
struct Sealed {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

/// The service: encryption reverses the bytes behind the key's name.
struct Vault {
    key: Mutex<String>,
    is_down: AtomicBool,
    /// Calls of this name get no answer.
    silent: Mutex<Option<&'static str>>,
    /// The key in the status, if it differs.
    reported: Mutex<Option<String>>,
    calls: Mutex<Vec<&'static str>>,
}

impl Vault {
    fn start(socket: &Path) -> Arc<Self> {
        let vault = Arc::new(Self {
            key: Mutex::new("key1".into()),
            is_down: AtomicBool::new(false),
            silent: Mutex::default(),
            reported: Mutex::default(),
            calls: Mutex::default(),
        });
        let (listener, serving) = (UnixListener::bind(socket).expect("bound"), Arc::clone(&vault));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let vault = Arc::clone(&serving);
                let service = hyper::service::service_fn(move |request| {
                    let vault = Arc::clone(&vault);
                    async move { Ok::<_, std::convert::Infallible>(vault.answer(request).await) }
                });
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        vault
    }

    async fn answer(
        self: Arc<Self>,
        request: http::Request<hyper::body::Incoming>,
    ) -> http::Response<tonic::body::Body> {
        let path = request.uri().path().to_owned();
        match path.rsplit('/').next().unwrap_or_default() {
            "Status" => self.unary(request, "Status", Self::status).await,
            "Encrypt" => self.unary(request, "Encrypt", Self::encrypt).await,
            _ => self.unary(request, "Decrypt", Self::decrypt).await,
        }
    }

    async fn unary<Q, A>(
        self: Arc<Self>,
        request: http::Request<hyper::body::Incoming>,
        name: &'static str,
        work: fn(&Self, Q) -> Result<A, Status>,
    ) -> http::Response<tonic::body::Body>
    where
        Q: prost::Message + Default + Send + 'static,
        A: prost::Message + Send + 'static,
    {
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let vault = Arc::clone(&self);
            async move {
                vault.calls.lock().push(name);
                if *vault.silent.lock() == Some(name) {
                    std::future::pending::<()>().await;
                }
                if vault.is_down.load(Ordering::Relaxed) {
                    return Err(Status::unavailable("sealed"));
                }
                work(&vault, request.into_inner()).map(Response::new)
            }
        });
        tonic::server::Grpc::new(ProstCodec::<A, Q>::default()).unary(service, request).await
    }

    fn status(&self, _: Sealed) -> Result<StatusResponse, Status> {
        Ok(StatusResponse {
            version: "v2".into(),
            healthz: "ok".into(),
            key_id: self.reported.lock().clone().unwrap_or_else(|| self.key.lock().clone()),
        })
    }

    fn encrypt(&self, request: Sealed) -> Result<Sealed, Status> {
        let key = self.key.lock().clone();
        let mut bytes = key.clone().into_bytes();
        bytes.extend(request.bytes.iter().rev());
        let annotations = BTreeMap::from([("version.vault.example".to_owned(), b"7".to_vec())]);
        Ok(Sealed { bytes, text: key, annotations })
    }

    fn decrypt(&self, request: DecryptRequest) -> Result<Sealed, Status> {
        if request.annotations.get("version.vault.example").is_none_or(|version| version != b"7") {
            return Err(Status::invalid_argument("the annotation is lost"));
        }
        let bytes = request.ciphertext.strip_prefix(request.key_id.as_bytes());
        let bytes = bytes.ok_or(Status::invalid_argument("of another key"))?.iter().rev().copied().collect();
        Ok(Sealed { bytes, ..Sealed::default() })
    }

    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock())
    }
}

const A: &str = "/registry/core/secrets/ns/a";
const B: &str = "/registry/core/secrets/ns/b";

fn providers(socket: &Path) -> String {
    format!("{{kms: {{apiVersion: v2, name: vault, timeout: 1s, endpoint: 'unix://{}'}}}}", socket.display())
}

async fn open(below: &Arc<MemoryStore>, socket: &Path) -> Result<(EncryptedStore, Arc<Encryption>), String> {
    let encryption = Arc::new(Encryption::start(configuration(&providers(socket))).await?);
    Ok((EncryptedStore::new(Arc::clone(below) as _, Arc::clone(&encryption)), encryption))
}

#[tokio::test]
async fn seeds_are_encrypted_by_the_service_and_rotate() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("kms.sock");
    let below = Arc::new(MemoryStore::new());
    let error = open(&below, &socket).await.err().expect("no service");
    assert!(error.starts_with("key management service \"vault\": connecting to "), "{error}");
    let vault = Vault::start(&socket);
    let (store, encryption) = open(&below, &socket).await.expect("a store");
    assert_eq!(vault.take_calls(), ["Status", "Encrypt", "Decrypt"]);
    for number in 0..20 {
        store.txn(put(A, &format!("{{\"n\":{number}}}"))).await.expect("stored");
        assert!(store.get(A.into(), None).await.expect("read").is_some());
    }
    assert!(raw(&below, A).await.starts_with("k8s:enc:kms:v2:vault:"));
    assert!(vault.take_calls().is_empty(), "reads and writes call no service");
    // Another start decrypts the seed once.
    let (again, _) = open(&below, &socket).await.expect("a store");
    store.txn(put(B, "{}")).await.expect("stored");
    vault.take_calls();
    for key in [A, B, A] {
        assert!(again.get(key.into(), None).await.expect("read").is_some());
    }
    assert_eq!(vault.take_calls(), ["Decrypt"]);
    // A rotation: the status names another key.
    assert!(!store.is_stale(A.into()).await);
    let states = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&states);
    let health: identity::encrypted::OnHealth = Arc::new(move |is_well| seen.lock().push(is_well));
    tokio::time::pause();
    encryption.watch_services(&health);
    *vault.key.lock() = "key2".into();
    wait_for(|| vault.calls.lock().len() >= 3).await;
    wait_for(|| states.lock().len() >= 2).await;
    assert!(store.is_stale(A.into()).await, "it is encrypted under the previous key");
    assert!(store.get(A.into(), None).await.expect("read").is_some());
    store.txn(put(A, "{}")).await.expect("stored");
    assert!(!store.is_stale(A.into()).await);
    // A service that fails: reads go on, and so do writes until its last word is too old.
    vault.is_down.store(true, Ordering::Relaxed);
    wait_for(|| states.lock().last() == Some(&false)).await;
    assert!(store.get(A.into(), None).await.expect("read").is_some());
    tokio::time::advance(Duration::from_secs(200)).await;
    let error = store.txn(put(A, "{}")).await.expect_err("no valid key").to_string();
    assert!(error.contains("key management service \"vault\" is not available"), "{error}");
    assert!(store.get(A.into(), None).await.expect("read").is_some());
    vault.is_down.store(false, Ordering::Relaxed);
    wait_for(|| states.lock().last() == Some(&true)).await;
    store.txn(put(A, "{}")).await.expect("stored");
}

/// A service that hangs while a server reads what is there: the values of its keys are unknown after one time-out, not
/// after one for each, and known once it answers.
#[tokio::test]
async fn a_service_that_hangs_delays_reads_by_one_time_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("kms.sock");
    let below = Arc::new(MemoryStore::new());
    let vault = Vault::start(&socket);
    for round in 0..3 {
        let (store, _) = open(&below, &socket).await.expect("a store");
        for number in 0..100 {
            store.txn(put(&format!("{A}{round}-{number}"), "{}")).await.expect("stored");
        }
    }
    for (failing, least, most) in [("silent", 1, 2), ("failing", 0, 1)] {
        let (store, encryption) = open(&below, &socket).await.expect("a store");
        match failing {
            "silent" => *vault.silent.lock() = Some("Decrypt"),
            _ => vault.is_down.store(true, Ordering::Relaxed),
        }
        vault.take_calls();
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        let all = || RangeRequest { range: KeyRange::prefix("/registry/core/secrets/"), revision: None, limit: 0 };
        let (found, damaged) = store.salvage(all()).await.expect("an answer");
        let took = begun.elapsed();
        assert_eq!((found.items.len(), damaged.len()), (0, 300), "{failing}");
        assert!(took >= Duration::from_secs(least) && took <= Duration::from_secs(most), "{failing}: {took:?}");
        assert!(vault.take_calls().len() <= 3, "{failing}: one call for a seed");
        // It is well again, which the check of its status notices.
        *vault.silent.lock() = None;
        vault.is_down.store(false, Ordering::Relaxed);
        let states = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&states);
        let health: identity::encrypted::OnHealth = Arc::new(move |is_well| seen.lock().push(is_well));
        encryption.watch_services(&health);
        wait_for(|| states.lock().len() >= 2).await;
        let (found, damaged) = store.salvage(all()).await.expect("an answer");
        assert_eq!((found.items.len(), damaged.len()), (300, 0), "{failing}");
        tokio::time::resume();
    }
}

/// A service that rotates its key while a rotation is under way, reports keys it does not use, and hangs in between:
/// values are written under keys that it can decrypt, and none is lost.
#[tokio::test]
async fn a_rotation_that_is_interrupted_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("kms.sock");
    let below = Arc::new(MemoryStore::new());
    let vault = Vault::start(&socket);
    let (store, encryption) = open(&below, &socket).await.expect("a store");
    let states = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&states);
    let health: identity::encrypted::OnHealth = Arc::new(move |is_well| seen.lock().push(is_well));
    tokio::time::pause();
    encryption.watch_services(&health);
    let checks = |count: usize| {
        let states = Arc::clone(&states);
        async move {
            let wanted = states.lock().len() + count;
            wait_for(|| states.lock().len() >= wanted).await;
        }
    };
    for (n, (key, reported, silent)) in [
        ("key1", Some("key2"), None),
        ("key2", Some("key1"), None),
        ("key3", None, Some("Encrypt")),
        ("key3", None, Some("Decrypt")),
        ("key3", None, Some("Status")),
        ("key3", None, None),
        ("key1", None, None),
        ("key4", Some(""), None),
        ("key4", None, None),
    ]
    .into_iter()
    .enumerate()
    {
        *vault.key.lock() = key.to_owned();
        *vault.reported.lock() = reported.map(str::to_owned);
        *vault.silent.lock() = silent;
        checks(2).await;
        // Writes go on while the last confirmed key is recent, and are refused otherwise; reads go on.
        let written = store.txn(put(&format!("{A}{n}"), "{}")).await;
        assert!(written.is_ok() || silent.is_some() || reported.is_some(), "{key} {written:?}");
        for earlier in 0..n {
            let read = store.get(format!("{A}{earlier}").into(), None).await;
            assert!(read.is_ok(), "{key}: {earlier}: {read:?}");
        }
    }
    checks(2).await;
    // Another server reads all of it.
    tokio::time::resume();
    let (again, _) = open(&below, &socket).await.expect("a store");
    let all = RangeRequest { range: KeyRange::prefix("/registry/core/secrets/"), revision: None, limit: 0 };
    let (found, damaged) = again.salvage(all).await.expect("an answer");
    assert!(damaged.is_empty() && found.items.len() >= 4, "{} items, {damaged:?}", found.items.len());
}

/// Lets virtual time pass until it is so.
async fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not happen");
}
