//! Commits a write in one transaction with the writes of other objects that plugins join to it.

use apimachinery::{Object, ObjectKey, Status};
use bytes::Bytes;
use storage::{Guard, KeyValue, Op, Txn, TxnOutcome};

use super::Call;
use crate::admit::{Admission, AdmissionRequest, Change, JointWrite, Operation};
use crate::cache::keys;
use crate::commit::together::Seat;
use crate::errors;
use crate::limits::fairness::writers::Writing;

/// Retries after concurrent writes of a joined object. Writers of this process are serialized, so these are other
/// processes.
const TRIES: usize = 16;

impl Call<'_> {
    /// Commits one operation on the object `key`. If one of `guards` fails, [`TxnOutcome::Failed`] lists their keys
    /// first.
    pub(super) async fn commit(
        &self,
        key: &ObjectKey,
        guards: Vec<Guard>,
        op: Op,
        old: Option<&Object>,
    ) -> Result<TxnOutcome, Status> {
        let removed = self.kind.removed.filter(|_| matches!(op, Op::Delete { .. }));
        let outcome = self.commit_joint(key, guards, op, old).await?;
        if let Some(removed) = removed.filter(|_| matches!(outcome, TxnOutcome::Committed { .. })) {
            removed(self, key).await;
        }
        Ok(outcome)
    }

    async fn commit_joint(
        &self,
        key: &ObjectKey,
        guards: Vec<Guard>,
        op: Op,
        old: Option<&Object>,
    ) -> Result<TxnOutcome, Status> {
        if self.server.admission.joining(&self.resource.info).next().is_none() {
            return self.transact(guards, vec![op]).await;
        }
        // Another process may have created what is written as well.
        self.server.cache.catch_up().await?;
        let new = match &op {
            Op::Put { value, .. } => Some(parsed(value)?),
            Op::Delete { .. } => None,
        };
        let change = Change { cache: &self.server.cache, info: &self.resource.info, key, old, new: new.as_ref() };
        let mut joint = self.server.admission.joint_writes(&change)?;
        if joint.is_empty() {
            return self.transact(guards, vec![op]).await;
        }
        self.seat.map_or(Ok(()), Seat::join)?;
        self.validate_joint(&joint).await?;
        let _turns = self.follow_joint_writers(&joint).await;
        for _ in 0..TRIES {
            self.server.cache.catch_up().await?;
            joint = self.server.admission.joint_writes(&change)?;
            let (mut all_guards, mut ops) = (guards.clone(), vec![op.clone()]);
            for write in &joint {
                let place = keys::group_resource(write.group, write.plural);
                let place = keys::place_key(&place, &write.based_on.key());
                all_guards.push(Guard::ModRevision(place.clone(), write.based_on.revision()));
                let value = keys::encode(&write.object).map_err(Status::internal)?;
                ops.push(Op::Put { key: place, value, lease: None });
            }
            match self.transact(all_guards, ops).await? {
                TxnOutcome::Failed { current, .. } if guards.iter().zip(&current).all(holds) => {}
                outcome => return Ok(outcome),
            }
        }
        let named = &self.resource.info.resource;
        let others: Vec<String> = joint.iter().map(|it| format!("{} {}", it.plural, it.based_on.key())).collect();
        let why = format!("{} changed during each of {TRIES} attempts; try again", others.join(", "));
        Err(Status::conflict(&named.group, &named.plural, key.name(), &why))
    }

    /// Users' programs see joined writes as separate writes.
    async fn validate_joint(&self, joint: &[JointWrite]) -> Result<(), Status> {
        for write in joint {
            let is_seen = |plugin: &std::sync::Arc<dyn Admission>| {
                plugin.runs_user_programs() && plugin.concerns(write.group, write.plural)
            };
            if !self.server.admission.plugins().iter().any(is_seen) {
                continue;
            }
            let (served, version) = (self.server.registry.snapshot(), write.based_on.gvk().version);
            let Some(resource) = served.get(write.group, &version, write.plural) else { continue };
            let (old, mut new) = (write.based_on.to_value().map_err(errors::document)?, write.object.clone());
            let is_of_status = resource.info.has_status() && old["spec"] == new["spec"];
            let (call, key) = (self.facade(resource), write.based_on.key());
            let request = call.admission(Operation::Update, &key, Some(&old), Some(&mut new), false);
            let subresource = if is_of_status { "status" } else { "" };
            let request = AdmissionRequest { subresource, notes: &self.notes, ..request };
            self.server.admission.validate_by_those(|plugin| plugin.runs_user_programs(), &request).await?;
        }
        Ok(())
    }

    /// Whether plugins would let a dry run be committed.
    pub(super) fn check_joint(&self, key: &ObjectKey, old: Option<&Object>, new: &Bytes) -> Result<(), Status> {
        if self.server.admission.joining(&self.resource.info).next().is_none() {
            return Ok(());
        }
        let new = parsed(new)?;
        let change = Change { cache: &self.server.cache, info: &self.resource.info, key, old, new: Some(&new) };
        self.server.admission.joint_writes(&change).map(drop)
    }

    pub(super) async fn transact(&self, mut guards: Vec<Guard>, mut ops: Vec<Op>) -> Result<TxnOutcome, Status> {
        let store = self.stored().store();
        let claims = if store.is_shared() { self.notes.claims() } else { Vec::new() };
        // Once committed, the object itself holds the claimed values.
        ops.extend(claims.iter().map(|claim| Op::Delete { key: claim.key().clone() }));
        guards.extend(claims.iter().cloned());
        let size = ops.len();
        let committing = async {
            match self.seat {
                Some(seat) => seat.commit(guards, ops).await,
                None => store.txn(Txn { guards, ops }).await.map_err(errors::store),
            }
        };
        let attributes = || vec![("operations", trace::Value::Number(i64::try_from(size).unwrap_or(i64::MAX)))];
        let outcome = trace::step("Store transaction", attributes, committing).await?;
        match &outcome {
            TxnOutcome::Failed { current, .. } if !claims.iter().rev().zip(current.iter().rev()).all(holds) => {
                let named = &self.resource.info.resource;
                let why = "it was not stored in time, and its addresses may belong to another service; try again";
                Err(Status::conflict(&named.group, &named.plural, &self.info.name, why))
            }
            _ => Ok(outcome),
        }
    }

    /// Waits for the other writers of joined objects, in the order of their keys, so that two writes never wait for
    /// each other.
    async fn follow_joint_writers(&self, joint: &[JointWrite]) -> Vec<Writing<'_>> {
        let mut places: Vec<_> = joint.iter().map(|it| (it.group, it.plural, it.based_on.key())).collect();
        places.sort();
        places.dedup();
        let mut turns = Vec::with_capacity(places.len());
        for (group, plural, key) in &places {
            turns.push(self.server.writers.follow((group, plural), key, &self.user.user).await);
        }
        turns
    }
}

fn parsed(stored: &Bytes) -> Result<Object, Status> {
    Object::parse_valid(stored.clone()).map_err(errors::document)
}

fn holds((guard, current): (&Guard, &Option<KeyValue>)) -> bool {
    match guard {
        Guard::Absent(_) => current.is_none(),
        Guard::ModRevision(_, revision) => current.as_ref().is_some_and(|it| it.mod_revision == *revision),
    }
}
