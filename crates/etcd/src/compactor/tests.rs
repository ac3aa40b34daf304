//! Servers that agree by the clock, on an etcd with counted seconds.

use std::collections::BTreeMap;

use super::*;

/// Seconds.
const INTERVAL: u64 = 300;
const SECONDS: u64 = 20 * INTERVAL;

/// An etcd with another change in each second.
#[derive(Default)]
struct Model {
    now: u64,
    revision: i64,
    keys: BTreeMap<Bytes, wire::KeyValue>,
    /// The end of each lease.
    leases: Vec<u64>,
    /// The last revision of each second.
    history: Vec<Revision>,
    /// When, and to which revision.
    compacted: Vec<(u64, Revision)>,
}

impl Model {
    fn pass(&mut self) {
        self.history.push(self.revision.cast_unsigned());
        self.now += 1;
        self.revision += 1;
    }

    fn grant(&mut self) -> LeaseId {
        self.leases.push(self.now + INTERVAL);
        LeaseId(self.leases.len() as u64 - 1)
    }

    fn rest(&self, lease: LeaseId) -> u64 {
        let end = self.leases[usize::try_from(lease.0).expect("a lease")];
        end.saturating_sub(self.now)
    }

    fn answer(&mut self, request: &wire::TxnRequest) -> wire::TxnResponse {
        let version = |key: &Bytes| self.keys.get(key).map_or(0, |kv| kv.version);
        let succeeded = request.compare.iter().all(|it| it.value == Some(Target::Version(version(&it.key))));
        let ops = if succeeded { &request.success } else { &request.failure };
        self.revision += i64::from(ops.iter().any(|op| matches!(op.request, Some(Request::Put(_)))));
        let responses = ops.iter().map(|op| self.execute(op)).collect();
        let header = Some(wire::ResponseHeader { revision: self.revision, ..Default::default() });
        wire::TxnResponse { header, succeeded, responses }
    }

    fn execute(&mut self, op: &wire::RequestOp) -> wire::ResponseOp {
        let response = match op.request.as_ref().expect("a request") {
            Request::Range(range) => Response::Range(wire::RangeResponse {
                kvs: self.keys.get(&range.key).into_iter().cloned().collect(),
                ..Default::default()
            }),
            Request::Put(put) => {
                let kv = self.keys.entry(put.key.clone()).or_default();
                (kv.version, kv.mod_revision, kv.value) = (kv.version + 1, self.revision, put.value.clone());
                Response::Put(wire::PutResponse::default())
            }
            Request::DeleteRange(_) => panic!("nothing is deleted"),
        };
        wire::ResponseOp { response: Some(response) }
    }
}

/// One of our servers: it sends the requests of [`run`].
struct Server {
    record: Bytes,
    next: Option<(Clock, u64)>,
}

impl Server {
    fn new(prefix: &str) -> Self {
        Self { record: crate::Layout::new(prefix, []).compaction(), next: None }
    }

    fn step(&mut self, etcd: &mut Model) {
        let Some((clock, due)) = self.next else {
            let Found { clock, lease } = Found::from(&etcd.answer(&look(&self.record)));
            let wait = lease.map_or(INTERVAL, |lease| etcd.rest(lease));
            if lease.is_none() {
                let lease = etcd.grant();
                etcd.answer(&clock.record(&self.record, lease));
            }
            self.next = Some((clock, etcd.now + wait));
            return;
        };
        if etcd.now < due {
            return;
        }
        self.next = None;
        let lease = etcd.grant();
        if etcd.answer(&clock.advance(&self.record, lease)).succeeded && clock.moved_at > 0 {
            etcd.compacted.push((etcd.now, clock.moved_at));
        }
    }
}

/// A kube-apiserver counts the interval from its own start, and keeps its state in memory.
#[derive(Default)]
struct Upstream {
    clock: Clock,
    age: u64,
}

impl Upstream {
    fn step(&mut self, etcd: &mut Model) {
        self.age += 1;
        if !self.age.is_multiple_of(INTERVAL) {
            return;
        }
        let put = wire::PutRequest { key: KEY.into(), value: self.clock.moved_at.to_string().into(), lease: 0 };
        let read = wire::RangeRequest { key: KEY.into(), ..Default::default() };
        let request = wire::TxnRequest {
            compare: vec![self.clock.is_current()],
            success: vec![op(Request::Put(put))],
            failure: vec![op(Request::Range(read))],
        };
        let answer = etcd.answer(&request);
        if answer.succeeded {
            self.clock.moves += 1;
            if self.clock.moved_at > 0 {
                etcd.compacted.push((etcd.now, self.clock.moved_at));
            }
        } else {
            self.clock.moves = Found::from(&answer).clock.moves;
        }
        self.clock.moved_at = etcd.revision.cast_unsigned();
    }
}

/// Runs servers of ours with these prefixes that live for so many seconds, and kube-apiservers that never restart. Returns
/// the longest time without a compaction.
fn longest_pause(what: &str, prefixes: &[&str], life: u64, upstream: usize) -> u64 {
    let mut etcd = Model::default();
    let mut ours: Vec<_> = prefixes.iter().copied().map(Server::new).collect();
    let mut others: Vec<_> = (0..upstream).map(|_| Upstream::default()).collect();
    for second in 0..SECONDS {
        etcd.pass();
        for (place, server) in ours.iter_mut().enumerate() {
            // Not all at once.
            if (second + 7 * place as u64).is_multiple_of(life) {
                server.next = None;
            }
            server.step(&mut etcd);
        }
        others.iter_mut().for_each(|other| other.step(&mut etcd));
    }
    for (at, revision) in &etcd.compacted {
        let before = usize::try_from(at - INTERVAL).expect("small") + 1;
        assert!(*revision <= etcd.history[before], "{what}: the last interval is kept, at {at}: {revision}");
    }
    let (mut longest, mut last) = (0, 0);
    for at in etcd.compacted.iter().map(|(at, _)| *at).chain([SECONDS]) {
        longest = longest.max(at - std::mem::replace(&mut last, at));
    }
    longest
}

#[test]
fn history_is_compacted_however_often_servers_restart() {
    let forever = u64::MAX;
    for (what, prefixes, life, upstream) in [
        ("one server", &["/registry"][..], forever, 0),
        ("one that restarts", &["/registry"], INTERVAL / 4, 0),
        ("three", &["/registry"; 3], forever, 0),
        ("three that restart", &["/registry"; 3], INTERVAL / 3, 0),
        ("control planes of different prefixes", &["/a", "/b"], INTERVAL / 5, 0),
        ("one beside kube-apiservers", &["/registry"], forever, 2),
        ("one that restarts beside kube-apiservers", &["/registry"], INTERVAL / 2, 2),
        ("kube-apiservers alone", &[], forever, 2),
    ] {
        let longest = longest_pause(what, prefixes, life, upstream);
        // As in kube-apiserver, the first compaction follows the second move of the clock.
        assert!(longest <= 2 * INTERVAL + 20, "{what}: {longest}");
    }
}
