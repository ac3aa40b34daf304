//! A store with slow writes.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::future::BoxFuture;
use storage::memory::MemoryStore;
use storage::{
    KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Result, Revision, Store, Txn, TxnOutcome, WatchStream,
};

/// A store whose transactions take a while, as on a disk.
pub struct Slow {
    inner: MemoryStore,
    takes: Duration,
    pub transactions: AtomicUsize,
}

impl Slow {
    pub fn new(takes: Duration) -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), takes, transactions: AtomicUsize::new(0) })
    }
}

impl Store for Slow {
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        self.transactions.fetch_add(1, Relaxed);
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            self.inner.txn(txn).await
        })
    }

    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>> {
        self.inner.txn_all(txns)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        self.inner.revision()
    }

    fn get(&self, key: bytes::Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>> {
        self.inner.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        self.inner.range(request)
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        self.inner.watch(range, after)
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.request_progress()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.inner.compact(revision)
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        self.inner.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.inner.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.inner.revoke_lease(lease)
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.verify()
    }
}
