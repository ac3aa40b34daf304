//! The store's engine for fleets that exceed one machine: etcd v3 (3.4 and newer) behind [`storage::Store`].
//!
//! Differences from the other engines, all within the trait's contract:
//! - A transaction has one revision, so [`Store::txn_all`] assigns the same one to its transactions
//!   ([`Store::shares_revisions`]), and the keys of an ended lease are deleted at one revision, as with kube-apiserver.
//! - A write whose response is lost may have been stored ([`storage::Error::Uncertain`]). It is never sent a second
//!   time.
//! - Limits, alarms and the time of leases are the server's.
//!
//! A watch resumes where its connection broke, on any member: revisions are delivered as a whole, so none is lost or
//! delivered twice. Keys are those of kube-apiserver ([`Layout`]).
#![warn(missing_docs, clippy::missing_errors_doc)]

mod assemble;
mod compactor;
mod connection;
mod endpoint;
mod failure;
mod history;
mod inner;
mod layout;
pub mod process;
mod read;
mod tls;
mod txn;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use storage::{
    KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Result, Revision, Store, Txn, TxnOutcome, WatchStream,
};
use tokio::task::AbortHandle;

use assemble::Previous;
use connection::Connections;
pub use endpoint::{Certificates, Endpoint, Renewal, SettingsError};
use inner::Inner;
pub use layout::Layout;
use tls::Tls;

/// Where etcd is, and how it is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// The members; one at a time is used.
    pub endpoints: Vec<Endpoint>,
    /// For `https`.
    pub certificates: Certificates,
    /// Reads them again for each connection.
    pub renewal: Option<Renewal>,
    /// The places of the store's keys.
    pub layout: Layout,
    /// The timeout of one request with all its attempts.
    pub timeout: Duration,
    /// The interval of compactions; `None` leaves them to another server or to etcd itself.
    pub compaction: Option<Duration>,
    /// The maximum size of the keys and values of one transaction, in bytes. etcd has a separate limit,
    /// `--max-request-bytes`.
    pub max_txn_bytes: usize,
}

impl Options {
    /// The defaults of kube-apiserver, for these members.
    pub fn new(endpoints: Vec<Endpoint>, layout: Layout) -> Self {
        Self {
            endpoints,
            certificates: Certificates::default(),
            renewal: None,
            layout,
            timeout: Duration::from_secs(10),
            compaction: Some(Duration::from_secs(300)),
            max_txn_bytes: storage::DEFAULT_MAX_TXN_BYTES,
        }
    }

    /// Validates the settings without connecting.
    ///
    /// # Errors
    /// No server, or unusable certificates.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.endpoints.is_empty() {
            return Err(SettingsError::NoServer);
        }
        self.certificates.config().map(drop)
    }
}

/// The size of etcd's database, of the member in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the file.
    pub file: u64,
    /// Bytes of it in use; `etcdctl defrag` releases the rest.
    pub used: u64,
    /// Whether the alarm NOSPACE is raised: etcd refuses writes.
    pub is_exceeded: bool,
    /// etcd's version.
    pub version: String,
}

/// The store in etcd. Clones share it; watches end when it is closed.
#[derive(Clone)]
pub struct EtcdStore(Arc<Handle>);

struct Handle {
    inner: Arc<Inner>,
    compactor: Option<AbortHandle>,
}

impl Handle {
    fn open(&self, range: KeyRange, after: Revision, previous: Previous) -> BoxFuture<'_, Result<WatchStream>> {
        async move { Ok(Box::pin(self.inner.open_watch(range, after, previous).await?) as WatchStream) }.boxed()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.closed.send_replace(true);
        if let Some(compactor) = &self.compactor {
            compactor.abort();
        }
    }
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Connects, and reads the revision once.
    ///
    /// # Errors
    /// When the settings are unusable, or no member answers.
    pub fn open(options: Options) -> BoxFuture<'static, Result<Self>> {
        async move {
            let failed = |error: SettingsError| storage::Error::Failed(error.to_string().into());
            options.check().map_err(failed)?;
            let tls = Tls::new(&options.certificates, options.renewal).map_err(failed)?;
            let connections = Connections::new(options.endpoints, tls, options.timeout);
            let inner = Inner::new(connections, options.layout, options.max_txn_bytes);
            inner.revision().await?;
            let compactor = options
                .compaction
                .map(|interval| tokio::spawn(compactor::run(Arc::downgrade(&inner), interval)).abort_handle());
            Ok(Self(Arc::new(Handle { inner, compactor })))
        }
        .boxed()
    }

    /// Whether no server has used the prefix: [`EtcdStore::claim`] was not called, and there is no key.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_empty(&self) -> BoxFuture<'_, Result<bool>> {
        async move { Ok(self.0.inner.count(&self.0.inner.layout.everything()).await? == 0) }.boxed()
    }

    /// Notes that a server uses the prefix.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn claim(&self) -> BoxFuture<'_, Result<()>> {
        async move { self.0.inner.put_marker().await.map(drop) }.boxed()
    }

    /// Whether the last request was answered, and the watches are connected.
    pub fn answers(&self) -> tokio::sync::watch::Receiver<bool> {
        self.0.inner.connections.answers()
    }

    /// Returns with the reason when etcd has another history than before, as after the restore of a snapshot: this process's
    /// state is not etcd's. All requests and watches fail from then on.
    pub fn replaced(&self) -> BoxFuture<'static, Arc<str>> {
        let mut replaced = self.0.inner.connections.history.breaks();
        async move {
            let reason = replaced.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
            match reason {
                Some(reason) => reason,
                // The store is dropped.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    /// Becomes `true` when the store is closed.
    pub fn closed(&self) -> tokio::sync::watch::Receiver<bool> {
        self.0.inner.closed.subscribe()
    }

    /// The size of the database.
    ///
    /// # Errors
    /// When no member answers.
    pub fn size(&self) -> BoxFuture<'_, Result<Size>> {
        async move {
            let status = self.0.inner.status().await?;
            Ok(Size {
                file: status.db_size.max(0).cast_unsigned(),
                used: status.db_size_in_use.max(0).cast_unsigned(),
                is_exceeded: status.errors.iter().any(|error| error.contains("alarm:NOSPACE")),
                version: status.version,
            })
        }
        .boxed()
    }

    /// Ends all watches.
    pub fn close(&self) {
        self.0.inner.closed.send_replace(true);
    }
}

impl Store for EtcdStore {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        self.0.inner.revision().boxed()
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>> {
        async move { self.0.inner.read_one(&key, revision).await }.boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        self.0.inner.read(request).boxed()
    }

    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        self.0.inner.divide(range, parts).boxed()
    }

    fn written_revision(&self) -> Option<Revision> {
        Some(self.0.inner.written())
    }

    fn shares_revisions(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        async move { self.0.inner.commit(&[txn]).await?.pop().ok_or(storage::Error::Closed) }.boxed()
    }

    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>> {
        async move { self.0.inner.commit(&txns).await }.boxed()
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        self.0.open(range, after, Previous::Read)
    }

    fn follow(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        self.0.open(range, after, Previous::Omitted)
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<()>> {
        let newest = self.0.inner.newest();
        self.0.inner.wanted.send_if_modified(|wanted| {
            let grows = newest > *wanted;
            *wanted = newest.max(*wanted);
            grows
        });
        std::future::ready(Ok(())).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.0.inner.compact(revision).boxed()
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        self.0.inner.grant(ttl).boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.0.inner.keep_alive(lease).boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.0.inner.revoke(lease).boxed()
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        self.0.inner.verify().boxed()
    }
}
