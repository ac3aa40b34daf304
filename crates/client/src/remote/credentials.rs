//! What a client presents with each request: a fixed header, the token of a file that is read again and again, or what
//! a program issues until it expires or is rejected.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio::time::Instant;
use transport::BoxError;
use world::World;

use super::exec::PluginError;
use super::tls;
use crate::config::{Plugin, Source};
use crate::{Error, Result};

/// Tokens rotate hours before they expire; client-go's period.
const FILE_PERIOD: Duration = Duration::from_secs(60);

/// The credentials of a connection; clones share them.
#[derive(Clone)]
pub(super) struct Credentials(Arc<Inner>);

enum Inner {
    Fixed(Option<HeaderValue>),
    File(TokenFile),
    Exec(Program),
}

impl Credentials {
    /// # Errors
    /// [`Error::Config`] when a token cannot be a header or its file cannot be read.
    pub(super) fn new(source: &Source) -> Result<Self> {
        let config = |error: BoxError| Error::Config(error.to_string());
        Ok(Self(Arc::new(match source {
            Source::None => Inner::Fixed(None),
            Source::Basic { user, password } => {
                let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
                Inner::Fixed(Some(header(value).map_err(config)?))
            }
            Source::Bearer(token) => Inner::Fixed(Some(bearer(token).map_err(config)?)),
            Source::File { path, token } => Inner::File(TokenFile::new(path.clone(), token.as_deref())?),
            Source::Exec(plugin) => Inner::Exec(Program::new((**plugin).clone(), World::system())),
        })))
    }

    /// The header of a request, without waiting in the usual case.
    pub(super) fn known(&self) -> Option<Option<HeaderValue>> {
        match &*self.0 {
            Inner::Fixed(value) => Some(value.clone()),
            Inner::File(file) => Some(Some(file.header())),
            Inner::Exec(program) => program.valid(),
        }
    }

    /// The header of a request; runs the program if its credentials are no longer valid.
    pub(super) async fn header(&self) -> std::result::Result<Option<HeaderValue>, BoxError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        match &*self.0 {
            Inner::Exec(program) => program.issue().await,
            Inner::Fixed(_) | Inner::File(_) => Ok(None),
        }
    }

    /// The server did not accept the header: a program is run again for the next request, unless it was already.
    pub(super) fn rejected(&self, header: Option<&HeaderValue>) {
        if let Inner::Exec(program) = &*self.0 {
            program.reject(header);
        }
    }

    /// The client certificates that a program issues.
    pub(super) fn resolver(&self) -> Option<Arc<dyn ResolvesClientCert>> {
        match &*self.0 {
            Inner::Exec(program) => Some(Arc::new(Resolver(Arc::clone(&program.issued)))),
            Inner::Fixed(_) | Inner::File(_) => None,
        }
    }
}

fn bearer(token: &str) -> std::result::Result<HeaderValue, BoxError> {
    header(format!("Bearer {}", token.trim_end_matches(' ')))
}

fn header(value: String) -> std::result::Result<HeaderValue, BoxError> {
    let mut value =
        HeaderValue::try_from(value).map_err(|_| "the token contains characters that no header may have")?;
    value.set_sensitive(true);
    Ok(value)
}

struct TokenFile {
    path: PathBuf,
    current: RwLock<(HeaderValue, Instant)>,
}

impl TokenFile {
    fn new(path: PathBuf, token: Option<&str>) -> Result<Self> {
        let first = Self::read(&path).or_else(|error| token.map_or(Err(error), bearer));
        let first = first.map_err(|error| Error::Config(format!("token file {}: {error}", path.display())))?;
        Ok(Self { path, current: RwLock::new((first, Instant::now())) })
    }

    fn read(path: &PathBuf) -> std::result::Result<HeaderValue, BoxError> {
        let text = std::fs::read_to_string(path)?;
        match text.trim() {
            "" => Err("it is empty".into()),
            token => bearer(token),
        }
    }

    /// Reads the file again after some time. The last token counts while that fails: some programs remove the file.
    fn header(&self) -> HeaderValue {
        let now = Instant::now();
        let is_recent = |read: Instant| now.saturating_duration_since(read) < FILE_PERIOD;
        let current = self.current.read();
        if is_recent(current.1) {
            return current.0.clone();
        }
        drop(current);
        let mut current = self.current.write();
        if !is_recent(current.1) {
            match Self::read(&self.path) {
                Ok(value) => current.0 = value,
                Err(error) => {
                    tracing::warn!(file = %self.path.display(), %error, "cannot read the token file; the last token is used");
                }
            }
            current.1 = now;
        }
        current.0.clone()
    }
}

/// The program's last credentials; without any until it has run.
#[derive(Default)]
struct Current {
    header: Option<HeaderValue>,
    key: Option<Arc<CertifiedKey>>,
    is_valid: bool,
    expires: Option<Timestamp>,
}

struct Program {
    plugin: Plugin,
    world: World,
    issued: Arc<RwLock<Current>>,
    /// One run at a time.
    running: tokio::sync::Mutex<()>,
}

impl Program {
    fn new(plugin: Plugin, world: World) -> Self {
        Self { plugin, world, issued: Arc::default(), running: tokio::sync::Mutex::default() }
    }

    fn valid(&self) -> Option<Option<HeaderValue>> {
        let issued = self.issued.read();
        let is_expired = issued.expires.is_some_and(|expires| expires <= self.world.now());
        (issued.is_valid && !is_expired).then(|| issued.header.clone())
    }

    async fn issue(&self) -> std::result::Result<Option<HeaderValue>, BoxError> {
        let _running = self.running.lock().await;
        // Another request may have waited for the same.
        if let Some(known) = self.valid() {
            return Ok(known);
        }
        let getting = |error: PluginError| BoxError::from(format!("getting credentials: {error}"));
        let issued = self.plugin.run().await.map_err(getting)?;
        let key = match &issued.identity {
            Some((certificate, key)) => Some(Arc::new(tls::certified_key(certificate.as_bytes(), key.as_bytes())?)),
            None => None,
        };
        let header = issued.token.as_deref().map(bearer).transpose()?;
        *self.issued.write() = Current { header: header.clone(), key, is_valid: true, expires: issued.expires };
        Ok(header)
    }

    fn reject(&self, header: Option<&HeaderValue>) {
        let mut issued = self.issued.write();
        if issued.header.as_ref() == header {
            issued.is_valid = false;
        }
    }
}

/// New connections present the certificate that the program issued last. Connections that are open keep theirs.
struct Resolver(Arc<RwLock<Current>>);

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver(..)")
    }
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.read().key.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.read().key.is_some()
    }
}
