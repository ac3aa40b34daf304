//! The bindings of this scheduler, grouped by placement, so that a change of a cluster is matched once for each
//! placement and not once for each binding. Its input is all changes; its output is the keys to enqueue.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::Object;
use karmada_api::identity::BindingKey;
use scheduling::Snapshot;

use crate::outline::Outline;
use crate::triggers::{self, Change, IgnoreReason, Reaction, Requirements};

/// Creations with a first decision that may be unreported at a time. Those of further ones are decided again.
const MAX_FIRST: usize = 4096;

/// Bounded by the number of bindings.
#[derive(Debug)]
pub struct Roster {
    scheduler: String,
    by_priority: bool,
    entries: HashMap<BindingKey, Entry>,
    groups: HashMap<Arc<str>, Group>,
    /// Bindings created with their first decision, until their creation is reported.
    first: HashMap<BindingKey, First>,
}

#[derive(Debug)]
struct First {
    /// The version of the created binding.
    version: u64,
    /// The clusters that the decision is based on.
    snapshot: Arc<Snapshot>,
}

#[derive(Debug)]
struct Entry {
    group: Arc<str>,
    priority: i32,
    /// The version of the binding up to which all changes are processed.
    handled: u64,
    /// Why the last pass failed, if it did.
    missing: Option<MissingResource>,
}

#[derive(Debug)]
struct Group {
    requirements: Requirements,
    keys: BTreeSet<BindingKey>,
}

/// The missing resource of a binding that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingResource {
    Capacity,
    Clusters,
}

/// The consequence of a change of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Push {
        priority: i32,
        version: u64,
    },
    /// Not, or no longer, this scheduler's.
    Remove,
    Nothing,
}

/// The consequence of a change of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AffectedBindings {
    /// Bindings whose last decision failed.
    pub push: Vec<(BindingKey, i32)>,
    /// All others that the change may concern.
    pub recheck: Vec<(BindingKey, i32)>,
    pub wake: Vec<BindingKey>,
}

impl Roster {
    /// `by_priority`: whether bindings have one.
    pub fn new(scheduler: impl Into<String>, by_priority: bool) -> Self {
        let (entries, groups, first) = Default::default();
        Self { scheduler: scheduler.into(), by_priority, entries, groups, first }
    }

    /// A created or changed binding. Status changes are ignored, and so are this scheduler's own writes (`is_own`).
    pub fn changed(&mut self, old: Option<&Object>, new: &Object, is_own: bool) -> Step {
        let version = new.revision();
        let same_spec = old.is_some_and(|old| old.generation() == new.generation() && old.uid() == new.uid());
        let same_owner = old.is_some_and(|old| triggers::is_claimed(old) == triggers::is_claimed(new));
        // This scheduler writes results and statuses: neither changes the placement. Further generations are of other
        // writers; their changes were not reported.
        if is_own && old.is_some_and(|old| new.generation() - old.generation() <= 1) {
            return Step::Nothing;
        }
        if same_spec && same_owner {
            return Step::Nothing;
        }
        let key = BindingKey::of(new);
        let Some((group, priority)) = self.admit(new) else {
            self.removed(&key);
            return Step::Remove;
        };
        let handled = self.enter(key, group, priority);
        // A binding without a policy keeps its result; changes of clusters enqueue it, including those during downtime.
        let unclaimed = !triggers::is_claimed(new) && (old.is_some() || !triggers::was_placed(new));
        if handled >= version || unclaimed {
            return Step::Nothing;
        }
        Step::Push { priority, version }
    }

    /// The group and the priority of a binding that passes.
    fn admit(&mut self, object: &Object) -> Option<(Arc<str>, i32)> {
        let json = object.json();
        let outline = Outline::of(&json)
            .inspect_err(|error| {
                tracing::warn!(binding = %object.key(), err = %error, "Binding cannot be decoded and is not scheduled");
            })
            .ok()
            .filter(|outline| match triggers::ignore_reason(object, outline.scheduling_state(), &self.scheduler) {
                // Its last pass found it in deletion.
                None | Some(IgnoreReason::Deleting | IgnoreReason::Unclaimed) => true,
                Some(_) => false,
            })?;
        let name = outline.group()?;
        let group = match self.groups.get_key_value(name.as_str()) {
            Some((known, _)) => known.clone(),
            None => {
                let requirements = outline.requirements().inspect_err(|error| {
                    tracing::warn!(binding = %object.key(), err = %error, "Placement cannot be decoded; the binding is not scheduled");
                });
                let name: Arc<str> = name.into();
                self.groups.insert(name.clone(), Group { requirements: requirements.ok()??, keys: BTreeSet::new() });
                name
            }
        };
        Some((group, if self.by_priority { outline.priority() } else { 0 }))
    }

    /// Returns the version up to which all changes are processed.
    fn enter(&mut self, key: BindingKey, group: Arc<str>, priority: i32) -> u64 {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.priority = priority;
            if entry.group == group {
                return entry.handled;
            }
            let before = std::mem::replace(&mut entry.group, group.clone());
            let handled = entry.handled;
            self.leave(&before, &key);
            self.join(&group, key);
            return handled;
        }
        let entry = Entry { group: group.clone(), priority, handled: 0, missing: None };
        self.entries.insert(key.clone(), entry);
        self.join(&group, key);
        0
    }

    fn join(&mut self, group: &Arc<str>, key: BindingKey) {
        if let Some(group) = self.groups.get_mut(group) {
            group.keys.insert(key);
        }
    }

    fn leave(&mut self, name: &Arc<str>, key: &BindingKey) {
        if let Some(group) = self.groups.get_mut(name) {
            group.keys.remove(key);
            if group.keys.is_empty() {
                self.groups.remove(name);
            }
        }
    }

    pub fn removed(&mut self, key: &BindingKey) {
        self.first.remove(key);
        if let Some(entry) = self.entries.remove(key) {
            self.leave(&entry.group, key);
        }
    }

    pub fn cluster(&self, change: &Change<'_>) -> AffectedBindings {
        let mut affected = AffectedBindings::default();
        for group in self.groups.values() {
            let reaction = change.reaction(&group.requirements);
            let members = group.keys.iter().filter_map(|key| Some((key, self.entries.get(key)?)));
            match reaction {
                Reaction::None => {}
                Reaction::Push => {
                    for (key, entry) in members {
                        let failed = entry.missing.is_some();
                        let to = if failed { &mut affected.push } else { &mut affected.recheck };
                        to.push((key.clone(), entry.priority));
                    }
                }
                Reaction::Wake | Reaction::WakeForRoom => {
                    let helped = members.filter(|(_, entry)| match entry.missing {
                        Some(MissingResource::Capacity) => true,
                        Some(MissingResource::Clusters) => reaction == Reaction::Wake,
                        None => false,
                    });
                    affected.wake.extend(helped.map(|(key, _)| key.clone()));
                }
            }
        }
        affected.push.sort();
        affected.recheck.sort();
        affected.wake.sort();
        affected
    }

    /// A pass ended that has dealt with the binding up to `version`.
    pub fn handled(&mut self, key: &BindingKey, version: u64, missing: Option<MissingResource>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.handled = entry.handled.max(version);
            entry.missing = missing;
        }
    }

    /// A binding was created with its first decision over these clusters.
    pub fn created(&mut self, key: BindingKey, version: u64, snapshot: Arc<Snapshot>) {
        if self.first.len() < MAX_FIRST && !self.entries.contains_key(&key) {
            self.first.insert(key, First { version, snapshot });
        }
    }

    /// The clusters over which the reported state of a new binding was decided; `None` if it has no decision.
    pub fn decided_over(&mut self, key: &BindingKey, version: u64) -> Option<Arc<Snapshot>> {
        self.first.remove(key).filter(|first| first.version == version).map(|first| first.snapshot)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::cluster::v1alpha1::Cluster;
    use serde_json::{Value, json};

    use super::*;
    use crate::triggers::DEFAULT_SCHEDULER;

    fn binding(name: &str, version: u64, generation: i64, spec: Value) -> Arc<Object> {
        let mut value = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version.to_string(),
                "generation": generation, "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment"}, "placement": {}}});
        apimachinery::merge_patch::apply(&mut value["spec"], &spec);
        Object::from_value(&value).expect("a binding").shared()
    }

    fn key(name: &str) -> BindingKey {
        BindingKey::namespaced("a", name)
    }

    #[test]
    fn only_new_changes_of_other_writers_are_queued() {
        let mut roster = Roster::new(DEFAULT_SCHEDULER, true);
        let first = binding("x", 1, 1, json!({}));
        assert_eq!(roster.changed(None, &first, false), Step::Push { priority: 0, version: 1 });
        let result = binding("x", 2, 2, json!({"clusters": [{"name": "m1"}]}));
        assert_eq!(roster.changed(Some(&first), &result, true), Step::Nothing, "its own result");
        roster.handled(&key("x"), 3, None);
        let status = binding("x", 4, 2, json!({}));
        assert_eq!(roster.changed(Some(&result), &status, false), Step::Nothing, "a status");
        let urgent = binding("x", 5, 3, json!({"schedulePriority": {"priority": 9}}));
        assert_eq!(roster.changed(Some(&status), &urgent, false), Step::Push { priority: 9, version: 5 });
        roster.handled(&key("x"), 6, None);
        let seen = binding("x", 6, 4, json!({}));
        assert_eq!(roster.changed(Some(&urgent), &seen, false), Step::Nothing, "a pass has seen it");
        let other = binding("x", 7, 5, json!({"schedulerName": "other"}));
        assert_eq!(roster.changed(Some(&seen), &other, false), Step::Remove);
        assert_eq!((roster.len(), roster.groups.len()), (0, 0));
    }

    #[test]
    fn unclaimed_bindings_are_scheduled_once_and_when_a_cluster_changes() {
        let mut roster = Roster::new(DEFAULT_SCHEDULER, true);
        let unclaimed = |version: u64, generation: i64| {
            let mut value = binding("x", version, generation, json!({})).to_value().expect("an object");
            value["metadata"]["labels"] = json!({});
            value["metadata"]["annotations"] = json!({"policy.karmada.io/applied-placement": "{}"});
            Object::from_value(&value).expect("an object")
        };
        let first = unclaimed(1, 1);
        assert_eq!(roster.changed(None, &first, false), Step::Push { priority: 0, version: 1 });
        assert_eq!(roster.changed(Some(&first), &unclaimed(2, 2), false), Step::Nothing);
        let cluster = |value: Value| -> Cluster { serde_json::from_value(value).expect("a cluster") };
        let old = cluster(json!({"metadata": {"name": "m1", "generation": 1}}));
        let new =
            cluster(json!({"metadata": {"name": "m1", "generation": 2, "deletionTimestamp": "2026-11-21T00:00:00Z"}}));
        let change = Change::between(Some(&old), Some(&new)).expect("a change");
        assert_eq!(roster.cluster(&change).recheck, [(key("x"), 0)]);
    }

    #[test]
    fn a_cluster_change_affects_placements_that_name_it() {
        let mut roster = Roster::new(DEFAULT_SCHEDULER, true);
        let named = |name: &str| json!({"placement": {"clusterAffinity": {"clusterNames": [name]}}});
        for (name, spec) in [("x", named("m1")), ("y", named("m1")), ("z", named("m2"))] {
            roster.changed(None, &binding(name, 1, 1, spec), false);
        }
        assert_eq!(roster.groups.len(), 2, "the same wants are kept once");
        let cluster = |generation: i64, status: Value| -> Cluster {
            let value = json!({"metadata": {"name": "m1", "generation": generation}, "status": status});
            serde_json::from_value(value).expect("a cluster")
        };
        let (old, new) = (cluster(1, json!({})), cluster(2, json!({})));
        let change = Change::between(Some(&old), Some(&new)).expect("it matters");
        assert_eq!(roster.cluster(&change).recheck, [(key("x"), 0), (key("y"), 0)]);
        roster.handled(&key("y"), 2, Some(MissingResource::Clusters));
        let expected = AffectedBindings { push: vec![(key("y"), 0)], recheck: vec![(key("x"), 0)], wake: vec![] };
        assert_eq!(roster.cluster(&change), expected, "a failed one is not part of the backlog");
        // More room wakes bindings that failed for lack of it.
        let roomier = cluster(1, json!({"resourceSummary": {"allocatable": {"cpu": "1"}}}));
        let change = Change::between(Some(&old), Some(&roomier)).expect("it matters");
        roster.handled(&key("x"), 2, Some(MissingResource::Capacity));
        roster.handled(&key("y"), 2, Some(MissingResource::Clusters));
        roster.handled(&key("z"), 2, Some(MissingResource::Capacity));
        assert_eq!(roster.cluster(&change), AffectedBindings { wake: vec![key("x")], ..AffectedBindings::default() });
    }
}
