//! Transactions of the store as one transaction of etcd, and its answer.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use storage::{Error, Guard, KeyValue, LeaseId, Op, Result, Revision, Txn, TxnOutcome};

use crate::layout::Layout;
use crate::wire::{self, Request, Response, Target};

/// A modification revision that no key has.
const NEVER: i64 = -1;
/// The bytes of an op or a guard besides its key and value.
const OP_BYTES: usize = 64;

/// The request for transactions that are committed together.
///
/// # Errors
/// [`Error::OverLimit`] when one of them depends on a change of an earlier one, which one transaction of etcd cannot
/// express; [`Error::TooLarge`].
pub(crate) fn request(txns: &[Txn], layout: &Layout, limit: usize) -> Result<wire::TxnRequest> {
    let ops = last_op_of_each_key(txns)?;
    let guards = || txns.iter().flat_map(|txn| &txn.guards);
    let size = size(guards(), ops.values().copied());
    if size > limit {
        return Err(Error::TooLarge { size, limit });
    }
    let mut compare: Vec<wire::Compare> = Vec::new();
    for guard in guards() {
        let guard = compared(guard, layout);
        if !compare.contains(&guard) {
            compare.push(guard);
        }
    }
    let read = |key: &Bytes| op(Request::Range(wire::RangeRequest { key: layout.to_etcd(key), ..Default::default() }));
    let success = ops.values().map(|change| match change {
        Op::Put { key, value, lease } => op(Request::Put(wire::PutRequest {
            key: layout.to_etcd(key),
            value: value.clone(),
            lease: lease.map_or(0, |lease| lease.0.cast_signed()),
        })),
        Op::Delete { key } => op(Request::DeleteRange(wire::DeleteRangeRequest { key: layout.to_etcd(key) })),
    });
    Ok(wire::TxnRequest { compare, success: success.collect(), failure: guarded(txns).into_iter().map(read).collect() })
}

/// A request that succeeds only if a transaction with these was not applied: a guard still holds that its ops would have
/// invalidated. `None` without such a guard.
pub(crate) fn confirmation(txns: &[Txn], layout: &Layout) -> Option<wire::TxnRequest> {
    let is_invalidated = |guard: &Guard, op: &Op| match (guard, op) {
        (Guard::Absent(key), Op::Put { key: changed, .. })
        | (Guard::ModRevision(key, _), Op::Put { key: changed, .. } | Op::Delete { key: changed }) => key == changed,
        (Guard::Absent(_), Op::Delete { .. }) => false,
    };
    let decisive = |txn: &'_ Txn| {
        let guard = txn.guards.iter().find(|guard| txn.ops.iter().any(|op| is_invalidated(guard, op)))?;
        Some((compared(guard, layout), layout.to_etcd(guard.key())))
    };
    let (guard, key) = txns.iter().find_map(decisive)?;
    // A transaction without a linearizable read would be answered from the member's own state.
    let read = op(Request::Range(wire::RangeRequest { key, ..Default::default() }));
    Some(wire::TxnRequest { compare: vec![guard], success: vec![read.clone()], failure: vec![read] })
}

/// The outcome of each transaction.
pub(crate) fn outcomes(answer: wire::TxnResponse, txns: &[Txn], layout: &Layout) -> Vec<TxnOutcome> {
    let revision = revision(answer.header.as_ref());
    if answer.succeeded {
        return txns.iter().map(|_| TxnOutcome::Committed { revision }).collect();
    }
    let found = answer.responses.into_iter().map(|it| match it.response {
        Some(Response::Range(range)) => range.kvs.into_iter().next().and_then(|kv| key_value(kv, layout)),
        _ => None,
    });
    let current: BTreeMap<&Bytes, Option<KeyValue>> = guarded(txns).into_iter().zip(found).collect();
    let state = |guard: &Guard| current.get(guard.key()).cloned().flatten();
    txns.iter().map(|txn| TxnOutcome::Failed { current: txn.guards.iter().map(state).collect(), revision }).collect()
}

/// The lease that a failed transaction may have lacked.
pub(crate) fn lease_of(txns: &[Txn]) -> Option<LeaseId> {
    txns.iter().flat_map(|txn| &txn.ops).find_map(|op| match op {
        Op::Put { lease, .. } => *lease,
        Op::Delete { .. } => None,
    })
}

pub(crate) fn revision(header: Option<&wire::ResponseHeader>) -> Revision {
    header.map_or(0, |header| header.revision.max(0).cast_unsigned())
}

/// `None` for a key that is not the store's.
pub(crate) fn key_value(kv: wire::KeyValue, layout: &Layout) -> Option<KeyValue> {
    Some(KeyValue {
        key: layout.to_store(&kv.key)?,
        value: kv.value,
        create_revision: kv.create_revision.cast_unsigned(),
        mod_revision: kv.mod_revision.cast_unsigned(),
        lease: (kv.lease != 0).then(|| LeaseId(kv.lease.cast_unsigned())),
    })
}

pub(crate) fn op(request: Request) -> wire::RequestOp {
    wire::RequestOp { request: Some(request) }
}

fn compared(guard: &Guard, layout: &Layout) -> wire::Compare {
    let expected = match guard {
        // etcd compares an absent key as one that was modified at 0.
        Guard::Absent(_) => 0,
        Guard::ModRevision(_, 0) => NEVER,
        Guard::ModRevision(_, revision) => revision.cast_signed(),
    };
    wire::Compare {
        target: wire::COMPARE_MOD,
        key: layout.to_etcd(guard.key()),
        value: Some(Target::ModRevision(expected)),
    }
}

/// The guarded keys, each once.
fn guarded(txns: &[Txn]) -> BTreeSet<&Bytes> {
    txns.iter().flat_map(|txn| &txn.guards).map(Guard::key).collect()
}

/// etcd changes a key once in a transaction, and decides all guards by the state before.
fn last_op_of_each_key(txns: &[Txn]) -> Result<BTreeMap<&Bytes, &Op>> {
    let mut all: BTreeMap<&Bytes, &Op> = BTreeMap::new();
    for txn in txns {
        let ops: BTreeMap<&Bytes, &Op> = txn
            .ops
            .iter()
            .map(|op| match op {
                Op::Put { key, .. } | Op::Delete { key } => (key, op),
            })
            .collect();
        let about = txn.guards.iter().map(Guard::key).chain(ops.keys().copied());
        if let Some(key) = about.into_iter().find(|key| all.contains_key(*key)) {
            let key = String::from_utf8_lossy(key);
            return Err(Error::OverLimit(
                format!(
                    "one transaction of etcd cannot change {key} and depend on that change; write one after the other"
                )
                .into(),
            ));
        }
        all.extend(ops);
    }
    Ok(all)
}

fn size<'a>(guards: impl Iterator<Item = &'a Guard>, ops: impl Iterator<Item = &'a Op>) -> usize {
    let ops = ops.map(|op| match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key } => key.len(),
    });
    ops.chain(guards.map(|guard| guard.key().len())).map(|bytes| bytes + OP_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str, value: &'static str) -> Op {
        Op::Put { key: key.into(), value: value.into(), lease: None }
    }

    fn layout() -> Layout {
        Layout::new("/registry", [("core/nodes", "minions")])
    }

    fn keys(ops: &[wire::RequestOp]) -> Vec<String> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let shown = |op: &wire::RequestOp| match op.request.as_ref() {
            Some(Request::Put(put)) => format!("{}={}", text(&put.key), text(&put.value)),
            Some(Request::DeleteRange(delete)) => format!("-{}", text(&delete.key)),
            Some(Request::Range(range)) => text(&range.key),
            None => String::new(),
        };
        ops.iter().map(shown).collect()
    }

    #[test]
    fn transactions_are_merged_into_one_request() {
        let (n, m) = ("/registry/core/nodes/n", "/registry/core/nodes/m");
        let guards = vec![Guard::Absent(n.into()), Guard::ModRevision(m.into(), 0), Guard::Absent(n.into())];
        let first = Txn { guards, ops: vec![put(n, "1"), put(m, "1"), put(n, "2")] };
        let second =
            Txn { guards: vec![Guard::ModRevision("/a".into(), 7)], ops: vec![Op::Delete { key: "/a".into() }] };
        let request = request(&[first.clone(), second.clone()], &layout(), 1000).expect("a request");
        let compared: Vec<_> = request.compare.iter().map(|it| it.value.clone()).collect();
        let at = |revision| Some(Target::ModRevision(revision));
        assert_eq!(compared, [at(0), at(NEVER), at(7)], "an equal guard once; no key was written at revision 0");
        let a = "/registry/karmada-rs/keys//a";
        assert_eq!(
            keys(&request.success),
            [format!("-{a}"), "/registry/minions/m=1".into(), "/registry/minions/n=2".into()]
        );
        assert_eq!(keys(&request.failure), [a, "/registry/minions/m", "/registry/minions/n"]);
        let found = wire::KeyValue { key: a.into(), mod_revision: 5, create_revision: 4, ..Default::default() };
        let range = |kvs| wire::ResponseOp {
            response: Some(Response::Range(wire::RangeResponse { kvs, ..Default::default() })),
        };
        let answer = wire::TxnResponse {
            header: Some(wire::ResponseHeader { revision: 9, ..Default::default() }),
            succeeded: false,
            responses: vec![range(vec![found]), range(vec![]), range(vec![])],
        };
        let outcomes = outcomes(answer, &[first, second], &layout());
        let TxnOutcome::Failed { current, revision: 9 } = &outcomes[1] else { panic!("{outcomes:?}") };
        assert_eq!(current[0].as_ref().map(|kv| (&kv.key[..], kv.mod_revision)), Some((&b"/a"[..], 5)));
        assert_eq!(outcomes[0], TxnOutcome::Failed { current: vec![None, None, None], revision: 9 });
    }

    #[test]
    fn a_guard_that_still_holds_confirms_that_nothing_was_applied() {
        let (absent, newer) = (Guard::Absent("/a".into()), Guard::ModRevision("/a".into(), 7));
        let delete = Op::Delete { key: "/a".into() };
        let other = Guard::ModRevision("/namespace".into(), 3);
        let rows = [
            (absent.clone(), put("/a", "1"), true),
            (newer.clone(), put("/a", "1"), true),
            (newer.clone(), delete.clone(), true),
            // Both hold afterwards as well.
            (absent, delete, false),
            (newer, put("/b", "1"), false),
        ];
        for (guard, op, is_decisive) in rows {
            let txn = Txn { guards: vec![other.clone(), guard], ops: vec![op] };
            let confirmation = confirmation(std::slice::from_ref(&txn), &layout());
            assert_eq!(confirmation.is_some(), is_decisive, "{txn:?}");
            if let Some(request) = confirmation {
                assert_eq!(request.compare, [compared(&txn.guards[1], &layout())]);
                assert_eq!(keys(&request.success), ["/registry/karmada-rs/keys//a"], "read-only, with a quorum");
            }
        }
    }

    #[test]
    fn dependent_and_oversized_transactions_are_rejected() {
        let first = Txn { guards: vec![], ops: vec![put("/a", "1")] };
        for second in [
            Txn { guards: vec![Guard::Absent("/a".into())], ops: vec![] },
            Txn { guards: vec![], ops: vec![put("/a", "2")] },
        ] {
            let refused = request(&[first.clone(), second], &layout(), 1000);
            assert!(matches!(&refused, Err(Error::OverLimit(why)) if why.contains("/a")), "{refused:?}");
        }
        let one = Txn { guards: vec![], ops: vec![put("/a", "1")] };
        assert_eq!(request(&[one], &layout(), 60), Err(Error::TooLarge { size: 67, limit: 60 }));
    }
}
