//! Authorizers in order: the first that allows or denies decides. Members of `system:masters` are allowed before all of
//! them.

use std::sync::Arc;

use apiserver::auth::authz::{Attributes, Authorizer, Deciding, Decision, MASTERS, PolicyRule};
use arc_swap::ArcSwap;
use serde_json::Value;
use transport::Identity;

use crate::authorization::{Condition, FailurePolicy, Webhook, spec_of};
use crate::decided::{self, Decided};
use crate::reviews::{Reviewer, Version};

/// Larger reviews are not cached, because users control their content.
const MAX_REMEMBERED: usize = 10_000;

/// One authorizer of a chain.
pub enum Entry {
    /// Decides from memory.
    Local(Arc<dyn Authorizer>),
    /// `AlwaysDeny`: no opinion on anything.
    AlwaysDeny,
    /// Another program.
    Webhook(Box<Reviewed>),
}

/// A webhook and its recent answers.
pub struct Reviewed {
    settings: Webhook,
    reviewer: Reviewer,
    decided: Decided<Decision>,
}

impl Entry {
    /// A webhook of a configuration.
    pub fn webhook(settings: Webhook, reviewer: Reviewer) -> Self {
        Self::Webhook(Box::new(Reviewed { settings, reviewer, decided: Decided::default() }))
    }
}

/// Authorizers in order, replaceable while requests are served.
#[derive(Default)]
pub struct Chain(ArcSwap<Vec<Entry>>);

impl Chain {
    /// The authorizers in this order.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self(ArcSwap::from_pointee(entries))
    }

    /// Replaces the authorizers, from the next request on. Cached decisions of the previous webhooks are dropped.
    pub fn replace(&self, entries: Vec<Entry>) {
        self.0.store(Arc::new(entries));
    }
}

/// A webhook's part in a decision.
enum Known {
    Decided(Decision),
    /// The review to send, and the cache key of its response.
    Open(Value, Option<decided::Key>),
}

impl Authorizer for Chain {
    fn authorize(&self, user: &Identity, attributes: &Attributes) -> Decision {
        let entries = self.0.load();
        let (mut from, mut reasons) = (0, Vec::new());
        loop {
            let open = match walk(&entries, from, user, attributes, &mut reasons) {
                Ok(decision) => return decision,
                Err(open) => open,
            };
            // A webhook that is not called is one that does not answer.
            match entries.get(open.at) {
                Some(Entry::Webhook(it)) if it.settings.failure_policy == FailurePolicy::NoOpinion => {
                    from = open.at + 1
                }
                _ => return Decision::NoOpinion(reasons.join("\n")),
            }
        }
    }

    fn decide<'a>(&'a self, user: &'a Identity, attributes: &'a Attributes) -> Deciding<'a> {
        let entries = self.0.load();
        let mut reasons = Vec::new();
        match walk(&entries, 0, user, attributes, &mut reasons) {
            Ok(decision) => Deciding::Now(decision),
            Err(open) => {
                let entries = Arc::clone(&entries);
                Deciding::Later(Box::pin(rest(entries, open, user, attributes, reasons)))
            }
        }
    }

    fn rules_for(&self, user: &Identity, namespace: &str) -> Option<Vec<PolicyRule>> {
        let entries = self.0.load();
        let mut rules = Vec::new();
        for entry in entries.iter() {
            match entry {
                Entry::Local(authorizer) => rules.extend(authorizer.rules_for(user, namespace)?),
                Entry::AlwaysDeny => {}
                // The rules of a webhook cannot be listed.
                Entry::Webhook(_) => return None,
            }
        }
        Some(rules)
    }
}

/// A webhook that has to be called, by its place.
struct Open {
    at: usize,
    review: Value,
    key: Option<decided::Key>,
}

/// The decision from memory, or the first webhook whose answer it needs.
fn walk(
    entries: &[Entry],
    from: usize,
    user: &Identity,
    attributes: &Attributes,
    reasons: &mut Vec<String>,
) -> Result<Decision, Open> {
    if from == 0 && user.groups.iter().any(|group| group == MASTERS) {
        return Ok(Decision::Allow(String::new()));
    }
    for (at, entry) in entries.iter().enumerate().skip(from) {
        let decision = match entry {
            Entry::Local(authorizer) => authorizer.authorize(user, attributes),
            Entry::AlwaysDeny => Decision::NoOpinion("Everything is forbidden.".to_owned()),
            Entry::Webhook(webhook) => match webhook.known(user, attributes) {
                Known::Decided(decision) => decision,
                Known::Open(review, key) => return Err(Open { at, review, key }),
            },
        };
        match decision {
            Decision::NoOpinion(reason) => reasons.extend(Some(reason).filter(|reason| !reason.is_empty())),
            decided => return Ok(decided),
        }
    }
    Ok(Decision::NoOpinion(reasons.join("\n")))
}

async fn rest(
    entries: Arc<Vec<Entry>>,
    mut open: Open,
    user: &Identity,
    attributes: &Attributes,
    mut reasons: Vec<String>,
) -> Decision {
    loop {
        let Some(Entry::Webhook(webhook)) = entries.get(open.at) else { return Decision::NoOpinion(String::new()) };
        match webhook.call(&open.review, open.key).await {
            Decision::NoOpinion(reason) => reasons.extend(Some(reason).filter(|reason| !reason.is_empty())),
            decided => return decided,
        }
        match walk(&entries, open.at + 1, user, attributes, &mut reasons) {
            Ok(decision) => return decision,
            Err(next) => open = next,
        }
    }
}

impl Reviewed {
    fn known(&self, user: &Identity, attributes: &Attributes) -> Known {
        let spec = spec_of(user, attributes, Version::V1);
        match Condition::all_hold(&self.settings.conditions, &spec) {
            Ok(true) => {}
            Ok(false) => return Known::Decided(Decision::NoOpinion(String::new())),
            Err(why) => return Known::Decided(self.failed(&why)),
        }
        let spec = match self.settings.version {
            Version::V1 => spec,
            Version::V1Beta1 => spec_of(user, attributes, Version::V1Beta1),
        };
        let text = spec.to_string();
        let key = (text.len() <= MAX_REMEMBERED).then(|| decided::key([text.as_bytes()]));
        if let Some(decision) = key.as_ref().and_then(|key| self.decided.get(key)) {
            return Known::Decided(decision);
        }
        let review = serde_json::json!({
            "apiVersion": format!("authorization.k8s.io/{}", self.settings.version.as_str()),
            "kind": "SubjectAccessReview",
            "metadata": {"creationTimestamp": null},
            "spec": spec,
            "status": {"allowed": false},
        });
        Known::Open(review, key)
    }

    async fn call(&self, review: &Value, key: Option<decided::Key>) -> Decision {
        let answer = match self.reviewer.review(review).await {
            Ok(answer) => answer,
            Err(why) => return self.failed(&why),
        };
        let status = &answer["status"];
        let reason = status["reason"].as_str().unwrap_or_default().to_owned();
        let is = |field: &str| status[field] == true;
        let (decision, lifetime) = match (is("allowed"), is("denied")) {
            (true, true) => return self.failed("the webhook both allows and denies the request"),
            (true, false) => (Decision::Allow(reason), self.settings.authorized_ttl),
            (false, true) => (Decision::Deny(reason), self.settings.unauthorized_ttl),
            (false, false) => (Decision::NoOpinion(reason), self.settings.unauthorized_ttl),
        };
        if let Some(key) = key {
            self.decided.put(key, decision.clone(), lifetime);
        }
        decision
    }

    fn failed(&self, why: &str) -> Decision {
        let name = &self.settings.name;
        tracing::warn!(webhook = name, err = why, "Authorization webhook did not decide");
        match self.settings.failure_policy {
            FailurePolicy::NoOpinion => Decision::NoOpinion(String::new()),
            FailurePolicy::Deny => Decision::Deny(format!("authorization webhook {name:?} did not decide")),
        }
    }
}
