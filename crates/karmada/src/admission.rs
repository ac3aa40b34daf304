//! Karmada's admission rules as a plugin of our own API server: here they only meet the request.

use std::sync::Arc;

use apiextensions::defaulting;
use apimachinery::Status;
use apiserver::{Admission, AdmissionRequest, Change, JointWrite, Operation};
use futures::future::BoxFuture;
use karmada_api::admission::secrets::{self, SecretUse};
use karmada_api::admission::webhooks::Webhook;
use karmada_api::admission::{self, Written};
use serde_json::Value;

use crate::rights;
use crate::rules::{Asked, Rules};

/// Group and plural.
const BINDINGS: (&str, &str) = ("work.karmada.io", "resourcebindings");
const QUOTAS: (&str, &str) = ("policy.karmada.io", "federatedresourcequotas");
/// The webhook whose refusals clients know.
const BINDING_WEBHOOK: &str = "resourcebinding.karmada.io";

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
        fields != ["finalizers"] && admission::webhooks::handles_updates(group, plural)
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
            self.0.validate(asked, object).await.map_err(|it| it.denied().to_status(webhook.name))
        })
    }

    fn has_joint_writes(&self, group: &str, plural: &str) -> bool {
        self.0.options.quota_enforcement && (group, plural) == BINDINGS
    }

    /// The quotas of a namespace change in the transaction of the binding: their `overallUsed` is the sum over the stored
    /// bindings at every revision, and of two bindings in flight only one gets the last share.
    fn joint_writes(&self, change: &Change<'_>) -> Result<Vec<JointWrite>, Status> {
        let Some(namespace) = change.key.namespace() else { return Ok(Vec::new()) };
        let quotas = match change.others(QUOTAS.0, QUOTAS.1, namespace) {
            Ok(quotas) if quotas.is_empty() => return Ok(Vec::new()),
            Ok(quotas) => quotas,
            // What is removed needs no quota. The next count of a quota that can be read again corrects it.
            Err(status) if change.new.is_none() => {
                tracing::warn!(binding = %change.key, err = status.message, "A removed binding is not given back to its quotas");
                return Ok(Vec::new());
            }
            Err(status) => return Err(status),
        };
        let bindings = || change.others(BINDINGS.0, BINDINGS.1, namespace);
        let changed = Rules::joint_quotas(quotas, change.old, change.new, bindings);
        let changed = changed.map_err(|denied| denied.to_status(BINDING_WEBHOOK))?;
        let write = |(based_on, object)| JointWrite { group: QUOTAS.0, plural: QUOTAS.1, based_on, object };
        Ok(changed.into_iter().map(write).collect())
    }
}
