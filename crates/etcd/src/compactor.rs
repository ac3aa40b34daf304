//! Compaction as kube-apiserver does it: every interval, the history before the revision of the interval before is
//! dropped. All servers on one etcd agree by a key, `compact_rev_key`, whose version is their clock: only the server
//! that has moved the clock compacts, to the revision at which the clock was moved before.
//!
//! kube-apiserver counts the interval from its own start, so servers that restart more often never compact. Here, a
//! lease for the interval is granted with each move of the clock, and recorded: a server that starts later waits for
//! the rest of it. etcd measures the time, so no server's clock matters.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use storage::{Error, LeaseId, Result, Revision};

use crate::failure::Access;
use crate::inner::Inner;
use crate::txn::op;
use crate::wire::{self, Request, Response, Target};

/// It has no prefix, in etcd.
const KEY: &str = "compact_rev_key";

/// The clock, as a server finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Clock {
    /// How often it was moved, the version of the key.
    moves: i64,
    /// The store's revision at its last move.
    moved_at: Revision,
}

/// The clock, and the lease that was granted at its last move. A kube-apiserver grants none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    clock: Clock,
    lease: Option<LeaseId>,
}

/// Reads the clock and the record of its lease.
fn look(record: &Bytes) -> wire::TxnRequest {
    let read = |key| op(Request::Range(wire::RangeRequest { key, ..Default::default() }));
    let success = vec![read(KEY.into()), read(record.clone())];
    wire::TxnRequest { success, ..Default::default() }
}

impl From<&wire::TxnResponse> for Found {
    fn from(answer: &wire::TxnResponse) -> Self {
        let mut found = answer.responses.iter().map(|it| match &it.response {
            Some(Response::Range(range)) => range.kvs.first(),
            _ => None,
        });
        let key = found.next().flatten();
        let clock = key.map_or_else(Clock::default, |kv| Clock {
            moves: kv.version,
            moved_at: kv.mod_revision.max(0).cast_unsigned(),
        });
        let record = found.next().flatten().and_then(|kv| recorded(&kv.value));
        let lease = record.filter(|(moves, _)| *moves == clock.moves).map(|(_, lease)| lease);
        Self { clock, lease }
    }
}

/// The moves of the clock, and the lease of the last one.
fn recorded(value: &[u8]) -> Option<(i64, LeaseId)> {
    let (moves, lease) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    Some((moves.parse().ok()?, LeaseId(lease.parse().ok()?)))
}

impl Clock {
    /// Records the lease of this state, unless the clock was moved meanwhile.
    fn record(self, record: &Bytes, lease: LeaseId) -> wire::TxnRequest {
        let value = format!("{} {}", self.moves, lease.0).into();
        let put = wire::PutRequest { key: record.clone(), value, lease: 0 };
        wire::TxnRequest { compare: vec![self.is_current()], success: vec![op(Request::Put(put))], failure: Vec::new() }
    }

    /// Moves the clock, with the lease of its next state, unless it was moved meanwhile.
    fn advance(self, record: &Bytes, lease: LeaseId) -> wire::TxnRequest {
        let value = self.moved_at.to_string().into();
        let put = wire::PutRequest { key: KEY.into(), value, lease: 0 };
        let mut request = Self { moves: self.moves + 1, ..self }.record(record, lease);
        request.compare = vec![self.is_current()];
        request.success.push(op(Request::Put(put)));
        request
    }

    fn is_current(self) -> wire::Compare {
        let value = Some(Target::Version(self.moves));
        wire::Compare { target: wire::COMPARE_VERSION, key: KEY.into(), value }
    }
}

/// Runs until the store is dropped.
pub(crate) async fn run(inner: Weak<Inner>, interval: Duration) {
    loop {
        let due = match inner.upgrade() {
            Some(inner) => inner.due(interval).await,
            None => return,
        };
        let ticked = match due {
            Ok((clock, wait)) => {
                tokio::time::sleep(wait).await;
                let Some(inner) = inner.upgrade() else { return };
                inner.tick(clock, interval).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ticked {
            tracing::warn!(err = %error, "etcd cannot be compacted; the next attempt follows in {interval:?}");
            tokio::time::sleep(interval).await;
        }
    }
}

impl Inner {
    /// The clock, and how long it must not be moved.
    async fn due(&self, interval: Duration) -> Result<(Clock, Duration)> {
        let record = self.layout.compaction();
        let Found { clock, lease } = Found::from(&self.send_txn(look(&record), Access::Read).await?);
        if let Some(lease) = lease {
            return Ok((clock, self.rest(lease).await?));
        }
        // It is unknown when the clock was moved.
        let lease = self.lease(interval).await?;
        self.send_txn(clock.record(&record, lease), Access::Write).await?;
        Ok((clock, interval))
    }

    async fn tick(&self, clock: Clock, interval: Duration) -> Result<()> {
        let lease = self.lease(interval).await?;
        let answer = self.send_txn(clock.advance(&self.layout.compaction(), lease), Access::Write).await?;
        if !answer.succeeded || clock.moved_at == 0 {
            tracing::debug!(?clock, "etcd is compacted by another server, or after the next interval");
            return Ok(());
        }
        match self.compact(clock.moved_at).await {
            Ok(()) => tracing::debug!(revision = clock.moved_at, "etcd compacted"),
            // Another server, or an operator, has compacted further.
            Err(Error::Compacted { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn send_txn(&self, request: wire::TxnRequest, access: Access) -> Result<wire::TxnResponse> {
        let answer = self.connections.request(wire::TXN, request, access).await;
        answer.map_err(|failure| failure.error(access))
    }

    /// In whole seconds, as etcd counts them.
    async fn lease(&self, interval: Duration) -> Result<LeaseId> {
        self.grant(interval.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)).await
    }

    /// How long a lease lasts; zero if it has ended.
    async fn rest(&self, lease: LeaseId) -> Result<Duration> {
        let request = wire::LeaseTimeToLiveRequest { id: lease.0.cast_signed() };
        let answer = self.connections.request(wire::LEASE_TIME_TO_LIVE, request, Access::Read).await;
        let answer: wire::LeaseTimeToLiveResponse = answer.map_err(|failure| failure.error(Access::Read))?;
        // Whole seconds, rounded down.
        Ok(u64::try_from(answer.ttl).map_or(Duration::ZERO, |seconds| Duration::from_secs(seconds + 1)))
    }
}

#[cfg(test)]
mod tests;
