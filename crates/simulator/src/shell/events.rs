//! Turns cache events into queue keys, and updates the ledger.

use std::time::Duration;

use apimachinery::{Object, ObjectKey};
use controller_runtime::Event;

use super::{Engine, Key};
use crate::plan::Kind;
use crate::plan::deployment::REVISION;
use crate::plan::kubelet::{self, Step};
use crate::plan::meta::controller;
use crate::plan::node::{Node, NodeFacts};
use crate::plan::pod::{Pod, PodFacts};
use crate::plan::service::{SERVICE_NAME, Service};

/// Owners process all changes of their dependents within this time at once: one status write instead of ten.
const GATHER: Duration = Duration::from_millis(10);

impl Engine {
    pub(super) fn on_event(&self, kind: Kind, event: &Event) {
        match kind {
            Kind::Node => self.on_node(event),
            Kind::Pod => self.on_pod(event),
            Kind::EndpointSlice => self.on_endpoint_slice(event.object()),
            Kind::ControllerRevision => self.queue_owner(event.object()),
            Kind::PersistentVolumeClaim => {}
            Kind::Service => self.on_service(event),
            Kind::ReplicaSet | Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
                self.on_workload(kind, event);
            }
        }
        // Last: a waiter for the revision must find the ledger updated.
        let revision = event.object().revision();
        self.watched(kind).seen.send_if_modified(|seen| {
            let news = revision > *seen;
            *seen = revision.max(*seen);
            news
        });
    }

    fn on_node(&self, event: &Event) {
        let object = event.object();
        match event {
            Event::Deleted(_) => self.ledger.lock().remove_node(object.name()),
            _ => match object.decode::<Node>() {
                Ok(node) => {
                    let facts = NodeFacts::from(node);
                    let mut ledger = self.ledger.lock();
                    if ledger.node(object.name()) == Some(&facts) {
                        return;
                    }
                    ledger.set_node(facts);
                }
                Err(error) => return undecodable(object, &error),
            },
        }
        self.queue.add(Key::Object(Kind::Node, object.key()));
        self.queue.add_after(Key::Waiting, GATHER);
        for daemons in self.watched(Kind::DaemonSet).informer.cache().keys() {
            self.queue.add_after(Key::Object(Kind::DaemonSet, daemons), GATHER);
        }
    }

    fn on_pod(&self, event: &Event) {
        let object = event.object();
        let key = object.key();
        if let Event::Deleted(_) = event {
            self.waiting.lock().remove(&key);
            let gone = self.ledger.lock().remove_pod(&key);
            if gone.is_some_and(|gone| !gone.node.is_empty()) {
                self.retry_unschedulable();
            }
            self.queue_dependents_of(object);
            return;
        }
        let pod: Pod = match object.decode() {
            Ok(pod) => pod,
            Err(error) => return undecodable(object, &error),
        };
        let facts = PodFacts::new(&pod);
        let ended = facts.is_terminal();
        let shown = facts.shown();
        let old = self.ledger.lock().set_pod(facts);
        if ended && old.as_ref().is_some_and(|old| !old.is_terminal()) {
            self.retry_unschedulable();
        }
        if old.is_none_or(|old| old.shown() != shown) {
            self.queue_dependents_of(object);
        }
        let key = Key::Object(Kind::Pod, key);
        match kubelet::step(&pod, self.pace, self.world.now()) {
            Step::Nothing => {}
            Step::Wait(pause) => self.queue.add_after(key, pause),
            _ => self.queue.add(key),
        }
    }

    fn on_workload(&self, kind: Kind, event: &Event) {
        let object = event.object();
        if !matches!(event, Event::Deleted(_)) && concerns_itself(kind, event) {
            self.queue.add(Key::Object(kind, object.key()));
        }
        self.queue_owner(object);
    }

    fn on_service(&self, event: &Event) {
        let object = event.object();
        self.services.lock().remove(&object.key());
        if matches!(event, Event::Deleted(_)) {
            return;
        }
        match object.decode::<Service>() {
            Ok(service) if service.selects_any() => drop(self.services.lock().insert(object.key(), service)),
            Ok(_) => {}
            Err(error) => return undecodable(object, &error),
        }
        self.queue.add(Key::Object(Kind::Service, object.key()));
    }

    fn on_endpoint_slice(&self, object: &Object) {
        if let Some(service) = object.label(SERVICE_NAME) {
            let key = ObjectKey::namespaced(object.namespace().unwrap_or_default(), service);
            self.queue.add_after(Key::Object(Kind::Service, key), GATHER);
        }
    }

    /// Queues the pods that no node fits.
    fn retry_unschedulable(&self) {
        if !self.waiting.lock().is_empty() {
            self.queue.add_after(Key::Waiting, GATHER);
        }
    }

    /// Queues the controller of a pod, and the services that select it.
    fn queue_dependents_of(&self, pod: &Object) {
        self.queue_owner(pod);
        let namespace = pod.namespace().unwrap_or_default();
        let services = self.services.lock();
        let here = services.range(ObjectKey::namespaced(namespace, "")..);
        for (key, service) in here.take_while(|(key, _)| key.namespace() == pod.namespace()) {
            if service.selects(pod) {
                self.queue.add_after(Key::Object(Kind::Service, key.clone()), GATHER);
            }
        }
    }

    fn queue_owner(&self, object: &Object) {
        let Some(owner) = controller(object.owner_references()) else { return };
        let Some(kind) = Kind::of_owner(&owner.api_version, &owner.kind) else { return };
        let key = ObjectKey::namespaced(object.namespace().unwrap_or_default(), owner.name.as_str());
        self.queue.add_after(Key::Object(kind, key), GATHER);
    }
}

/// Whether a change is more than our own status write.
fn concerns_itself(kind: Kind, event: &Event) -> bool {
    let Event::Updated { old, new } = event else { return true };
    let annotations = |object: &Object| {
        let mut annotations = object.annotations();
        annotations.remove(REVISION);
        annotations
    };
    match kind {
        // Its deadline starts with a status that we write.
        Kind::Job => true,
        Kind::Deployment => event.changes_generation() || annotations(old) != annotations(new),
        _ => event.changes_generation(),
    }
}

fn undecodable(object: &Object, error: &serde_json::Error) {
    tracing::warn!(kind = object.kind(), object = %object.key(), err = %error, "Object cannot be decoded and is not simulated");
}
