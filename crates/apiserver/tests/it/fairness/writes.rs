//! Many writers of one object.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::future::BoxFuture;
use storage::memory::MemoryStore;
use storage::{
    KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Result, Revision, Store, Txn, TxnOutcome, WatchStream,
};

use super::{call, fill, server};

/// A store whose transactions take a while, as on a disk.
struct Slow {
    inner: MemoryStore,
    transactions: AtomicUsize,
}

impl Store for Slow {
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        self.transactions.fetch_add(1, Relaxed);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
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

#[tokio::test(start_paused = true)]
async fn concurrent_patches_of_one_object_succeed_without_retries() {
    let store = Arc::new(Slow { inner: MemoryStore::new(), transactions: AtomicUsize::new(0) });
    let server = server(Arc::clone(&store) as Arc<dyn Store>).await;
    let service = server.service();
    fill(&service, 2).await;
    let before = store.transactions.load(Relaxed);
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let patch = |user: &'static str, n: usize| {
        let (service, order) = (service.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let url = "/api/v1/namespaces/default/configmaps/a0";
            let body = format!(r#"{{"data":{{"{user}{n}":"x"}}}}"#);
            let (code, status) = call(&service, user, "PATCH", url, "application/merge-patch+json", &body).await;
            assert_eq!(code, 200, "{status}");
            order.lock().push(user);
        })
    };
    let mut patches: Vec<_> = (0..300).map(|n| patch("greedy", n)).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    patches.push(patch("neighbor", 0));
    for patch in patches {
        patch.await.expect("no panic");
    }
    assert_eq!(store.transactions.load(Relaxed) - before, 301, "no write loses a race");
    let place = order.lock().iter().position(|user| *user == "neighbor");
    assert!(place < Some(30), "another user's patch was number {place:?}");
    let (_, map) = call(&service, "reader", "GET", "/api/v1/namespaces/default/configmaps/a0", "", "").await;
    assert_eq!(map["data"].as_object().map(serde_json::Map::len), Some(302));
    server.shutdown();
}
