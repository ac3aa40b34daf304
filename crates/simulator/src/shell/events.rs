//! From changes of the caches to keys in the queue, and the books kept up to date on the way.

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

/// Owners look once at what happened to many dependents within this time: one status write instead of ten.
const GATHER: Duration = Duration::from_millis(10);

impl Engine {
    pub(super) fn on_event(&self, kind: Kind, event: &Event) {
        match kind {
            Kind::Node => self.on_node(event),
            Kind::Pod => self.on_pod(event),
            Kind::ReplicaSet | Kind::Deployment => self.on_workload(kind, event),
        }
        // Last: who waits for the revision finds the books in order.
        let revision = event.object().resource_version().parse().unwrap_or(0);
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
                    if self.ledger.lock().node(object.name()) == Some(&facts) {
                        return;
                    }
                    self.ledger.lock().set_node(facts);
                }
                Err(error) => return undecodable(object, &error),
            },
        }
        self.queue.add_after(Key::Waiting, GATHER);
    }

    fn on_pod(&self, event: &Event) {
        let object = event.object();
        let key = object.key();
        if let Event::Deleted(_) = event {
            self.waiting.lock().remove(&key);
            let gone = self.ledger.lock().remove_pod(&key);
            if gone.is_some_and(|gone| !gone.node.is_empty()) {
                self.room_again();
            }
            self.tell_owner(object);
            return;
        }
        let pod: Pod = match object.decode() {
            Ok(pod) => pod,
            Err(error) => return undecodable(object, &error),
        };
        let facts = PodFacts::new(&pod);
        let ended = facts.is_terminal();
        let shown = (facts.phase, facts.ready_since, facts.deleting);
        let old = self.ledger.lock().set_pod(facts);
        if ended && old.as_ref().is_some_and(|old| !old.is_terminal()) {
            self.room_again();
        }
        if old.is_none_or(|old| (old.phase, old.ready_since, old.deleting) != shown) {
            self.tell_owner(object);
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
        self.tell_owner(object);
    }

    /// Pods that found no node try again.
    fn room_again(&self) {
        if !self.waiting.lock().is_empty() {
            self.queue.add_after(Key::Waiting, GATHER);
        }
    }

    fn tell_owner(&self, object: &Object) {
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
    event.changes_generation() || (kind == Kind::Deployment && annotations(old) != annotations(new))
}

fn undecodable(object: &Object, error: &serde_json::Error) {
    tracing::warn!(?object, %error, "an object cannot be understood, it is left alone");
}
