//! One reconcile of one key: reads the caches, plans, writes.

use apimachinery::Object;
use std::sync::Arc;

use apimachinery::meta::Time;
use controller_runtime::Next;

use super::writes::WriteError;
use super::{Engine, Key};
use crate::plan::daemon_set::{self, DaemonSet};
use crate::plan::deployment::{self, Deployment, Owned};
use crate::plan::job::{self, Job};
use crate::plan::kubelet::{self, Step};
use crate::plan::pod::Pod;
use crate::plan::replica_set::{self, ReplicaSet};
use crate::plan::revision::ControllerRevision;
use crate::plan::scheduling::untolerated;
use crate::plan::service::{self, Backend, SERVICE_NAME, Service};
use crate::plan::stateful_set::{self, StatefulSet};
use crate::plan::{Action, Kind, Plan};

const ZONE: &str = "topology.kubernetes.io/zone";

impl Engine {
    pub(super) async fn pass(&self, key: Key) -> Result<Next, WriteError> {
        let (kind, key) = match key {
            Key::Object(kind, key) => (kind, key),
            Key::Waiting => return Ok(self.retry_waiting()),
        };
        if kind == Kind::Node {
            self.execute(self.leave_node(key.name())?).await?;
            return Ok(Next::Done);
        }
        let Some(object) = self.watched(kind).informer.cache().get(&key) else { return Ok(Next::Done) };
        let plan = match kind {
            Kind::Pod => self.pod(&object)?,
            Kind::ReplicaSet => self.replica_set(&object)?,
            Kind::Deployment => self.deployment(&object)?,
            Kind::StatefulSet => self.stateful_set(&object)?,
            Kind::DaemonSet => self.daemon_set(&object)?,
            Kind::Job => self.job(&object)?,
            Kind::Service => self.service(&object)?,
            // Their owners reconcile them.
            Kind::Node | Kind::ControllerRevision | Kind::EndpointSlice | Kind::PersistentVolumeClaim => {
                return Ok(Next::Done);
            }
        };
        self.execute(plan.actions).await?;
        Ok(plan.again.map_or(Next::Done, Next::After))
    }

    /// In the order of names: each pod is retried whenever capacity is freed.
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

    fn stateful_set(&self, object: &Object) -> Result<Plan, WriteError> {
        let set: StatefulSet = object.decode()?;
        let known = self.revisions(object)?;
        let ledger = self.ledger.lock();
        Ok(stateful_set::plan(&set, ledger.owned(&set.metadata.uid), &known, self.world.now()))
    }

    fn daemon_set(&self, object: &Object) -> Result<Plan, WriteError> {
        let set: DaemonSet = object.decode()?;
        let known = self.revisions(object)?;
        let ledger = self.ledger.lock();
        Ok(daemon_set::plan(&set, ledger.owned(&set.metadata.uid), ledger.nodes(), &known, self.world.now()))
    }

    fn job(&self, object: &Object) -> Result<Plan, WriteError> {
        let job: Job = object.decode()?;
        let ledger = self.ledger.lock();
        Ok(job::plan(&job, ledger.owned(&job.metadata.uid), self.world.now()))
    }

    fn service(&self, object: &Object) -> Result<Plan, WriteError> {
        let service: Service = object.decode()?;
        let pods = self.watched(Kind::Pod).informer.cache().list(object.namespace());
        let selected: Vec<Pod> =
            pods.iter().filter(|pod| service.selects(pod)).map(|pod| pod.decode()).collect::<Result<_, _>>()?;
        let ledger = self.ledger.lock();
        let backends: Vec<Backend<'_>> = selected
            .iter()
            .filter_map(|pod| {
                let facts = ledger.pod(&pod.metadata.key())?;
                let zone = ledger.node(&facts.node).and_then(|node| node.labels.get(ZONE));
                Some(Backend { facts, zone: zone.map(String::as_str), ports: pod.named_ports() })
            })
            .collect();
        let slices = self.watched(Kind::EndpointSlice).informer.cache().by_index(SERVICE_NAME, object.name());
        let here = slices.iter().filter(|slice| slice.namespace() == object.namespace());
        let slices: Vec<serde_json::Value> = here.map(|slice| slice.to_value()).collect::<Result<_, _>>()?;
        Ok(service::plan(&service, &backends, &slices))
    }

    /// Deletes the pods of a removed node, and those that do not tolerate a NoExecute taint.
    fn leave_node(&self, name: &str) -> Result<Vec<Action>, WriteError> {
        let ledger = self.ledger.lock();
        let node = ledger.node(name);
        let mut actions = Vec::new();
        for facts in ledger.on_node(name).filter(|facts| !facts.deleting) {
            let leaves = match node {
                None => true,
                Some(node) if node.taints.is_empty() => false,
                Some(node) => match self.watched(Kind::Pod).informer.cache().get(&facts.key) {
                    None => false,
                    Some(pod) => {
                        let pod: Pod = pod.decode()?;
                        untolerated(&pod.spec.tolerations, &node.taints, &["NoExecute"]).is_some()
                    }
                },
            };
            if leaves {
                let (key, uid) = (facts.key.clone(), facts.uid.to_string());
                actions.push(Action::Delete { kind: Kind::Pod, key, uid, now: node.is_none() });
            }
        }
        Ok(actions)
    }

    fn owned_sets(&self, owner: &Object) -> Vec<Arc<Object>> {
        self.watched(Kind::ReplicaSet).informer.cache().by_index(super::OWNER, owner.uid())
    }

    fn revisions(&self, owner: &Object) -> Result<Vec<ControllerRevision>, WriteError> {
        let known = self.watched(Kind::ControllerRevision).informer.cache().by_index(super::OWNER, owner.uid());
        Ok(known.iter().map(|known| known.decode()).collect::<Result<_, _>>()?)
    }
}

/// The uid of the object's controller.
pub(super) fn owner(object: &Object) -> Vec<String> {
    let controller = crate::plan::meta::controller(object.owner_references());
    controller.map(|owner| owner.uid.clone()).into_iter().collect()
}
