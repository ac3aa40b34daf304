//! Karmada's admission rules as a plugin of our own API server: here they only meet the request.

use std::sync::Arc;

use apiextensions::defaulting;
use apimachinery::Status;
use apiserver::{Admission, AdmissionRequest, Operation};
use futures::future::BoxFuture;
use karmada_api::admission::secrets::{self, SecretUse};
use karmada_api::admission::webhooks::Webhook;
use karmada_api::admission::{self, Written};
use serde_json::Value;

use crate::rights;
use crate::rules::{Asked, Rules};

pub struct KarmadaAdmission(pub Arc<Rules>);

/// The request in the rules' words, and the webhook that holds its rules; `None` when there are none. Subresources have
/// none.
fn asked<'a>(mutating: bool, request: &'a AdmissionRequest<'_>) -> Option<(Asked<'a>, &'static Webhook)> {
    let named = &request.info.resource;
    let operation = match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => admission::Operation::Delete,
    };
    if !request.subresource.is_empty() {
        return None;
    }
    let webhook = admission::webhook(mutating, operation, &named.group, &named.kind)?;
    let asked = Asked {
        operation,
        group: &named.group,
        version: &named.version,
        kind: &named.kind,
        namespace: request.key.namespace().unwrap_or_default(),
        old: request.old,
        dry_run: request.dry_run,
    };
    Some((asked, webhook))
}

impl Admission for KarmadaAdmission {
    fn concerns_status(&self, _: &str, _: &str) -> bool {
        false
    }

    /// No rule is about finalizers, and what is stored has been through those about the rest.
    fn concerns_metadata(&self, group: &str, plural: &str, fields: &[&str]) -> bool {
        fields != ["finalizers"] && admission::webhooks::judges_updates(group, plural)
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let Some(object) = request.object.as_deref_mut() else { return Box::pin(std::future::ready(Ok(()))) };
        // Out of the request while the rules look at the rest of it; most kinds have none, and nothing is copied.
        let mut changed = std::mem::take(object);
        let outcome = match asked(true, request) {
            None => Ok(()),
            Some((asked, webhook)) => {
                let outcome = self.0.mutate(asked, &mut changed);
                // What the rules took away because it was empty may have a default.
                defaulting::default(&mut changed, &request.info.schema);
                outcome.map_err(|it| it.denied().to_status(webhook.name))
            }
        };
        if let Some(object) = request.object.as_deref_mut() {
            *object = changed;
        }
        Box::pin(std::future::ready(outcome))
    }

    fn warnings(&self, request: &AdmissionRequest<'_>) -> Vec<String> {
        let named = &request.info.resource;
        let Some(object) = request.object.as_deref().filter(|_| request.subresource.is_empty()) else {
            return Vec::new();
        };
        let (group, kind, old) = (&named.group, &named.kind, request.old);
        let namespace = request.key.namespace().unwrap_or_default();
        let copied = if old.is_some_and(|old| !admission::changes_intent(old, object)) {
            Vec::new()
        } else {
            secrets::copied(group, kind, namespace, object)
        };
        let unreadable = copied.iter().filter(|it| !request.is_allowed(rights::secret(&it.namespace, &it.name)));
        let unreadable: Vec<SecretUse> = unreadable.map(|it| it.by).collect();
        let written = Written { group, kind, object, old, is_ours: true, unreadable: &unreadable };
        admission::warnings(&written, &self.0.options)
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some((asked, webhook)) = asked(false, request) else { return Ok(()) };
            let gone = Value::Null;
            let object = request.object.as_deref().or(request.old).unwrap_or(&gone);
            self.0.validate(asked, object).await.map(drop).map_err(|it| it.denied().to_status(webhook.name))
        })
    }
}
