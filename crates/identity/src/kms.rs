//! A key management service behind a socket of this machine (KMS v2 over gRPC): its health, and the seeds that it
//! encrypts and decrypts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use encryption::{Envelope, Kms, Random, Seed};
use http::Uri;
use http::uri::PathAndQuery;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic_prost::ProstCodec;

/// The only notice of a rotation is the key in the service's status: kube-apiserver's intervals.
pub(crate) const CHECK: Duration = Duration::from_secs(60);
pub(crate) const RECHECK: Duration = Duration::from_secs(10);
/// New values are encrypted under a key that the service has confirmed within this time.
const VALID: Duration = Duration::from_secs(180);
/// Decrypted seeds. Each rotation and each start of a server makes one.
const MAX_SEEDS: usize = 1000;
/// Values of a seed that could not be decrypted fail without another call for this long: thousands of them are read at
/// once when a server starts, one after another.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// The same for all seeds after a call without an answer, which took as long as the configured time-out. The next check of
/// the service that succeeds ends it.
const AFTER_SILENCE: Duration = RECHECK;
/// Messages of the protocol have a few KiB.
const MAX_MESSAGE: usize = 1 << 20;

mod wire {
    use super::BTreeMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct StatusRequest {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct StatusResponse {
        #[prost(string, tag = "1")]
        pub version: String,
        #[prost(string, tag = "2")]
        pub healthz: String,
        #[prost(string, tag = "3")]
        pub key_id: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DecryptRequest {
        #[prost(bytes = "vec", tag = "1")]
        pub ciphertext: Vec<u8>,
        #[prost(string, tag = "2")]
        pub uid: String,
        #[prost(string, tag = "3")]
        pub key_id: String,
        #[prost(btree_map = "string, bytes", tag = "4")]
        pub annotations: BTreeMap<String, Vec<u8>>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DecryptResponse {
        #[prost(bytes = "vec", tag = "1")]
        pub plaintext: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct EncryptRequest {
        #[prost(bytes = "vec", tag = "1")]
        pub plaintext: Vec<u8>,
        #[prost(string, tag = "2")]
        pub uid: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct EncryptResponse {
        #[prost(bytes = "vec", tag = "1")]
        pub ciphertext: Vec<u8>,
        #[prost(string, tag = "2")]
        pub key_id: String,
        #[prost(btree_map = "string, bytes", tag = "3")]
        pub annotations: BTreeMap<String, Vec<u8>>,
    }
}

const STATUS: &str = "/v2.KeyManagementService/Status";
const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

/// The randomness of the operating system: keys and nonces must be unpredictable even in tests on virtual time.
pub(crate) struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), encryption::NoRandomness> {
        aws_lc_rs::rand::fill(buffer).map_err(|_| encryption::NoRandomness)
    }
}

struct Current {
    seed: Seed,
    envelope: Envelope,
    confirmed: Instant,
}

/// A service and its seeds.
pub(crate) struct Service {
    pub kms: Arc<Kms>,
    connection: Mutex<Option<SendRequest<Body>>>,
    current: RwLock<Option<Current>>,
    known: RwLock<HashMap<[u8; 32], Seed>>,
    /// One decryption at a time: values of one seed wait for one call.
    decrypting: Mutex<Failures>,
}

/// Decryptions that failed lately, with the reason and the time until which they are not tried again.
#[derive(Default)]
struct Failures {
    of_seeds: HashMap<[u8; 32], (Instant, String)>,
    of_all: Option<(Instant, String)>,
}

impl Failures {
    fn of(&self, seed: &[u8; 32]) -> Option<&str> {
        let known = [self.of_all.as_ref(), self.of_seeds.get(seed)];
        let lately = known.into_iter().flatten().find(|(until, _)| *until > Instant::now());
        lately.map(|(_, why)| why.as_str())
    }

    fn add(&mut self, seed: [u8; 32], failure: &Failure) {
        let now = Instant::now();
        match failure {
            Failure::Silence(why) => self.of_all = Some((now + AFTER_SILENCE, why.clone())),
            Failure::Error(why) => {
                if self.of_seeds.len() >= MAX_SEEDS {
                    self.of_seeds.clear();
                }
                self.of_seeds.insert(seed, (now + AFTER_ERROR, why.clone()));
            }
        }
    }
}

/// Why a call has no answer.
enum Failure {
    /// None arrived in time.
    Silence(String),
    Error(String),
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Silence(why) | Failure::Error(why) => why,
        }
    }
}

fn digest(envelope: &Envelope) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [envelope.key_id.as_bytes(), &envelope.seed] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    for (name, value) in &envelope.annotations {
        for part in [name.as_bytes(), value] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}

impl Service {
    pub fn new(kms: Arc<Kms>) -> Self {
        Self {
            kms,
            connection: Mutex::default(),
            current: RwLock::default(),
            known: RwLock::default(),
            decrypting: Mutex::default(),
        }
    }

    /// The seed of new values, while the service has confirmed its key lately.
    pub fn current(&self) -> Option<(Seed, Envelope)> {
        let current = self.current.read();
        let current = current.as_ref().filter(|current| current.confirmed.elapsed() < VALID)?;
        Some((current.seed.clone(), current.envelope.clone()))
    }

    pub fn is_current(&self, key_id: &str) -> bool {
        self.current.read().as_ref().is_some_and(|current| current.envelope.key_id == key_id)
    }

    pub fn known(&self, envelope: &Envelope) -> Option<Seed> {
        self.known.read().get(&digest(envelope)).cloned()
    }

    /// Reads the service's status, and makes a seed if its key is another one. Values whose decryption failed can be tried again
    /// after it.
    pub async fn check(&self) -> Result<(), String> {
        self.confirm().await?;
        *self.decrypting.lock().await = Failures::default();
        Ok(())
    }

    async fn confirm(&self) -> Result<(), String> {
        let status: wire::StatusResponse = self.call(STATUS, wire::StatusRequest {}).await?;
        if !matches!(status.version.as_str(), "v2" | "v2beta1") {
            return Err(format!("it speaks version {:?}, not v2", status.version));
        }
        if status.healthz != "ok" {
            return Err(format!("it reports {:?}, not ok", status.healthz));
        }
        let confirmed = Instant::now();
        {
            let mut current = self.current.write();
            if let Some(current) = current.as_mut().filter(|current| current.envelope.key_id == status.key_id) {
                current.confirmed = confirmed;
                return Ok(());
            }
        }
        let seed = Seed::generate(&SystemRandom).map_err(|error| error.to_string())?;
        let request = wire::EncryptRequest { plaintext: seed.expose().to_vec(), uid: uid()? };
        let encrypted: wire::EncryptResponse = self.call(ENCRYPT, request).await?;
        let envelope = Envelope::of_seed(encrypted.key_id, encrypted.ciphertext, encrypted.annotations);
        envelope.check().map_err(|error| format!("the encrypted data encryption key is not valid: {error}"))?;
        if envelope.key_id != status.key_id {
            let (used, reported) = (&envelope.key_id, &status.key_id);
            return Err(format!(
                "it encrypted with key {used:?} and reports key {reported:?}: a rotation is under way"
            ));
        }
        // Verifies that the service can decrypt its own result; otherwise every value would be lost.
        let request = decryption(&envelope)?;
        let decrypted: wire::DecryptResponse = self.call(DECRYPT, request).await?;
        if decrypted.plaintext != seed.expose() {
            return Err("it does not decrypt what it has encrypted".to_owned());
        }
        self.remember(&envelope, seed.clone());
        let (kms, key_id) = (&self.kms.name, &envelope.key_id);
        tracing::info!(kms, key_id, "New values are encrypted under this key of the key management service");
        *self.current.write() = Some(Current { seed, envelope, confirmed });
        Ok(())
    }

    /// Has the service decrypt the seed of a stored value.
    pub async fn decrypt(&self, envelope: &Envelope) -> Result<Seed, String> {
        let mut failures = self.decrypting.lock().await;
        if let Some(seed) = self.known(envelope) {
            return Ok(seed);
        }
        let which = digest(envelope);
        if let Some(why) = failures.of(&which) {
            return Err(why.to_owned());
        }
        let answered = self.call(DECRYPT, decryption(envelope)?).await;
        let answer: wire::DecryptResponse = answered.map_err(|failure| {
            failures.add(which, &failure);
            String::from(failure)
        })?;
        let seed = Seed::from_service(answer.plaintext).ok_or("it returned a data encryption key of another length")?;
        self.remember(envelope, seed.clone());
        Ok(seed)
    }

    fn remember(&self, envelope: &Envelope, seed: Seed) {
        let mut known = self.known.write();
        if known.len() >= MAX_SEEDS {
            known.clear();
        }
        known.insert(digest(envelope), seed);
    }

    async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Failure>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        match timeout(self.kms.timeout, self.called(path, message)).await {
            Ok(answer) => answer.map_err(Failure::Error),
            Err(_) => {
                // The service may answer on another connection.
                if let Ok(mut connection) = self.connection.try_lock() {
                    *connection = None;
                }
                Err(Failure::Silence(format!("{path}: no answer within {} s", self.kms.timeout.as_secs_f64())))
            }
        }
    }

    async fn called<Q, A>(&self, path: &'static str, message: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let sender = self.connected().await?;
        let through = tower::service_fn(move |request: http::Request<Body>| {
            let mut sender = sender.clone();
            async move { sender.send_request(request).await }
        });
        let mut grpc = tonic::client::Grpc::with_origin(through, Uri::from_static("http://localhost"))
            .max_decoding_message_size(MAX_MESSAGE);
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(tonic::Request::new(message), PathAndQuery::from_static(path), codec).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| format!("{path}: {:?}: {}", status.code(), status.message()))
    }

    async fn connected(&self) -> Result<SendRequest<Body>, String> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let socket = &self.kms.socket;
        let failed = |why: &dyn std::fmt::Display| format!("connecting to {socket}: {why}");
        let stream = UnixStream::connect(socket).await.map_err(|error| failed(&error))?;
        let opened = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(|error| failed(&error))?;
        // The next call finds the connection closed and opens another one.
        tokio::spawn(async move { drop(driver.await) });
        *connection = Some(sender.clone());
        Ok(sender)
    }
}

fn decryption(envelope: &Envelope) -> Result<wire::DecryptRequest, String> {
    Ok(wire::DecryptRequest {
        ciphertext: envelope.seed.clone(),
        uid: uid()?,
        key_id: envelope.key_id.clone(),
        annotations: envelope.annotations.clone(),
    })
}

/// Names a call in the logs of both sides.
fn uid() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom.fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
