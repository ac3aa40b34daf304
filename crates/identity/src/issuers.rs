//! The key sets of issuers: fetched when a token needs them, and the verification of tokens with them.

use std::sync::Arc;
use std::time::Duration;

use authentication::{Discovery, Issuer, KeySet, Token, User};
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::fetch;

/// Both documents together. A token whose issuer does not answer is refused after it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum time between two fetches, also for tokens with invented key IDs.
const PAUSE: Duration = Duration::from_secs(10);
/// Keys this old are fetched again with the next token, so that a key that the issuer has withdrawn does not stay
/// valid.
const LIFETIME: Duration = Duration::from_secs(600);
/// Both documents have a few KiB.
const MAX_BYTES: usize = 512 << 10;

/// The issuers of a configuration, and their keys.
#[derive(Default)]
pub struct Issuers(Vec<Arc<State>>);

struct State {
    issuer: Issuer,
    keys: RwLock<Option<Fetched>>,
    /// The last attempt; held while one is under way.
    attempt: Arc<Mutex<Option<Instant>>>,
}

#[derive(Clone)]
struct Fetched {
    keys: Arc<KeySet>,
    at: Instant,
}

impl Issuers {
    /// Issuers whose keys are not known yet.
    pub fn new(issuers: Vec<Issuer>) -> Self {
        let state = |issuer| Arc::new(State { issuer, keys: RwLock::default(), attempt: Arc::default() });
        Self(issuers.into_iter().map(state).collect())
    }

    /// Fetches the keys of all issuers, so that the first token finds them. Failures are logged.
    pub fn warm_up(&self) {
        for state in &self.0 {
            let state = Arc::clone(state);
            tokio::spawn(async move { state.fetch(None).await });
        }
    }

    /// The user of a token, `None` if it is of no issuer or not valid. The reason is logged.
    pub async fn user(&self, token: &str, seconds: i64) -> Option<User> {
        if self.0.is_empty() {
            return None;
        }
        let token = Token::parse(token).ok()?;
        let state = self.0.iter().find(|state| state.issuer.url == token.issuer())?;
        let keys = Arc::clone(state).keys(token.key()).await?;
        match state.issuer.user(&token, &keys, seconds) {
            Ok(user) => Some(user),
            Err(refusal) => {
                tracing::info!(issuer = state.issuer.url, reason = %refusal, "Token is refused");
                None
            }
        }
    }
}

impl State {
    /// Returns keys that include the one named `id`, if the issuer has it.
    async fn keys(self: Arc<Self>, id: Option<&str>) -> Option<Arc<KeySet>> {
        let known = self.keys.read().clone();
        if let Some(known) = known.filter(|known| known.keys.has(id)) {
            // The current token is verified with the current keys. While an issuer does not answer, one task waits for it, and
            // not one for each token.
            if known.at.elapsed() >= LIFETIME
                && let Ok(mut attempt) = Arc::clone(&self.attempt).try_lock_owned()
            {
                tokio::spawn(async move { self.fetch_once(&mut attempt, None).await });
            }
            return Some(known.keys);
        }
        self.fetch(Some(id)).await;
        self.keys.read().as_ref().map(|known| Arc::clone(&known.keys))
    }

    /// Fetches the keys, unless that was tried lately. Concurrent callers wait for one fetch.
    async fn fetch(&self, key_id: Option<Option<&str>>) {
        self.fetch_once(&mut *self.attempt.lock().await, key_id).await;
    }

    async fn fetch_once(&self, attempt: &mut Option<Instant>, key_id: Option<Option<&str>>) {
        let is_there = |id| self.keys.read().as_ref().is_some_and(|known| known.keys.has(id));
        if key_id.is_some_and(is_there) || attempt.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        let issuer = &self.issuer.url;
        match timeout(TIMEOUT, self.fetched()).await {
            Ok(Ok(keys)) => *self.keys.write() = Some(Fetched { keys: Arc::new(keys), at: Instant::now() }),
            Ok(Err(err)) => {
                tracing::warn!(issuer, err, "Keys of the issuer cannot be fetched; its tokens may be refused")
            }
            Err(_) => {
                let err = format!("no answer within {} s", TIMEOUT.as_secs());
                tracing::warn!(issuer, err, "Keys of the issuer cannot be fetched; its tokens may be refused");
            }
        }
        *attempt = Some(Instant::now());
    }

    async fn fetched(&self) -> Result<KeySet, String> {
        let authority = self.issuer.certificate_authority.as_deref();
        let document = fetch::document(&self.issuer.discovery(), authority, MAX_BYTES).await?;
        let discovery = Discovery::parse(&document, &self.issuer.url).map_err(|error| error.to_string())?;
        let keys = fetch::document(&discovery.jwks_uri, authority, MAX_BYTES).await?;
        KeySet::parse(&keys).map_err(|error| error.to_string())
    }
}
