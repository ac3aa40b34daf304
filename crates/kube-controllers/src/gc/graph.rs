//! The graph of owners and dependents, as observed. Pure.
//!
//! It holds only objects that have owners, or that are deleted and wait for their dependents; of all others it holds
//! the uid, 16 bytes. The graph makes no decisions: it returns the objects to check on the server.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use apimachinery::Object;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// A hash of a uid: owner references may contain any text, and a collision costs only an additional check on the
/// server.
pub(super) type Uid = u128;

/// FNV-1a.
pub(super) fn uid(text: &str) -> Uid {
    let seed = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    text.bytes().fold(seed, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// Whether its deletion waits for the dependents that block it.
pub(super) fn awaits_dependents(object: &Object) -> bool {
    object.is_deleting() && object.finalizers().iter().any(|name| &**name == FOREGROUND)
}

/// Whether its deletion waits until its dependents are orphaned.
pub(super) fn orphans_dependents(object: &Object) -> bool {
    object.is_deleting() && object.finalizers().iter().any(|name| &**name == ORPHAN)
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// `GROUP/PLURAL`.
    pub resource: Arc<str>,
    pub object: Arc<Object>,
}

impl Node {
    fn owners(&self) -> BTreeSet<Uid> {
        self.object.owner_references().iter().map(|owner| uid(&owner.uid)).collect()
    }

    /// Whether a foreground deletion of the owner waits for this object.
    pub fn blocks(&self, owner: &str) -> bool {
        self.object.owner_references().iter().any(|r| r.uid == owner && r.block_owner_deletion == Some(true))
    }

    /// Whether the relevant properties are equal.
    fn is_like(&self, other: &Self) -> bool {
        let state = |node: &Self| (awaits_dependents(&node.object), orphans_dependents(&node.object));
        state(self) == state(other) && self.object.owner_references() == other.object.owner_references()
    }
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    alive: HashSet<Uid>,
    nodes: HashMap<Uid, Node>,
    /// Each owner with each of its dependents. Most owners have one, for which a set of its own would reserve 200 bytes.
    dependents: BTreeSet<(Uid, Uid)>,
    /// The namespaces of owners whose deletion was observed, as long as they have dependents.
    deleted: HashMap<Uid, Option<String>>,
}

impl Graph {
    pub fn node(&self, uid: Uid) -> Option<&Node> {
        self.nodes.get(&uid)
    }

    pub fn dependents(&self, owner: Uid) -> impl Iterator<Item = &Node> {
        self.dependents_of(owner).filter_map(|uid| self.nodes.get(&uid))
    }

    fn dependents_of(&self, owner: Uid) -> impl Iterator<Item = Uid> {
        self.dependents.range((owner, Uid::MIN)..=(owner, Uid::MAX)).map(|(_, dependent)| *dependent)
    }

    /// Adds or replaces an object; returns the objects to check.
    pub fn put(&mut self, resource: &Arc<str>, object: &Arc<Object>) -> BTreeSet<Uid> {
        let own = uid(object.uid());
        self.alive.insert(own);
        self.deleted.remove(&own);
        let waits = awaits_dependents(object) || orphans_dependents(object);
        let node = Node { resource: resource.clone(), object: object.clone() };
        let old = self.nodes.remove(&own);
        if let Some(old) = old.as_ref().filter(|old| old.is_like(&node)) {
            debug_assert_eq!(old.owners(), node.owners());
            self.nodes.insert(own, node);
            return BTreeSet::new();
        }
        let mut concerned = old.map(|old| self.unlink(own, &old)).unwrap_or_default();
        if !waits && object.owner_references().is_empty() {
            return concerned;
        }
        for owner in node.owners() {
            self.dependents.insert((owner, own));
        }
        self.nodes.insert(own, node);
        if waits {
            concerned.extend(self.dependents_of(own));
        }
        if waits || self.may_have_lost_an_owner(own) {
            concerned.insert(own);
        }
        concerned
    }

    /// Removes a deleted object; returns the objects to check.
    pub fn remove(&mut self, object: &Object) -> BTreeSet<Uid> {
        let own = uid(object.uid());
        self.alive.remove(&own);
        let mut concerned = self.nodes.remove(&own).map(|old| self.unlink(own, &old)).unwrap_or_default();
        let dependents: Vec<Uid> = self.dependents_of(own).collect();
        if !dependents.is_empty() {
            self.deleted.insert(own, object.namespace().map(str::to_owned));
        }
        concerned.extend(dependents);
        concerned
    }

    /// Whether the deletion of an owner was observed that a dependent in `namespace` can have.
    pub fn was_deleted(&self, owner: Uid, namespace: Option<&str>) -> bool {
        self.deleted.get(&owner).is_some_and(|of| of.is_none() || of.as_deref() == namespace)
    }

    /// All objects to check once the initial state is complete; in a stable order.
    pub fn pending(&self) -> BTreeSet<Uid> {
        let pending = |uid: &&Uid| {
            let waits = self.nodes.get(*uid).is_some_and(|node| is_waiting(node) || orphans_dependents(&node.object));
            waits || self.may_have_lost_an_owner(**uid)
        };
        self.nodes.keys().filter(pending).copied().collect()
    }

    /// Returns the owners that may have waited for this object.
    fn unlink(&mut self, own: Uid, old: &Node) -> BTreeSet<Uid> {
        let owners = old.owners();
        for owner in &owners {
            self.dependents.remove(&(*owner, own));
            if self.dependents_of(*owner).next().is_none() {
                self.deleted.remove(owner);
            }
        }
        owners.into_iter().filter(|owner| self.nodes.get(owner).is_some_and(is_waiting)).collect()
    }

    /// Whether an owner is unknown, or is deleted together with its dependents.
    fn may_have_lost_an_owner(&self, dependent: Uid) -> bool {
        let Some(node) = self.nodes.get(&dependent) else { return false };
        let lost = |owner: Uid| !self.alive.contains(&owner) || self.nodes.get(&owner).is_some_and(is_waiting);
        node.owners().into_iter().any(lost)
    }
}

fn is_waiting(node: &Node) -> bool {
    awaits_dependents(&node.object)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// `a<b,!c` is `a`, owned by `b`, and by `c` which it blocks; a trailing `~` is deleted in the foreground, `^`
    /// orphans.
    fn object(text: &str) -> Arc<Object> {
        let finalizer = if text.ends_with('~') { Some(FOREGROUND) } else { text.ends_with('^').then_some(ORPHAN) };
        let text = text.trim_end_matches(['~', '^']);
        let (name, owners) = text.split_once('<').unwrap_or((text, ""));
        let owner = |owner: &str| {
            let uid = owner.trim_start_matches('!');
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": owner.starts_with('!')})
        };
        let owners: Vec<_> = owners.split(',').filter(|owner| !owner.is_empty()).map(owner).collect();
        let mut tree = json!({"metadata": {"name": name, "uid": name, "ownerReferences": owners}});
        if let Some(finalizer) = finalizer {
            tree["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
            tree["metadata"]["finalizers"] = json!([finalizer]);
        }
        Object::from_value(&tree).expect("an object").shared()
    }

    /// Adds and removes (`-name`) objects, and compares the objects to check after the last step.
    fn check(steps: &[&str], concerned: &[&str]) {
        let mut graph = Graph::default();
        let resource: Arc<str> = "core/configmaps".into();
        let mut last = BTreeSet::new();
        for step in steps {
            last = match step.strip_prefix('-') {
                Some(gone) => graph.remove(&object(gone)),
                None => graph.put(&resource, &object(step)),
            };
        }
        assert_eq!(last, concerned.iter().map(|name| uid(name)).collect(), "{steps:?}");
    }

    #[test]
    fn changes_concern_dependents_and_waiting_owners() {
        check(&["a"], &[]);
        check(&["a", "b<a"], &[]);
        check(&["b<a"], &["b"]);
        check(&["a", "b<a", "c<a", "d<b", "-a"], &["b", "c"]);
        check(&["a", "b<a", "b", "-a"], &[]);
        check(&["a", "b<!a", "a~"], &["a", "b"]);
        check(&["a", "b<!a", "a~", "-b<!a"], &["a"]);
        check(&["a", "b<!a", "a~", "b<a"], &["a", "b"]);
        check(&["a~", "b<a"], &["b"]);
        check(&["a", "b<a", "a^"], &["a", "b"]);
        check(&["a", "b<a", "b<a"], &[]);
    }

    #[test]
    fn deletions_of_owners_are_known_until_their_dependents_are_gone() {
        let resource: Arc<str> = "core/configmaps".into();
        let mut graph = Graph::default();
        let owner = |namespace: Value| {
            let tree = json!({"metadata": {"name": "a", "uid": "a", "namespace": namespace}});
            Object::from_value(&tree).expect("an object").shared()
        };
        for (namespace, [in_demo, in_other, in_none]) in
            [(json!("demo"), [true, false, false]), (json!(null), [true; 3])]
        {
            graph.put(&resource, &object("b<a"));
            graph.put(&resource, &owner(namespace.clone()));
            assert!(!graph.was_deleted(uid("a"), Some("demo")));
            graph.remove(&owner(namespace));
            let places = [Some("demo"), Some("other"), None];
            assert_eq!(places.map(|place| graph.was_deleted(uid("a"), place)), [in_demo, in_other, in_none]);
            graph.remove(&object("b<a"));
            assert!(graph.deleted.is_empty());
        }
        graph.remove(&owner(json!(null)));
        assert!(graph.deleted.is_empty(), "it had no dependents");
    }

    #[test]
    fn the_initial_state_is_checked_as_a_whole() {
        let mut graph = Graph::default();
        let resource: Arc<str> = "core/configmaps".into();
        for text in ["dependent<owner", "lost<absent", "owner", "waiting~", "held<waiting", "leaving^"] {
            graph.put(&resource, &object(text));
        }
        assert_eq!(graph.pending(), ["lost", "waiting", "held", "leaving"].map(uid).into());
        assert_eq!(graph.dependents(uid("owner")).count(), 1);
        assert!(graph.node(uid("owner")).is_none(), "an object without owners is not held");
    }
}
