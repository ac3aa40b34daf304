//! A store with values written by a kube-apiserver: callers see this program's form, and their writes are stored
//! unchanged.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use storage::{
    Change, Damage, Error, KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Result, Revision, Store, Txn,
    TxnOutcome, WatchStream,
};

use crate::places::Place;
use crate::value::readable;

/// Reads the values of a kube-apiserver.
pub struct ReadableStore(Arc<dyn Store>);

impl ReadableStore {
    /// Over a store.
    pub fn new(below: Arc<dyn Store>) -> Self {
        Self(below)
    }
}

/// The item in this program's form, or why it is unknown, with the stored item.
fn read(item: KeyValue) -> std::result::Result<KeyValue, (Damage, KeyValue)> {
    match readable(&item.value) {
        Ok(None) => Ok(item),
        Ok(Some(value)) => Ok(KeyValue { value, ..item }),
        Err(_) if matches!(Place::of(&item.key), Place::Own | Place::Unused(..)) => Ok(item),
        Err(why) => {
            let remedy = Some("run `karmada store adopt --check`, which lists what it does not understand".into());
            Err((Damage { remedy, ..Damage::new(item.key.clone(), why.to_string()) }, item))
        }
    }
}

fn required(item: KeyValue) -> Result<KeyValue> {
    read(item).map_err(|(damage, _)| Error::Damaged(damage))
}

fn outcome(outcome: TxnOutcome) -> Result<TxnOutcome> {
    let TxnOutcome::Failed { current, revision } = outcome else { return Ok(outcome) };
    let current = current.into_iter().map(|item| item.map(required).transpose()).collect::<Result<_>>()?;
    Ok(TxnOutcome::Failed { current, revision })
}

/// A change as the cache reads it. An unreadable value stays as stored: it is not an object, so the cache reports it as
/// unknown.
fn change(change: Change) -> Change {
    let read = |item| {
        read(item).unwrap_or_else(|(damage, item)| {
            tracing::error!(%damage, "A change in the store cannot be read");
            item
        })
    };
    match change {
        Change::Put { current, previous } => Change::Put { current: read(current), previous: previous.map(read) },
        // The caller has the value.
        Change::Delete { previous } if previous.value.is_empty() => Change::Delete { previous },
        Change::Delete { previous } => Change::Delete { previous: read(previous) },
    }
}

fn changes(batches: WatchStream) -> WatchStream {
    Box::pin(batches.map(|batch| {
        let mut batch = batch?;
        batch.changes = batch.changes.into_iter().map(|(at, it)| (at, change(it))).collect();
        Ok(batch)
    }))
}

impl Store for ReadableStore {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        self.0.revision()
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>> {
        Box::pin(async move { self.0.get(key, revision).await?.map(required).transpose() })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        Box::pin(async move {
            let RangeResponse { items, count, revision } = self.0.range(request).await?;
            let items = items.into_iter().map(required).collect::<Result<_>>()?;
            Ok(RangeResponse { items, count, revision })
        })
    }

    fn salvage(&self, request: RangeRequest) -> BoxFuture<'_, Result<(RangeResponse, Vec<Damage>)>> {
        Box::pin(async move {
            let (response, mut damaged) = self.0.salvage(request).await?;
            let mut items = Vec::with_capacity(response.items.len());
            for item in response.items {
                match read(item) {
                    Ok(item) => items.push(item),
                    Err((damage, _)) => damaged.push(damage),
                }
            }
            damaged.sort();
            Ok((RangeResponse { items, ..response }, damaged))
        })
    }

    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        self.0.shares(range, parts)
    }

    fn written_revision(&self) -> Option<Revision> {
        self.0.written_revision()
    }

    fn shares_revisions(&self) -> bool {
        self.0.shares_revisions()
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        Box::pin(async move { outcome(self.0.txn(txn).await?) })
    }

    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>> {
        Box::pin(async move { self.0.txn_all(txns).await?.into_iter().map(outcome).collect() })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move { Ok(changes(self.0.watch(range, after).await?)) })
    }

    fn follow(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move { Ok(changes(self.0.follow(range, after).await?)) })
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<()>> {
        self.0.request_progress()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.0.compact(revision)
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        self.0.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.0.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.0.revoke_lease(lease)
    }

    fn is_stale(&self, key: Bytes) -> BoxFuture<'_, bool> {
        self.0.is_stale(key)
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        self.0.verify()
    }
}
