//! Tokens that a webhook reviews (`--authentication-token-webhook-*`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore};
use transport::Identity;

use crate::decided::{self, Decided, Key};
use crate::reviews::{Reviewer, Version};

/// Larger tokens are refused without a call.
const MAX_TOKEN: usize = 64 << 10;

/// Requests that wait for a review; more are refused at once. Nothing is known of their senders yet, and each holds its
/// headers, of 16 KiB over HTTP/2.
const MAX_WAITING: usize = 2_000;

/// A webhook that reviews tokens, and its recent answers.
pub struct WebhookTokens {
    reviewer: Reviewer,
    version: Version,
    lifetime: Duration,
    decided: Decided<User>,
    /// Reviews in flight, which requests with the same token share.
    shared: Mutex<HashMap<Key, Arc<OnceCell<Option<User>>>>>,
    places: Semaphore,
}

/// The user and the audiences; `None` if the token is not valid.
type User = Option<(Identity, Vec<String>)>;

impl WebhookTokens {
    /// Answers are valid for `lifetime`.
    pub fn new(reviewer: Reviewer, version: Version, lifetime: Duration) -> Self {
        let places = Semaphore::new(MAX_WAITING);
        Self { reviewer, version, lifetime, decided: Decided::default(), shared: Mutex::default(), places }
    }

    /// The user of a token, and the wanted audiences that it is valid for. For a webhook without support for audiences,
    /// those of the server apply, `implicit`. A review without a response is logged and not cached.
    pub async fn user(
        &self,
        token: &str,
        requested: &[String],
        implicit: &[String],
    ) -> Option<(Identity, Vec<String>)> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let parts = std::iter::once(token.as_bytes()).chain(requested.iter().map(String::as_bytes));
        let key = decided::key(parts);
        if let Some(decided) = self.decided.get(&key) {
            return decided;
        }
        let Ok(_place) = self.places.try_acquire() else {
            tracing::warn!(waiting = MAX_WAITING, "Authentication webhook does not keep up; a request is refused");
            return None;
        };
        let cell = Arc::clone(self.shared.lock().entry(key).or_default());
        let _end = End { tokens: self, key, cell: &cell };
        let found = cell.get_or_init(|| self.review(token, requested, implicit)).await.clone()?;
        self.decided.put(key, found.clone(), self.lifetime);
        found
    }

    /// `None` without an answer.
    async fn review(&self, token: &str, requested: &[String], implicit: &[String]) -> Option<User> {
        let review = json!({
            "apiVersion": format!("authentication.k8s.io/{}", self.version.as_str()),
            "kind": "TokenReview",
            "metadata": {"creationTimestamp": null},
            "spec": {"token": token, "audiences": requested},
            "status": {"user": {}},
        });
        let answer = self.reviewer.review(&review).await.inspect_err(|err| {
            tracing::warn!(err, "Authentication webhook did not review a token; the request is refused");
        });
        answer.ok().map(|answer| reviewed_user(&answer["status"], requested, implicit))
    }
}

/// Forgets a review once the last request that shares it ends, also when it is cancelled.
struct End<'t> {
    tokens: &'t WebhookTokens,
    key: Key,
    cell: &'t Arc<OnceCell<Option<User>>>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut shared = self.tokens.shared.lock();
        // The map's and this one's.
        let is_over = self.cell.initialized() || Arc::strong_count(self.cell) <= 2;
        if is_over && shared.get(&self.key).is_some_and(|cell| Arc::ptr_eq(cell, self.cell)) {
            shared.remove(&self.key);
        }
    }
}

/// The user in the status of a TokenReview, and the `requested` audiences that the token is valid for; `implicit` are
/// those for a webhook without support for audiences. `None` if the token is not valid.
pub fn reviewed_user(status: &Value, requested: &[String], implicit: &[String]) -> Option<(Identity, Vec<String>)> {
    if status["authenticated"] != true {
        return None;
    }
    let own = strings(&status["audiences"]);
    let own = if own.is_empty() { implicit } else { &own };
    let common: Vec<String> = requested.iter().filter(|audience| own.contains(audience)).cloned().collect();
    if common.is_empty() && !requested.is_empty() {
        return None;
    }
    let user = &status["user"];
    let text = |name: &str| user[name].as_str().unwrap_or_default().to_owned();
    let extra = user["extra"].as_object().into_iter().flatten();
    let identity = Identity {
        user: text("username"),
        uid: text("uid"),
        groups: strings(&user["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), strings(values))).collect(),
    };
    (!identity.user.is_empty()).then_some((identity, common))
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
