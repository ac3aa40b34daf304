//! Resource quotas: an object that would use more than its namespace may is refused, and what it uses is written down
//! before it is stored. A controller counts again, so what was written for an object that then was not stored goes.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status};
use futures::future::BoxFuture;
use kubernetes_api::admission::quota;
use serde_json::Value;
use storage::{Guard, Op, Txn, TxnOutcome};

use super::table::Table;
use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;
use crate::{errors, keys};

/// Writers of one quota that get in between.
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
        let info = &request.info.resource;
        // What exists already is refused later, and uses nothing more.
        let place = keys::group_resource(&info.group, &info.plural);
        if request.operation == Operation::Create && request.server.cache.resource(&place).get(request.key).is_some() {
            return Ok(());
        }
        for name in names {
            self.charge(request, name).await?;
        }
        Ok(())
    }

    async fn charge(&self, request: &AdmissionRequest<'_>, key: &ObjectKey) -> Result<(), Status> {
        let server = request.server;
        let Some(object) = request.object.as_deref() else { return Ok(()) };
        let info = &request.info.resource;
        let mut stored = server.cache.resource(&keys::group_resource("", "resourcequotas")).get(key);
        let place = bytes::Bytes::from(format!("{}core/resourcequotas/{key}", keys::ROOT));
        for _ in 0..TRIES {
            let Some(current) = stored.take() else { return Ok(()) };
            let mut quota = current.to_value().map_err(errors::document)?;
            let charged = quota::charge(&quota, &info.group, &info.plural, request.old, object);
            let Some(used) = charged.map_err(|why| request.forbidden(&why))? else { return Ok(()) };
            if request.dry_run {
                return Ok(());
            }
            quota["status"]["used"] = Value::Object(used);
            let value = keys::encode(&quota).map_err(Status::internal)?;
            let revision = current.resource_version().parse().unwrap_or(0);
            let txn = Txn {
                guards: vec![Guard::ModRevision(place.clone(), revision)],
                ops: vec![Op::Put { key: place.clone(), value, lease: None }],
            };
            match server.cache.store().txn(txn).await.map_err(errors::store)? {
                TxnOutcome::Committed { .. } => return Ok(()),
                TxnOutcome::Failed { current, .. } => stored = newest(current)?,
            }
        }
        Err(Status::conflict("", "resourcequotas", &key.name, "it is being written to again and again; try again"))
    }
}

fn newest(current: Vec<Option<storage::KeyValue>>) -> Result<Option<Arc<Object>>, Status> {
    let Some(Some(newer)) = current.into_iter().next() else { return Ok(None) };
    keys::with_revision(&newer.value, newer.mod_revision).map(|object| Some(object.shared())).map_err(errors::document)
}

impl Admission for ResourceQuotas {
    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let counted = request.operation != Operation::Delete && request.subresource.is_empty();
        let namespace = request.key.namespace().filter(|_| counted);
        let quotas = namespace.map(|namespace| self.quotas.in_namespace(namespace)).unwrap_or_default();
        if quotas.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let namespace = namespace.unwrap_or_default();
        let names = quotas.iter().filter_map(|quota| quota["metadata"]["name"].as_str());
        let names: Vec<ObjectKey> = names.map(|name| ObjectKey::namespaced(namespace, name)).collect();
        Box::pin(async move { self.charge_all(request, &names).await })
    }

    fn observe(&self, place: &str, event: &Event) {
        self.quotas.observe(place, event);
    }
}
