//! Executes the actions of a plan, and waits until the caches contain them: a reconcile always reads its own last
//! writes.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::Time;
use apimachinery::{Object, ObjectKey, names};
use client::{DeleteOptions, Patch, PatchOptions};
use futures::StreamExt;
use serde_json::Value;

use super::Engine;
use crate::plan::kubelet::{self, Home};
use crate::plan::meta::key_of;
use crate::plan::pod::Pod;
use crate::plan::resources::Request;
use crate::plan::{Action, Kind};

/// Concurrent writes of one reconcile: enough to share a durable store's group commits.
const AT_ONCE: usize = 16;

/// Longer than the restart of a watch. A reconcile that gives up is retried.
const PATIENCE: Duration = Duration::from_secs(5);

const SUFFIX: usize = 5;

#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{action} {kind} {key}")]
    Request { action: &'static str, kind: &'static str, key: ObjectKey, source: client::Error },
    #[error("the object of a plan cannot be decoded")]
    Plan(#[from] serde_json::Error),
    #[error("the cache of {0} did not show a write in time")]
    Unseen(&'static str),
}

impl Engine {
    pub(super) async fn execute(&self, actions: Vec<Action>) -> Result<(), WriteError> {
        let writes = futures::stream::iter(actions).map(|action| self.write(action)).buffer_unordered(AT_ONCE);
        // All are attempted: one failure does not block the others.
        let results: Vec<Result<(), WriteError>> = writes.collect().await;
        results.into_iter().collect()
    }

    async fn write(&self, action: Action) -> Result<(), WriteError> {
        match action {
            Action::Create(Kind::Pod, pod) => self.create_pod(pod).await,
            Action::Create(kind, object) => {
                let key = key_of(&object);
                let created = self.client.create(kind.resource(), &object).await;
                self.shown(kind, "creating", key, created).await
            }
            Action::Ensure(kind, object) => {
                let key = key_of(&object);
                match self.client.create(kind.resource(), &object).await {
                    Err(error) if !error.is_already_exists() => Err(failed("creating", kind, key, error)),
                    _ => Ok(()),
                }
            }
            Action::Patch(kind, key, patch) => {
                let options = PatchOptions::default();
                let patched = self.client.patch(kind.resource(), &key, &Patch::Merge(patch), &options).await;
                self.shown(kind, "patching", key, patched).await
            }
            Action::Status(kind, object) => {
                let key = key_of(&object);
                let written = self.client.update_status(kind.resource(), &object).await;
                self.shown(kind, "writing the status of", key, written).await
            }
            Action::Delete { kind, key, uid, now } => self.delete(kind, key, &uid, now).await,
        }
    }

    /// Names a controller's pod. Where pods start immediately, it is bound and running at its creation, which saves two
    /// of three writes.
    async fn create_pod(&self, mut object: Value) -> Result<(), WriteError> {
        if object["metadata"]["name"].is_null() {
            let base = object["metadata"]["generateName"].as_str().unwrap_or_default();
            object["metadata"]["name"] = names::generated_name(base, &self.world.random_suffix(SUFFIX)).into();
        }
        let key = key_of(&object);
        if self.pace.start.is_zero() {
            self.start_at_creation(&mut object)?;
        }
        let created = self.client.create(Kind::Pod.resource(), &object).await;
        if created.is_err() {
            self.ledger.lock().release(&key);
        }
        self.shown(Kind::Pod, "creating", key, created).await
    }

    fn start_at_creation(&self, object: &mut Value) -> Result<(), WriteError> {
        let pod: Pod = serde_json::from_value(object.clone())?;
        let now = Time::new(self.world.now());
        match self.settle(&pod, now) {
            Ok((node, mut status)) => {
                if let Some(status) = status.as_object_mut() {
                    status.remove("nominatedNodeName");
                }
                object["spec"]["nodeName"] = node.as_ref().into();
                object["status"] = status;
            }
            Err(message) => object["status"] = kubelet::unschedulable(&pod, &message, now).unwrap_or_default(),
        }
        Ok(())
    }

    /// Chooses a node (unless the pod has one) and an address, and returns the status of the running pod.
    pub(super) fn settle(&self, pod: &Pod, now: Time) -> Result<(Box<str>, Value), String> {
        let mut ledger = self.ledger.lock();
        let node: Box<str> = match pod.spec.node_name.as_str() {
            "" => ledger.place(&pod.spec)?,
            bound => bound.into(),
        };
        ledger.charge(pod.metadata.key(), &node, Request::of_pod(&pod.spec));
        let host = ledger.node(&node).and_then(|node| node.address);
        let ip = match (host, pod.spec.host_network) {
            (Some(host), true) => host,
            _ => ledger.next_address(),
        };
        let status = kubelet::running(pod, Home { node: &node, host, ip }, now);
        Ok((node, status))
    }

    async fn delete(&self, kind: Kind, key: ObjectKey, uid: &str, now: bool) -> Result<(), WriteError> {
        let mut options = DeleteOptions::background().only_uid(uid);
        options.grace_period_seconds = now.then_some(0);
        match self.client.delete(kind.resource(), &key, &options).await {
            // It is deleted already, or another object has its name.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(source) => Err(failed("deleting", kind, key, source)),
            Ok(()) => {
                let going = || {
                    let found = self.watched(kind).informer.cache().get(&key);
                    // Other controllers remove finalizers.
                    let waits = |object: &Object| object.is_deleting() && (!now || !object.finalizers().is_empty());
                    found.is_none_or(|object| object.uid() != uid || waits(&object))
                };
                self.wait_until(kind, going).await
            }
        }
    }

    async fn shown(
        &self,
        kind: Kind,
        action: &'static str,
        key: ObjectKey,
        written: client::Result<Arc<Object>>,
    ) -> Result<(), WriteError> {
        match written {
            // It was deleted meanwhile: no change is needed.
            Err(error) if error.is_not_found() && action != "creating" => Ok(()),
            Err(source) => Err(failed(action, kind, key, source)),
            Ok(object) => {
                let revision = object.revision();
                let seen = &self.watched(kind).seen;
                self.wait_until(kind, || *seen.borrow() >= revision).await
            }
        }
    }

    async fn wait_until(&self, kind: Kind, holds: impl Fn() -> bool) -> Result<(), WriteError> {
        let mut news = self.watched(kind).seen.subscribe();
        let shown = async {
            while !holds() {
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, shown).await;
        in_time.map_err(|_| WriteError::Unseen(&kind.resource().plural))
    }
}

fn failed(action: &'static str, kind: Kind, key: ObjectKey, source: client::Error) -> WriteError {
    WriteError::Request { action, kind: &kind.resource().plural, key, source }
}
