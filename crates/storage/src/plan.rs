//! The effect of a transaction on a given state. Pure: the engine passes a lookup of keys and applies the result. All
//! our engines use it, so they cannot differ.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::{Change, Error, Guard, KeyValue, LeaseId, Op, Result, Revision, Txn};

/// The decision about a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// A guard does not hold; the state of each guarded key.
    Refuse(Vec<Option<KeyValue>>),
    /// The guards hold and nothing changes: no ops, or only deletions of absent keys. Takes no revision.
    Nothing,
    /// The changes of the new revision, at most one per key, in key order.
    Write(Vec<Change>),
}

/// Decides `txn`, which would be written at `next`.
pub(crate) fn plan(
    txn: &Txn,
    next: Revision,
    mut lookup: impl FnMut(&Bytes) -> Result<Option<KeyValue>>,
    lease_exists: impl Fn(LeaseId) -> bool,
) -> Result<Plan> {
    let current = txn.guards.iter().map(|guard| lookup(guard.key())).collect::<Result<Vec<_>>>()?;
    if !txn.guards.iter().zip(&current).all(|(guard, state)| holds(guard, state.as_ref())) {
        return Ok(Plan::Refuse(current));
    }
    let mut changes = Vec::with_capacity(txn.ops.len());
    let mut apply = |key: &Bytes, op: &Op| -> Result<()> {
        let previous = lookup(key)?;
        match op {
            Op::Put { value, lease, .. } => {
                if let Some(lease) = *lease
                    && !lease_exists(lease)
                {
                    return Err(Error::LeaseNotFound(lease));
                }
                let create_revision = previous.as_ref().map_or(next, |kv| kv.create_revision);
                let current = KeyValue {
                    key: key.clone(),
                    value: value.clone(),
                    create_revision,
                    mod_revision: next,
                    lease: *lease,
                };
                changes.push(Change::Put { current, previous });
            }
            Op::Delete { .. } => changes.extend(previous.map(|previous| Change::Delete { previous })),
        }
        Ok(())
    };
    match &txn.ops[..] {
        [op] => apply(key_of(op), op)?,
        ops => last_op_of_each_key(ops).into_iter().try_for_each(|(key, op)| apply(key, op))?,
    }
    Ok(if changes.is_empty() { Plan::Nothing } else { Plan::Write(changes) })
}

/// Decides consecutive transactions, each at a separate revision from `next` on, or none: if one of them is refused,
/// all are.
pub(crate) fn plan_all(
    txns: &[Txn],
    next: Revision,
    mut lookup: impl FnMut(&Bytes) -> Result<Option<KeyValue>>,
    lease_exists: impl Fn(LeaseId) -> bool,
) -> Result<Vec<Plan>> {
    let (mut plans, mut next) = (Vec::with_capacity(txns.len()), next);
    let mut written: HashMap<Bytes, Option<KeyValue>> = HashMap::new();
    for txn in txns {
        let known = |key: &Bytes| written.get(key).cloned().map_or_else(|| lookup(key), Ok);
        let decided = plan(txn, next, known, &lease_exists)?;
        if let Plan::Write(changes) = &decided
            && txns.len() > 1
        {
            next += 1;
            for change in changes {
                let state = match change {
                    Change::Put { current, .. } => Some(current.clone()),
                    Change::Delete { .. } => None,
                };
                written.insert(change.key().clone(), state);
            }
        }
        plans.push(decided);
    }
    if plans.iter().any(|plan| matches!(plan, Plan::Refuse(_))) {
        plans.clear();
        for txn in txns {
            let current = txn.guards.iter().map(|guard| lookup(guard.key())).collect::<Result<_>>()?;
            plans.push(Plan::Refuse(current));
        }
    }
    Ok(plans)
}

/// The size of an op or a guard in addition to its key and value. With the default limit a transaction has at most
/// 65,536 ops.
const OP_BYTES: usize = 64;

/// Refuses transactions that together exceed `limit` bytes.
pub(crate) fn check_size(txns: &[Txn], limit: usize) -> Result<()> {
    let ops = txns.iter().flat_map(|txn| &txn.ops).map(|op| match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key } => key.len(),
    });
    let guards = txns.iter().flat_map(|txn| &txn.guards).map(|guard| guard.key().len());
    let size = ops.chain(guards).map(|bytes| bytes + OP_BYTES).sum::<usize>();
    if size > limit { Err(Error::TooLarge { size, limit }) } else { Ok(()) }
}

fn holds(guard: &Guard, state: Option<&KeyValue>) -> bool {
    match (guard, state) {
        (Guard::Absent(_), state) => state.is_none(),
        (Guard::ModRevision(_, revision), Some(kv)) => kv.mod_revision == *revision,
        (Guard::ModRevision(..), None) => false,
    }
}

/// A revision changes a key once: of several ops on one key the last counts.
fn last_op_of_each_key(ops: &[Op]) -> BTreeMap<&Bytes, &Op> {
    ops.iter().map(|op| (key_of(op), op)).collect()
}

fn key_of(op: &Op) -> &Bytes {
    match op {
        Op::Put { key, .. } | Op::Delete { key } => key,
    }
}
