//! Compaction as kube-apiserver does it: every interval, the history before the revision of the interval before is dropped.
//! All servers on one etcd agree by a key, `compact_rev_key`, whose version is their clock: only the server that has moved
//! the clock compacts.

use std::sync::Weak;
use std::time::Duration;

use storage::{Error, Result, Revision};

use crate::failure::Access;
use crate::inner::Inner;
use crate::txn::revision;
use crate::wire::{self, Request, Response, Target};

/// It has no prefix, in etcd.
const KEY: &str = "compact_rev_key";

/// The state of one server between intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The version of the key.
    time: i64,
    /// The store's revision at that time.
    revision: Revision,
}

impl Clock {
    pub fn request(self) -> wire::TxnRequest {
        let op = |request| vec![wire::RequestOp { request: Some(request) }];
        let value = self.revision.to_string().into();
        wire::TxnRequest {
            compare: vec![wire::Compare {
                target: wire::COMPARE_VERSION,
                key: KEY.into(),
                value: Some(Target::Version(self.time)),
            }],
            success: op(Request::Put(wire::PutRequest { key: KEY.into(), value, lease: 0 })),
            failure: op(Request::Range(wire::RangeRequest { key: KEY.into(), ..Default::default() })),
        }
    }

    /// The new state, and the revision to compact to if this server has advanced the clock.
    pub fn next(self, answer: &wire::TxnResponse) -> (Self, Option<Revision>) {
        let revision = revision(answer.header.as_ref());
        if answer.succeeded {
            return (Self { time: self.time + 1, revision }, (self.revision > 0).then_some(self.revision));
        }
        let version = answer.responses.iter().find_map(|it| match &it.response {
            Some(Response::Range(range)) => range.kvs.first().map(|kv| kv.version),
            _ => None,
        });
        (Self { time: version.unwrap_or(0), revision }, None)
    }
}

/// Runs until the store is dropped.
pub(crate) async fn run(inner: Weak<Inner>, interval: Duration) {
    let mut clock = Clock::default();
    loop {
        tokio::time::sleep(interval).await;
        let Some(inner) = inner.upgrade() else { return };
        match inner.tick(clock).await {
            Ok(next) => clock = next,
            Err(error) => {
                tracing::warn!(err = %error, "etcd cannot be compacted; the next attempt follows in {interval:?}")
            }
        }
    }
}

impl Inner {
    async fn tick(&self, clock: Clock) -> Result<Clock> {
        let answer = self.connections.request(wire::TXN, clock.request(), Access::Write).await;
        let (next, compact) = clock.next(&answer.map_err(|failure| failure.error(Access::Write))?);
        match compact {
            Some(revision) => match self.compact(revision).await {
                Ok(()) => tracing::debug!(revision, "etcd compacted"),
                // Another server, or an operator, has compacted further.
                Err(Error::Compacted { .. }) => {}
                Err(error) => return Err(error),
            },
            None => tracing::debug!(?next, "etcd is compacted by another server, or at the next interval"),
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with the key alone, at a revision that grows by ten an interval.
    #[derive(Default)]
    struct Model {
        version: i64,
        revision: i64,
    }

    impl Model {
        fn answer(&mut self, request: &wire::TxnRequest) -> wire::TxnResponse {
            let succeeded = request.compare[0].value == Some(Target::Version(self.version));
            self.revision += i64::from(succeeded);
            self.version += i64::from(succeeded);
            let kv = wire::KeyValue { version: self.version, ..Default::default() };
            let range = wire::RangeResponse { kvs: vec![kv], ..Default::default() };
            wire::TxnResponse {
                header: Some(wire::ResponseHeader { revision: self.revision, ..Default::default() }),
                succeeded,
                responses: vec![wire::ResponseOp { response: Some(Response::Range(range)) }],
            }
        }
    }

    #[test]
    fn one_of_several_servers_compacts_to_the_last_interval() {
        let mut model = Model { version: 0, revision: 100 };
        let mut clocks = [Clock::default(); 3];
        let mut compacted = Vec::new();
        for interval in 0..6 {
            model.revision += 10;
            // The first server of a turn advances the clock.
            for turn in 0..3 {
                let server = (interval + turn) % 3;
                let (next, compact) = clocks[server].next(&model.answer(&clocks[server].request()));
                clocks[server] = next;
                compacted.extend(compact.map(|revision| (interval, revision)));
            }
        }
        let intervals: Vec<_> = compacted.iter().map(|(interval, _)| *interval).collect();
        assert!(intervals.windows(2).all(|pair| pair[0] < pair[1]), "once an interval at most: {compacted:?}");
        assert!(compacted.len() >= 4, "{compacted:?}");
        for (interval, revision) in compacted {
            let revision = i64::try_from(revision).expect("small");
            assert!(revision <= 100 + 10 * i64::try_from(interval).expect("small") + 6, "{interval}: {revision}");
        }
    }
}
