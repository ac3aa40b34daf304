//! Tokens in Secrets: fills in Secrets of type `kubernetes.io/service-account-token` that name a ServiceAccount, and
//! deletes them with the account.
//!
//! A Secret is deleted only if the server returns NotFound for the account just before.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::meta::null_as_default;
use apimachinery::{Object, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{DeleteOptions, Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use pki::Claims;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result, decoded};
use crate::resources::{SECRETS, SERVICE_ACCOUNTS};
use crate::running::Starting;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const BY_ACCOUNT: &str = "service-account";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Secret {
    #[serde(rename = "type")]
    type_: String,
    metadata: Meta,
    #[serde(deserialize_with = "null_as_default")]
    data: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(deserialize_with = "null_as_default")]
    annotations: BTreeMap<String, String>,
}

impl Secret {
    fn annotation(&self, key: &str) -> &str {
        self.metadata.annotations.get(key).map(String::as_str).unwrap_or_default()
    }

    /// The name of its account; `None` if it is not a token Secret.
    fn account(&self) -> Option<&str> {
        Some(self.annotation(ACCOUNT_NAME)).filter(|name| self.type_ == TYPE && !name.is_empty())
    }
}

/// The account of a Secret, as an index value.
fn account_index(object: &Object) -> Vec<String> {
    let Ok(secret) = object.decode::<Secret>() else { return Vec::new() };
    let account = secret.account().map(|name| format!("{}/{name}", object.namespace().unwrap_or_default()));
    account.into_iter().collect()
}

pub(crate) async fn run(context: Context, starting: Starting) {
    if context.settings.token_signer.is_none() {
        return;
    }
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let secrets = context.informers.informer(&SECRETS);
    secrets.cache().add_index(BY_ACCOUNT, account_index);
    let keys = queue.clone();
    secrets.subscribe(move |event| {
        let object = event.object();
        if !matches!(event, Event::Deleted(_)) && !account_index(object).is_empty() {
            keys.add(object.key());
        }
    });
    let accounts = context.informers.informer(&SERVICE_ACCOUNTS);
    let (keys, known) = (queue.clone(), secrets.clone());
    accounts.subscribe(move |event| {
        // A token is created and deleted with its account.
        if !matches!(event, Event::Updated { .. }) {
            for secret in known.cache().by_index(BY_ACCOUNT, &event.object().key().to_string()) {
                keys.add(secret.key());
            }
        }
    });
    if !secrets.synced().await || !accounts.synced().await {
        return;
    }
    drop(starting);
    let (keys, known) = (queue.clone(), secrets.clone());
    context.on_new_root_ca(move || {
        let of_accounts = known.cache().list(None).into_iter().filter(|secret| !account_index(secret).is_empty());
        of_accounts.for_each(|secret| keys.add(secret.key()));
    });
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers("serviceaccount-token-controller", queue, workers, stop, move |key| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let Some(object) = context.informers.informer(&SECRETS).cache().get(key) else { return Ok(Next::Done) };
    let secret: Secret = decoded(&object, object.decode())?;
    let Some(name) = secret.account().filter(|_| !object.is_deleting()) else { return Ok(Next::Done) };
    let account_key = ObjectKey::namespaced(object.namespace().unwrap_or_default(), name);
    let cached = context.informers.informer(&SERVICE_ACCOUNTS).cache().get(&account_key);
    let account = match cached.filter(|account| is_of(&secret, account)) {
        Some(account) => Some(account),
        None => {
            let live = context.client.get_opt(&SERVICE_ACCOUNTS, &account_key).await?;
            live.filter(|account| is_of(&secret, account))
        }
    };
    let Some(account) = account else {
        let only_this = DeleteOptions::default().only_uid(object.uid());
        return match context.client.delete(&SECRETS, key, &only_this).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(Next::Done),
        };
    };
    let root_ca = context.settings.root_ca_pem.as_ref().map(|root| root.get());
    let Some(mut patch) = missing(&secret, &object, &account, root_ca.as_deref()) else { return Ok(Next::Done) };
    if secret.data.get("token").is_none_or(String::is_empty) {
        let Some(signer) = &context.settings.token_signer else { return Ok(Next::Done) };
        let claims = Claims::legacy(account_key.namespace().unwrap_or_default(), name, account.uid(), object.name());
        let failed = |source| Error::Certificate { object: format!("Secret {key}"), source };
        patch["data"]["token"] = STANDARD.encode(signer.current().sign(&claims).map_err(failed)?).into();
    }
    match context.client.patch(&SECRETS, key, &Patch::Merge(patch), &PatchOptions::default()).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

/// Whether a Secret belongs to this account; one without a UID belongs to any account of the name.
fn is_of(secret: &Secret, account: &Object) -> bool {
    let desired = secret.annotation(ACCOUNT_UID);
    desired.is_empty() || desired == account.uid()
}

/// The merge patch that completes a token Secret, except for the token itself; `None` if it is complete.
fn missing(secret: &Secret, object: &Object, account: &Object, root_ca: Option<&str>) -> Option<Value> {
    let mut data = serde_json::Map::new();
    let namespace = object.namespace().unwrap_or_default();
    for (field, desired) in [("ca.crt", root_ca), ("namespace", Some(namespace))] {
        let Some(desired) = desired.map(|text| STANDARD.encode(text)) else { continue };
        if secret.data.get(field) != Some(&desired) {
            data.insert(field.into(), desired.into());
        }
    }
    let has_uid = secret.annotation(ACCOUNT_UID) == account.uid();
    if data.is_empty() && has_uid && secret.data.get("token").is_some_and(|token| !token.is_empty()) {
        return None;
    }
    // Conditional on the version that was read: no token is signed for a Secret that is being changed.
    let mut patch =
        json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version()}, "data": data});
    if !has_uid {
        patch["metadata"]["annotations"] = json!({ ACCOUNT_UID: account.uid() });
    }
    Some(patch)
}
