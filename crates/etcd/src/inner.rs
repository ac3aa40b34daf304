//! The state that the store, its watches and its tasks share, and the requests that are simple.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use storage::{Error, KeyRange, LeaseId, Op, Result, Revision, Txn, TxnOutcome};

use crate::connection::Connections;
use crate::failure::{Access, Failure, Meaning};
use crate::history::Anchor;
use crate::layout::Layout;
use crate::txn::{self, lease_of, outcomes, revision};
use crate::wire;

pub(crate) struct Inner {
    pub connections: Connections,
    pub layout: Layout,
    /// Bytes of a transaction.
    pub limit: usize,
    me: Weak<Inner>,
    /// The highest revision that etcd has reported.
    newest: AtomicU64,
    /// The highest revision of a transaction of this process.
    written: AtomicU64,
    /// The next request for the revision, which has not been sent.
    next_revision: Mutex<Option<Shared<BoxFuture<'static, Result<Revision>>>>>,
    one_revision: Arc<tokio::sync::Mutex<()>>,
    /// Watches deliver at least this revision.
    pub wanted: tokio::sync::watch::Sender<Revision>,
    pub closed: tokio::sync::watch::Sender<bool>,
    /// The revision of the last marker.
    marked: Arc<tokio::sync::Mutex<Revision>>,
}

impl Inner {
    pub fn new(connections: Connections, layout: Layout, limit: usize) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            connections,
            layout,
            limit,
            me: Weak::clone(me),
            newest: AtomicU64::new(0),
            written: AtomicU64::new(0),
            next_revision: Mutex::default(),
            one_revision: Arc::default(),
            wanted: tokio::sync::watch::Sender::new(0),
            closed: tokio::sync::watch::Sender::new(false),
            marked: Arc::default(),
        })
    }

    pub fn newest(&self) -> Revision {
        self.newest.load(SeqCst)
    }

    pub fn written(&self) -> Revision {
        self.written.load(SeqCst)
    }

    /// A watch has delivered this revision.
    pub fn has_seen(&self, revision: Revision) {
        self.newest.fetch_max(revision, SeqCst);
    }

    /// Records the revision of a response to a request that was sent when `before` was the newest one.
    ///
    /// # Errors
    /// When etcd has an older revision, as after a restored backup: this process's state is no longer valid, and no request
    /// is sent any more.
    pub fn observe(&self, header: Option<&wire::ResponseHeader>, before: Revision) -> Result<()> {
        let reached = revision(header);
        if reached < before {
            let reason = format!("etcd is at revision {reached} and has reported {before} before");
            return Err(Error::Failed(self.connections.break_history(&reason)));
        }
        self.newest.fetch_max(reached, SeqCst);
        Ok(())
    }

    /// The newest revision at a moment after the call. Concurrent calls share a request that is sent after all of them.
    pub async fn revision(&self) -> Result<Revision> {
        let request = {
            let mut next = self.next_revision.lock();
            match &*next {
                Some(request) => request.clone(),
                None => {
                    let (me, one) = (Weak::clone(&self.me), Arc::clone(&self.one_revision));
                    let send = async move {
                        let _one = one.lock().await;
                        let inner = me.upgrade().ok_or(Error::Closed)?;
                        // Later callers need another request.
                        inner.next_revision.lock().take();
                        inner.read_revision().await
                    };
                    next.insert(send.boxed().shared()).clone()
                }
            }
        };
        request.await
    }

    async fn read_revision(&self) -> Result<Revision> {
        let before = self.newest();
        let request = wire::RangeRequest { key: self.layout.marker(), count_only: true, ..Default::default() };
        let answer = self.connections.request::<_, wire::RangeResponse>(wire::RANGE, request, Access::Read).await;
        let answer = answer.map_err(|failure| failure.error(Access::Read))?;
        self.observe(answer.header.as_ref(), before)?;
        Ok(revision(answer.header.as_ref()))
    }

    pub async fn commit(&self, txns: &[Txn]) -> Result<Vec<TxnOutcome>> {
        if txns.is_empty() {
            return Ok(Vec::new());
        }
        let request = txn::request(txns, &self.layout, self.limit)?;
        let before = self.newest();
        match self.connections.request::<_, wire::TxnResponse>(wire::TXN, request, Access::Write).await {
            Ok(answer) => {
                self.observe(answer.header.as_ref(), before)?;
                self.note(txns, &answer);
                if answer.succeeded {
                    self.written.fetch_max(revision(answer.header.as_ref()), SeqCst);
                }
                Ok(outcomes(answer, txns, &self.layout))
            }
            Err(failure) => Err(match (failure.meaning(), lease_of(txns)) {
                (Meaning::NoLease, Some(lease)) => Error::LeaseNotFound(lease),
                (Meaning::NoSpace, _) => self.without_space(txns, &failure).await,
                _ => failure.error(Access::Write),
            }),
        }
    }

    /// The error of transactions that etcd refused for lack of space: it may have applied them, as it does with the ones
    /// that raise the alarm.
    async fn without_space(&self, txns: &[Txn], failure: &Failure) -> Error {
        let nothing_written = match txn::confirmation(txns, &self.layout) {
            Some(request) => {
                let answer = self.connections.request::<_, wire::TxnResponse>(wire::TXN, request, Access::Read).await;
                answer.is_ok_and(|answer| answer.succeeded)
            }
            None => false,
        };
        let error = failure.error(Access::Write);
        if nothing_written { error } else { Error::Uncertain(format!("the write may be stored: {error}").into()) }
    }

    fn note(&self, txns: &[Txn], answer: &wire::TxnResponse) {
        let last = txns.iter().rev().find_map(|txn| match txn.ops.last() {
            Some(Op::Put { key, value, .. }) => Some((key, value)),
            _ => None,
        });
        if let Some((key, value)) = last.filter(|_| answer.succeeded) {
            let revision = revision(answer.header.as_ref()).cast_signed();
            self.connections.history.note(Anchor { key: self.layout.to_etcd(key), value: value.clone(), revision });
        }
    }

    pub async fn compact(&self, revision: Revision) -> Result<()> {
        if revision == 0 {
            // Nothing was stored at it, and etcd would treat it as the newest.
            return match self.oldest().await? {
                0 => Ok(()),
                oldest => Err(Error::Compacted { requested: 0, oldest }),
            };
        }
        let request = wire::CompactionRequest { revision: revision.cast_signed() };
        let answer =
            self.connections.request::<_, wire::CompactionResponse>(wire::COMPACT, request, Access::Read).await;
        match answer {
            Ok(_) => Ok(()),
            Err(failure) => match self.error_at(failure, Access::Read, revision).await {
                // etcd refuses to compact twice to one revision.
                Error::Compacted { oldest, .. } if oldest <= revision => Ok(()),
                error => Err(error),
            },
        }
    }

    pub async fn grant(&self, ttl: u64) -> Result<LeaseId> {
        let request = wire::LeaseGrantRequest { ttl: i64::try_from(ttl.max(1)).unwrap_or(i64::MAX) };
        // A lease whose answer is lost ends by itself.
        let answer =
            self.connections.request::<_, wire::LeaseGrantResponse>(wire::LEASE_GRANT, request, Access::Read).await;
        answer.map(|granted| LeaseId(granted.id.cast_unsigned())).map_err(|failure| failure.error(Access::Read))
    }

    pub async fn revoke(&self, lease: LeaseId) -> Result<()> {
        let request = wire::LeaseRevokeRequest { id: lease.0.cast_signed() };
        let answer =
            self.connections.request::<_, wire::LeaseRevokeResponse>(wire::LEASE_REVOKE, request, Access::Write);
        match answer.await {
            Ok(_) => Ok(()),
            Err(failure) if failure.meaning() == Meaning::NoLease => Err(Error::LeaseNotFound(lease)),
            Err(failure) => Err(failure.error(Access::Write)),
        }
    }

    pub async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        let error = |failure: Failure| failure.error(Access::Read);
        let peer = self.connections.peer().await.map_err(error)?;
        let request = wire::LeaseKeepAliveRequest { id: lease.0.cast_signed() };
        let messages = futures::stream::once(std::future::ready(request));
        let mut answers =
            peer.stream::<_, wire::LeaseKeepAliveResponse>(wire::LEASE_KEEP_ALIVE, messages).await.map_err(error)?;
        match answers.message().await {
            Ok(Some(answer)) if answer.ttl > 0 => Ok(()),
            Ok(_) => Err(Error::LeaseNotFound(lease)),
            Err(status) => Err(error(peer.broken(&status))),
        }
    }

    /// The size of the database, of the member in use.
    pub async fn status(&self) -> Result<wire::StatusResponse> {
        let answer = self.connections.request(wire::STATUS, wire::StatusRequest {}, Access::Read).await;
        answer.map_err(|failure| failure.error(Access::Read))
    }

    /// No member has raised an alarm.
    pub async fn verify(&self) -> Result<()> {
        let answer = self.connections.request::<_, wire::AlarmResponse>(
            wire::ALARM,
            wire::AlarmRequest::default(),
            Access::Read,
        );
        let alarms = answer.await.map_err(|failure| failure.error(Access::Read))?.alarms;
        match alarms.first() {
            None => Ok(()),
            Some(wire::AlarmMember { member_id, alarm: wire::ALARM_NO_SPACE }) => Err(Error::Alarm(
                format!("member {member_id:x} of etcd has raised the alarm NOSPACE: free space, then run `etcdctl alarm disarm`")
                    .into(),
            )),
            Some(wire::AlarmMember { member_id, .. }) => Err(Error::Failed(
                format!("member {member_id:x} of etcd has raised the alarm CORRUPT: replace the member").into(),
            )),
        }
    }

    /// Writes the marker in the background, unless one has been written at or after `target`. Every watch of everything
    /// then reports its revision.
    pub fn mark(&self, target: Revision) {
        let Some(inner) = self.me.upgrade() else { return };
        let marked = Arc::clone(&self.marked);
        tokio::spawn(async move {
            let mut marked = marked.lock().await;
            if *marked >= target {
                return;
            }
            match inner.put_marker().await {
                Ok(revision) => *marked = revision,
                Err(error) => tracing::debug!(err = %error, "etcd: no progress marker; another follows"),
            }
        });
    }

    /// Returns the revision of the marker.
    pub async fn put_marker(&self) -> Result<Revision> {
        let request = wire::PutRequest { key: self.layout.marker(), ..Default::default() };
        // A marker may be written twice.
        let answer = self.connections.request::<_, wire::PutResponse>(wire::PUT, request, Access::Read).await;
        answer.map(|put| revision(put.header.as_ref())).map_err(|failure| failure.error(Access::Read))
    }

    /// The revision that etcd has been compacted to, or 0. A watch of the past is the only way to learn it.
    pub async fn oldest(&self) -> Result<Revision> {
        let failed = |failure: Failure| failure.error(Access::Read);
        let peer = self.connections.peer().await.map_err(failed)?;
        let KeyRange { start: key, .. } = KeyRange::prefix(self.layout.marker());
        let create = wire::WatchCreateRequest { key, start_revision: 1, progress_notify: true, ..Default::default() };
        let create = wire::WatchRequest { request: Some(wire::Watching::Create(create)) };
        // The watch stays open until it is dropped.
        let messages = futures::StreamExt::chain(futures::stream::iter([create]), futures::stream::pending());
        let mut answers = peer.stream::<_, wire::WatchResponse>(wire::WATCH, messages).await.map_err(failed)?;
        // etcd refuses within its loop over watches of the past, every 100 ms.
        let refused = async {
            while let Some(answer) = answers.message().await.map_err(|status| failed(peer.broken(&status)))? {
                if answer.compact_revision > 0 {
                    return Ok(answer.compact_revision.cast_unsigned());
                }
            }
            Ok(0)
        };
        tokio::time::timeout(std::time::Duration::from_secs(1), refused).await.unwrap_or(Ok(0))
    }

    /// The error of a request about a revision.
    pub async fn error_at(&self, failure: Failure, access: Access, requested: Revision) -> Error {
        match failure.meaning() {
            Meaning::Compacted => {
                self.oldest().await.map_or_else(|error| error, |oldest| Error::Compacted { requested, oldest })
            }
            Meaning::Future => {
                self.revision().await.map_or_else(|error| error, |newest| Error::FutureRevision { requested, newest })
            }
            _ => failure.error(access),
        }
    }
}
