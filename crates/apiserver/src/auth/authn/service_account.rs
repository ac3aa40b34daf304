//! Service account tokens: the signature, the validity period and the audience are verified, and the account (and a
//! bound Secret, Pod or Node) must still exist unchanged since the token was issued.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status};
use pki::token::{Bound, LEGACY_ISSUER};
use pki::{Claims, Verifier};
use transport::Identity;

use super::recent::Recent;
use super::{CREDENTIAL_ID, Lookup};

const PREFIX: &str = "system:serviceaccount:";

/// Namespace and name of a service account's user name.
pub fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(PREFIX)?.split_once(':').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
}

/// The groups every service account of a namespace is in.
pub fn account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
}

/// Verification of service account tokens.
pub struct ServiceAccountTokens {
    /// The public keys.
    pub verifier: Arc<Verifier>,
    /// The first issues; all are accepted.
    pub issuers: Vec<String>,
    /// The accepted audiences; `aud` must contain one of them.
    pub audiences: Vec<String>,
    lookup: Arc<dyn Lookup>,
    /// With the state of the keys that each token was verified by.
    recent: Recent<(u64, Arc<Claims>)>,
}

impl ServiceAccountTokens {
    /// Verification with these keys, issuers and audiences; `lookup` reads accounts and the objects that tokens are
    /// bound to.
    pub fn new(
        verifier: impl Into<Arc<Verifier>>,
        issuers: Vec<String>,
        audiences: Vec<String>,
        lookup: Arc<dyn Lookup>,
    ) -> Self {
        Self { verifier: verifier.into(), issuers, audiences, lookup, recent: Recent::default() }
    }

    /// `Err` only when the store cannot be read: then the token is neither valid nor invalid.
    pub(super) async fn authenticate(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        seconds: i64,
    ) -> Result<Option<(Identity, Vec<String>)>, Status> {
        let Some(claims) = self.claims(token) else { return Ok(None) };
        match &claims.bound {
            Some(bound) => self.bound(&claims, bound, audiences, seconds).await,
            None => self.legacy(token, &claims, audiences).await,
        }
    }

    fn claims(&self, token: &str) -> Option<Arc<Claims>> {
        let keys = self.verifier.replaced();
        let verify = || self.verifier.verify(token).map(|claims| (keys, Arc::new(claims)));
        let mut checked = self.recent.get_or_check(token.as_bytes(), verify)?;
        if checked.0 != keys {
            self.recent.clear();
            checked = self.recent.get_or_check(token.as_bytes(), verify)?;
        }
        Some(checked.1)
    }

    async fn bound(
        &self,
        claims: &Claims,
        bound: &Bound,
        audiences: Option<&[String]>,
        seconds: i64,
    ) -> Result<Option<(Identity, Vec<String>)>, Status> {
        let in_time = claims.exp.is_some_and(|exp| seconds < exp) && claims.nbf.is_none_or(|nbf| seconds >= nbf);
        let requested = audiences.unwrap_or(&self.audiences);
        let common: Vec<String> = claims.aud.iter().filter(|audience| requested.contains(audience)).cloned().collect();
        let account = &bound.serviceaccount;
        let subject_agrees = account_of(&claims.sub) == Some((&bound.namespace, &account.name));
        if !in_time || common.is_empty() || !subject_agrees || !self.issuers.contains(&claims.iss) {
            return Ok(None);
        }
        let namespaced = |name: &str| ObjectKey::namespaced(bound.namespace.as_str(), name);
        let mut must_exist = vec![("serviceaccounts", namespaced(&account.name), &account.uid)];
        if let Some(secret) = &bound.secret {
            must_exist.push(("secrets", namespaced(&secret.name), &secret.uid));
        }
        if let Some(pod) = &bound.pod {
            must_exist.push(("pods", namespaced(&pod.name), &pod.uid));
        } else if let Some(node) = &bound.node {
            // A token bound to a Pod names its Node for information only.
            must_exist.push(("nodes", ObjectKey::cluster(node.name.as_str()), &node.uid));
        }
        for (resource, key, uid) in must_exist {
            if self.lookup.get(resource, key).await?.is_none_or(|object| object.uid() != uid.as_str()) {
                return Ok(None);
            }
        }
        let mut identity = identity(&bound.namespace, &account.name, &account.uid);
        let mut extra = |key: &str, value: String| {
            if !value.is_empty() {
                identity.extra.push((key.to_owned(), vec![value]));
            }
        };
        if !claims.jti.is_empty() {
            extra(CREDENTIAL_ID, format!("JTI={}", claims.jti));
        }
        if let Some(pod) = &bound.pod {
            extra("authentication.kubernetes.io/pod-name", pod.name.clone());
            extra("authentication.kubernetes.io/pod-uid", pod.uid.clone());
        }
        if let Some(node) = &bound.node {
            extra("authentication.kubernetes.io/node-name", node.name.clone());
            extra("authentication.kubernetes.io/node-uid", node.uid.clone());
        }
        Ok(Some((identity, common)))
    }

    /// A legacy token is good as long as its Secret exists and holds it.
    async fn legacy(
        &self,
        token: &str,
        claims: &Claims,
        audiences: Option<&[String]>,
    ) -> Result<Option<(Identity, Vec<String>)>, Status> {
        let (namespace, name, uid) = (&claims.legacy_namespace, &claims.legacy_account, &claims.legacy_uid);
        if claims.iss != LEGACY_ISSUER || account_of(&claims.sub) != Some((namespace, name)) {
            return Ok(None);
        }
        let requested = audiences.unwrap_or(&self.audiences);
        let common: Vec<String> =
            requested.iter().filter(|audience| self.audiences.contains(audience)).cloned().collect();
        if common.is_empty() {
            return Ok(None);
        }
        let secret = ObjectKey::namespaced(namespace.as_str(), claims.legacy_secret.as_str());
        let secret = self.lookup.get("secrets", secret).await?;
        if !secret.is_some_and(|secret| !secret.is_deleting() && holds(&secret, token)) {
            return Ok(None);
        }
        let account = self.lookup.get("serviceaccounts", ObjectKey::namespaced(namespace.as_str(), name.as_str()));
        if account.await?.is_none_or(|account| account.is_deleting() || account.uid() != uid.as_str()) {
            return Ok(None);
        }
        Ok(Some((identity(namespace, name, uid), common)))
    }
}

fn identity(namespace: &str, name: &str, uid: &str) -> Identity {
    Identity {
        user: format!("{PREFIX}{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: account_groups(namespace),
        extra: Vec::new(),
    }
}

fn holds(secret: &Object, token: &str) -> bool {
    use base64::Engine as _;
    let Ok(document) = secret.to_value() else { return false };
    let stored_token = document["data"]["token"].as_str().unwrap_or_default();
    stored_token == base64::engine::general_purpose::STANDARD.encode(token)
}
