//! Resource quotas: rejects an object that would exceed the quota of its namespace, and records its usage before it is
//! stored. The usage of an object that is then not stored is reverted; a controller also recounts all usage.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status};
use futures::future::BoxFuture;
use kubernetes_api::admission::quota;
use serde_json::{Map, Value};
use storage::{Guard, Op, Txn, TxnOutcome};

use super::table::Table;
use crate::admit::{Admission, AdmissionRequest, Creates, Operation};
use crate::cache::Event;
use crate::cache::keys;
use crate::errors;

/// Retries after concurrent writes of a quota.
const TRIES: usize = 64;

pub(super) struct ResourceQuotas {
    quotas: Table,
}

impl Default for ResourceQuotas {
    fn default() -> Self {
        Self { quotas: Table::of("", "resourcequotas") }
    }
}

impl ResourceQuotas {
    async fn charge_all(&self, request: &AdmissionRequest<'_>, names: &[ObjectKey]) -> Result<(), Status> {
        // The creation of an existing object is refused later, and adds no usage.
        if request.repeats {
            return Ok(());
        }
        for (place, name) in names.iter().enumerate() {
            if let Err(refusal) = self.charge(request, name).await {
                self.refund_all(request, &names[..place]).await;
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// The quotas that count this write.
    fn names(&self, request: &AdmissionRequest<'_>) -> Vec<ObjectKey> {
        let counted = request.operation != Operation::Delete && request.subresource.is_empty();
        let Some(namespace) = request.key.namespace().filter(|_| counted) else { return Vec::new() };
        let quotas = self.quotas.in_namespace(namespace);
        let names = quotas.iter().filter_map(|quota| quota["metadata"]["name"].as_str());
        names.map(|name| ObjectKey::namespaced(namespace, name)).collect()
    }

    async fn refund_all(&self, request: &AdmissionRequest<'_>, names: &[ObjectKey]) {
        // In a quota as before the charge there is nothing to revert.
        if let Err(status) = request.known.cache.catch_up().await {
            tracing::warn!(err = status.message, "Quotas are released from a cached state");
        }
        for name in names.iter().filter(|_| !request.dry_run) {
            if let Err(status) = self.refund(request, name).await {
                tracing::warn!(object = %name, err = status.message, "Quota counts an object that was not stored, until the next \
                    count");
            }
        }
    }

    async fn charge(&self, request: &AdmissionRequest<'_>, key: &ObjectKey) -> Result<(), Status> {
        let Some(object) = request.object.as_deref() else { return Ok(()) };
        let info = &request.info.resource;
        let charge = |quota: &Value| {
            quota::charge(quota, &info.group, &info.plural, request.old, object).map_err(|why| request.forbidden(&why))
        };
        self.rewrite(request, key, charge).await
    }

    async fn refund(&self, request: &AdmissionRequest<'_>, key: &ObjectKey) -> Result<(), Status> {
        let Some(object) = request.object.as_deref() else { return Ok(()) };
        let info = &request.info.resource;
        let refund = |quota: &Value| Ok(quota::refund(quota, &info.group, &info.plural, request.old, object));
        self.rewrite(request, key, refund).await
    }

    /// Writes the result of `used` for a quota, unless it is unchanged.
    async fn rewrite(
        &self,
        request: &AdmissionRequest<'_>,
        key: &ObjectKey,
        used: impl Fn(&Value) -> Result<Option<Map<String, Value>>, Status>,
    ) -> Result<(), Status> {
        let cache = request.known.cache;
        let mut stored = cache.resource(&keys::group_resource("", "resourcequotas")).get(key)?;
        let place = bytes::Bytes::from(format!("{}core/resourcequotas/{key}", keys::ROOT));
        for _ in 0..TRIES {
            let Some(current) = stored.take() else { return Ok(()) };
            let mut quota = current.to_value().map_err(errors::document)?;
            let Some(used) = used(&quota)?.filter(|_| !request.dry_run) else { return Ok(()) };
            quota["status"]["used"] = Value::Object(used);
            let value = keys::encode(&quota).map_err(Status::internal)?;
            let revision = current.revision();
            let txn = Txn {
                guards: vec![Guard::ModRevision(place.clone(), revision)],
                ops: vec![Op::Put { key: place.clone(), value, lease: None }],
            };
            match cache.store().txn(txn).await.map_err(errors::store)? {
                TxnOutcome::Committed { .. } => return Ok(()),
                TxnOutcome::Failed { current, .. } => stored = newest(current)?,
            }
        }
        Err(Status::conflict("", "resourcequotas", key.name(), "it is being written to again and again; try again"))
    }
}

fn newest(current: Vec<Option<storage::KeyValue>>) -> Result<Option<Arc<Object>>, Status> {
    let Some(Some(newer)) = current.into_iter().next() else { return Ok(None) };
    keys::with_revision(&newer.value, newer.mod_revision).map(|object| Some(object.shared())).map_err(errors::document)
}

impl Admission for ResourceQuotas {
    fn name(&self) -> Option<&'static str> {
        Some("ResourceQuota")
    }

    /// A write that a user's program refuses is not charged, as upstream.
    fn runs_last(&self) -> bool {
        true
    }

    fn concerns_status(&self, _: &str, _: &str) -> bool {
        false
    }

    fn concerns_metadata(&self, _: &str, _: &str, _: &[&str]) -> bool {
        false
    }

    fn admits_unread(&self, creates: &Creates<'_>) -> bool {
        creates.namespace.is_none_or(|namespace| self.quotas.in_namespace(namespace).is_empty())
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        // One that cannot be read counts too.
        if let (Some(namespace), Operation::Create) = (request.key.namespace(), request.operation)
            && let Err(unknown) = self.quotas.check(request, Some(namespace))
        {
            return Box::pin(std::future::ready(Err(unknown)));
        }
        let names = self.names(request);
        if names.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move { self.charge_all(request, &names).await })
    }

    fn undo<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, ()> {
        let names = self.names(request);
        Box::pin(async move { self.refund_all(request, &names).await })
    }

    fn observe(&self, place: &str, event: &Event) {
        self.quotas.observe(place, event);
    }
}
