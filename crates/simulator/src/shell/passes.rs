//! One pass over one key: read the caches, plan, write.

use apimachinery::Object;
use apimachinery::meta::Time;
use controller_runtime::Next;

use super::writes::WriteError;
use super::{Engine, Key};
use crate::plan::deployment::{self, Deployment, Owned};
use crate::plan::kubelet::{self, Step};
use crate::plan::pod::Pod;
use crate::plan::replica_set::{self, ReplicaSet};
use crate::plan::{Action, Kind, Plan};

impl Engine {
    pub(super) async fn pass(&self, key: Key) -> Result<Next, WriteError> {
        let (kind, key) = match key {
            Key::Object(kind, key) => (kind, key),
            Key::Waiting => return Ok(self.retry_waiting()),
        };
        let Some(object) = self.watched(kind).informer.cache().get(&key) else { return Ok(Next::Done) };
        let plan = match kind {
            Kind::Node => Plan::nothing(),
            Kind::Pod => self.pod(&object)?,
            Kind::ReplicaSet => self.replica_set(&object)?,
            Kind::Deployment => self.deployment(&object)?,
        };
        self.carry_out(plan.actions).await?;
        Ok(plan.again.map_or(Next::Done, Next::After))
    }

    /// Oldest name first is as fair as any order: each gets its turn again with the next room.
    fn retry_waiting(&self) -> Next {
        for key in self.waiting.lock().iter() {
            self.queue.add(Key::Object(Kind::Pod, key.clone()));
        }
        Next::Done
    }

    fn pod(&self, object: &Object) -> Result<Plan, WriteError> {
        let pod: Pod = object.decode()?;
        let time = self.world.now();
        let now = Time::new(time);
        let status = match kubelet::step(&pod, self.pace, time) {
            Step::Nothing => return Ok(Plan::nothing()),
            Step::Wait(pause) => return Ok(Plan::after(pause)),
            Step::Remove => {
                let (key, uid) = (object.key(), object.uid().to_owned());
                return Ok(Plan::one(Action::Delete { kind: Kind::Pod, key, uid, now: true }));
            }
            Step::Place => self.place(&pod, now),
            Step::Run => self.settle(&pod, now).ok().map(|(_, status)| status),
            Step::Succeed => Some(kubelet::succeeded(&pod, &object.to_value()?["status"], now)),
        };
        let write = |status| Plan::one(Action::Status(Kind::Pod, pod.metadata.with_status(status)));
        Ok(status.map_or_else(Plan::nothing, write))
    }

    fn place(&self, pod: &Pod, now: Time) -> Option<serde_json::Value> {
        let key = pod.metadata.key();
        match self.settle(pod, now) {
            Ok((node, status)) => {
                self.waiting.lock().remove(&key);
                Some(if self.pace.start.is_zero() { status } else { kubelet::scheduled(pod, &node, now) })
            }
            Err(message) => {
                self.waiting.lock().insert(key);
                kubelet::unschedulable(pod, &message, now)
            }
        }
    }

    fn replica_set(&self, object: &Object) -> Result<Plan, WriteError> {
        let set: ReplicaSet = object.decode()?;
        let ledger = self.ledger.lock();
        Ok(replica_set::plan(&set, ledger.owned(&set.metadata.uid), self.world.now()))
    }

    fn deployment(&self, object: &Object) -> Result<Plan, WriteError> {
        let deployment: Deployment = object.decode()?;
        let mut owned = Vec::new();
        for set in self.owned_sets(object) {
            let set: ReplicaSet = set.decode()?;
            let pods = self.ledger.lock().owned(&set.metadata.uid).filter(|pod| !pod.is_terminal()).count();
            owned.push(Owned { set, pods });
        }
        Ok(deployment::plan(&deployment, &owned, self.world.now()))
    }

    fn owned_sets(&self, owner: &Object) -> Vec<std::sync::Arc<Object>> {
        self.watched(Kind::ReplicaSet).informer.cache().by_index(super::OWNER, owner.uid())
    }
}

/// The uid of the object's controller.
pub(super) fn owner(object: &Object) -> Vec<String> {
    let controller = crate::plan::meta::controller(object.owner_references());
    controller.map(|owner| owner.uid.clone()).into_iter().collect()
}
