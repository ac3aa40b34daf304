//! Bootstrap tokens: signs `kube-public/cluster-info` for each token that may sign, and deletes expired tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::meta::{Time, null_as_default};
use apimachinery::{Object, ObjectKey};
use client::{DeleteOptions, Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use pki::bootstrap::{SECRET_NAME_PREFIX, SECRET_NAMESPACE, SECRET_TYPE, TokenSecret};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::{CONFIG_MAPS, SECRETS};
use crate::running::Starting;
use crate::timing::wait;

const SIGNATURE: &str = "jws-kubeconfig-";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    #[serde(deserialize_with = "null_as_default")]
    data: BTreeMap<String, String>,
}

fn cluster_info() -> ObjectKey {
    ObjectKey::namespaced("kube-public", "cluster-info")
}

/// The Secret of a bootstrap token; `None` for other objects.
fn token(object: &Object) -> Option<TokenSecret> {
    let here = object.namespace() == Some(SECRET_NAMESPACE) && object.name().starts_with(SECRET_NAME_PREFIX);
    here.then(|| object.decode::<TokenSecret>().ok()).flatten().filter(|secret| secret.type_ == SECRET_TYPE)
}

/// `None` for a token that never expires or whose expiration is malformed.
fn expiration(token: &TokenSecret) -> Option<Time> {
    token.text("expiration")?.parse::<jiff::Timestamp>().ok().map(Time::new)
}

/// Id and secret, if the token may sign now.
fn signer(token: &TokenSecret, name: &str, now: Time) -> Option<(String, String)> {
    let (id, secret) = (token.text("token-id")?, token.text("token-secret")?);
    let valid = name.strip_prefix(SECRET_NAME_PREFIX) == Some(&id)
        && token.text("usage-bootstrap-signing").as_deref() == Some("true")
        && (!token.expires() || expiration(token).is_some_and(|at| wait(at, now).is_some()));
    valid.then_some((id, secret))
}

pub(crate) async fn run_signer(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<()>> = Arc::new(WorkQueue::new());
    let secrets = context.informers.informer(&SECRETS);
    let keys = queue.clone();
    secrets.subscribe(move |event| {
        if token(event.object()).is_some() {
            keys.add(());
        }
    });
    let maps = context.informers.informer(&CONFIG_MAPS);
    let (keys, info) = (queue.clone(), cluster_info());
    maps.subscribe(move |event| {
        if event.object().key() == info {
            keys.add(());
        }
    });
    if !secrets.synced().await || !maps.synced().await {
        return;
    }
    drop(starting);
    let stop = context.stop.clone();
    run_workers("bootstrap-signer-controller", queue, 1, stop, move |()| {
        let context = context.clone();
        async move { sign(&context).await }
    })
    .await;
}

async fn sign(context: &Context) -> Result<Next> {
    let Some(object) = context.informers.informer(&CONFIG_MAPS).cache().get(&cluster_info()) else {
        return Ok(Next::Done);
    };
    let map: ConfigMap = decoded(&object, object.decode())?;
    let Some(kubeconfig) = map.data.get("kubeconfig") else { return Ok(Next::Done) };
    let secrets = context.informers.informer(&SECRETS).cache().list(Some(SECRET_NAMESPACE));
    let signers = secrets.iter().filter_map(|secret| signer(&token(secret)?, secret.name(), context.now()));
    let desired = signers
        .map(|(id, secret)| {
            (format!("{SIGNATURE}{id}"), pki::bootstrap::detached_signature(&id, &secret, kubeconfig.as_bytes()))
        })
        .collect();
    let changes = changes(&map.data, &desired);
    if changes.is_empty() {
        return Ok(Next::Done);
    }
    let patch = json!({"metadata": {"resourceVersion": object.resource_version()}, "data": changes});
    match context.client.patch(&CONFIG_MAPS, &cluster_info(), &Patch::Merge(patch), &PatchOptions::default()).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

/// The merge patch from the signatures in `data` to the desired ones.
fn changes(data: &BTreeMap<String, String>, desired: &BTreeMap<String, String>) -> Map<String, Value> {
    let gone = data.keys().filter(|key| key.starts_with(SIGNATURE) && !desired.contains_key(*key));
    let new = desired.iter().filter(|(key, signature)| data.get(*key) != Some(signature));
    let new = new.map(|(key, signature)| (key.clone(), Value::from(signature.as_str())));
    gone.map(|key| (key.clone(), Value::Null)).chain(new).collect()
}

pub(crate) async fn run_cleaner(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let secrets = context.informers.informer(&SECRETS);
    let keys = queue.clone();
    secrets.subscribe(move |event| {
        let expires = || token(event.object()).is_some_and(|secret| expiration(&secret).is_some());
        if !matches!(event, Event::Deleted(_)) && expires() {
            keys.add(event.object().key());
        }
    });
    if !secrets.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers("token-cleaner-controller", queue, workers, stop, move |key| {
        let context = context.clone();
        async move { clean(&context, &key).await }
    })
    .await;
}

async fn clean(context: &Context, key: &ObjectKey) -> Result<Next> {
    let expiry = |object: &Object| token(object).and_then(|secret| expiration(&secret));
    let cached = context.informers.informer(&SECRETS).cache().get(key);
    let Some(at) = cached.as_deref().and_then(expiry) else { return Ok(Next::Done) };
    if let Some(wait) = wait(at, context.now()) {
        return Ok(Next::After(wait));
    }
    // Its expiration may have been extended, and the event may not have arrived yet.
    let live = context.client.get_opt(&SECRETS, key).await?;
    let Some(live) = live.filter(|live| expiry(live).is_some_and(|at| wait(at, context.now()).is_none())) else {
        return Ok(Next::Done);
    };
    match context.client.delete(&SECRETS, key, &DeleteOptions::default().only_uid(live.uid())).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_tokens_sign() {
        let now = Time::new("2026-11-21T00:00:00Z".parse().expect("a time"));
        let check = |fields: &[(&str, &str)], expected: Option<&str>| {
            let mut data =
                BTreeMap::from([("token-id", "abcdef"), ("token-secret", "s"), ("usage-bootstrap-signing", "true")]);
            data.extend(fields.iter().copied());
            let secret = TokenSecret::new(SECRET_TYPE, data);
            let signer = signer(&secret, "bootstrap-token-abcdef", now);
            assert_eq!(signer.as_ref().map(|(id, _)| id.as_str()), expected, "{fields:?}");
        };
        check(&[], Some("abcdef"));
        check(&[("expiration", "2026-11-21T01:00:00Z")], Some("abcdef"));
        check(&[("expiration", "2026-11-21T02:00:00+01:00")], Some("abcdef"));
        check(&[("expiration", "2026-11-20T23:59:59Z")], None);
        check(&[("expiration", "tomorrow")], None);
        check(&[("token-id", "others")], None);
        check(&[("usage-bootstrap-signing", "false")], None);
    }

    #[test]
    fn signatures_are_added_and_removed() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let data = map(&[("kubeconfig", "k"), ("jws-kubeconfig-a", "1"), ("jws-kubeconfig-b", "2")]);
        let desired = map(&[("jws-kubeconfig-a", "1"), ("jws-kubeconfig-c", "3")]);
        let expected = json!({"jws-kubeconfig-b": null, "jws-kubeconfig-c": "3"});
        assert_eq!(Value::Object(changes(&data, &desired)), expected);
    }
}
