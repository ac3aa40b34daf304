//! A model of ownership for tests: flat maps of leaves, slow and simple, against which random histories are checked.
//!
//! The model supports labels, replicas, and containers with a name and an image. A container and the map of labels are
//! leaves, too.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_schemas::deployment;

/// `labels`, `labels.k`, `replicas`, `c[a]`, `c[a].name`, `c[a].image`, with their values.
type Leaves = BTreeMap<String, String>;
type Set = BTreeSet<String>;

/// The map of labels. Applying its content does not own it.
const LABELS: &str = "labels";

/// The map of labels is there if a label is.
fn with_labels(mut leaves: Leaves) -> Leaves {
    leaves.remove(LABELS);
    if leaves.keys().any(|leaf| leaf.starts_with("labels.")) {
        leaves.insert(LABELS.into(), String::new());
    }
    leaves
}

#[derive(Default)]
struct Model {
    live: Leaves,
    exists: bool,
    /// `Apply NAME` or `Update NAME`.
    owners: BTreeMap<String, Set>,
}

impl Model {
    fn update(&mut self, manager: &str, new: &Leaves) {
        let untracked = self.exists && self.owners.is_empty();
        let is_changed = |leaf: &String| self.live.get(leaf) != new.get(leaf);
        let changed: Set = new.keys().filter(|leaf| is_changed(leaf)).cloned().collect();
        let removed: Set = self.live.keys().filter(|leaf| !new.contains_key(*leaf)).cloned().collect();
        (self.live, self.exists) = (new.clone(), true);
        if untracked {
            return;
        }
        for set in self.owners.values_mut() {
            set.retain(|leaf| !changed.contains(leaf) && !removed.contains(leaf));
        }
        self.owners.entry(format!("Update {manager}")).or_default().extend(changed);
        self.owners.retain(|_, set| !set.is_empty());
    }

    /// The leaves in conflict, with their owners.
    fn apply(&mut self, manager: &str, patch: &Leaves, force: bool) -> Result<(), BTreeSet<(String, String)>> {
        let own = format!("Apply {manager}");
        let mut owners = self.owners.clone();
        if self.exists && owners.is_empty() {
            owners.insert("Update before-first-apply".into(), self.live.keys().cloned().collect());
        }
        let mut conflicts = BTreeSet::new();
        for (owner, set) in owners.iter().filter(|(owner, _)| **owner != own) {
            let taken =
                set.iter().filter(|leaf| patch.get(*leaf).is_some_and(|value| self.live.get(*leaf) != Some(value)));
            conflicts.extend(taken.map(|leaf| (owner.clone(), leaf.clone())));
        }
        if !conflicts.is_empty() && !force {
            // A refused apply is not stored, nor are its changes of owners.
            return Err(conflicts);
        }
        self.owners = owners;
        let last = self.owners.remove(&own).unwrap_or_default();
        let kept = |leaf: &String| patch.contains_key(leaf) || self.owners.values().any(|set| set.contains(leaf));
        let given_up: Set = last.into_iter().filter(|leaf| !kept(leaf)).collect();
        self.live.extend(patch.clone());
        self.live.retain(|leaf, _| !given_up.iter().any(|gone| leaf == gone || leaf.starts_with(&format!("{gone}."))));
        // A map without content is unset and keeps its owners.
        self.live = with_labels(std::mem::take(&mut self.live));
        for (owner, set) in &mut self.owners {
            let live = &self.live;
            set.retain(|leaf| {
                (live.contains_key(leaf) || leaf == LABELS) && !conflicts.contains(&(owner.clone(), leaf.clone()))
            });
        }
        self.owners.insert(own, patch.keys().filter(|leaf| *leaf != LABELS).cloned().collect());
        self.owners.retain(|_, set| !set.is_empty());
        self.exists = true;
        Ok(())
    }
}

fn document(leaves: &Leaves) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    let mut containers: BTreeMap<&str, Value> = BTreeMap::new();
    for (leaf, value) in leaves.iter().filter(|(leaf, _)| *leaf != LABELS) {
        match (leaf.split_once('.'), leaf.strip_prefix("c[")) {
            (Some(("labels", key)), _) => object["metadata"]["labels"][key] = json!(value),
            (Some((_, field)), Some(rest)) => {
                containers.entry(&rest[..1]).or_insert_with(|| json!({}))[field] = json!(value)
            }
            (None, Some(_)) => {}
            _ => object["spec"]["replicas"] = json!(value.parse::<i64>().expect("a number")),
        }
    }
    if !containers.is_empty() {
        object["spec"]["template"]["spec"]["containers"] = containers.into_values().collect();
    }
    object
}

fn leaves(object: &Value) -> Leaves {
    let mut leaves = Leaves::new();
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        leaves.insert(format!("labels.{key}"), value.as_str().unwrap_or_default().to_owned());
    }
    if let Some(replicas) = object["spec"]["replicas"].as_i64() {
        leaves.insert("replicas".into(), replicas.to_string());
    }
    for container in object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten() {
        let item = format!("c[{}]", container["name"].as_str().unwrap_or_default());
        for (field, value) in container.as_object().into_iter().flatten() {
            leaves.insert(format!("{item}.{field}"), value.as_str().unwrap_or_default().to_owned());
        }
        leaves.insert(item, String::new());
    }
    with_labels(leaves)
}

fn owners(object: &Value) -> BTreeMap<String, Set> {
    let mut owners: BTreeMap<String, Set> = BTreeMap::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let fields = &entry["fieldsV1"];
        let mut set = Set::new();
        let labels = fields["f:metadata"]["f:labels"].as_object();
        let is_owned = labels.is_some_and(|members| members.is_empty() || members.contains_key("."));
        set.extend(is_owned.then(|| LABELS.to_owned()));
        for key in fields["f:metadata"]["f:labels"].as_object().into_iter().flat_map(|labels| labels.keys()) {
            set.extend(key.strip_prefix("f:").map(|key| format!("labels.{key}")));
        }
        set.extend(fields["f:spec"].get("f:replicas").map(|_| "replicas".to_owned()));
        let containers = &fields["f:spec"]["f:template"]["f:spec"]["f:containers"];
        for (key, members) in containers.as_object().into_iter().flatten() {
            let Some(key) = key.strip_prefix("k:") else { continue };
            let key: Value = serde_json::from_str(key).expect("the keys of an item");
            let item = format!("c[{}]", key["name"].as_str().unwrap_or_default());
            let members = members.as_object().into_iter().flat_map(|members| members.keys());
            for member in members.filter(|member| matches!(member.as_str(), "." | "f:name" | "f:image")) {
                set.insert(member.strip_prefix("f:").map_or_else(|| item.clone(), |field| format!("{item}.{field}")));
            }
        }
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        if !set.is_empty() {
            owners.entry(format!("{} {}", text("operation"), text("manager"))).or_default().extend(set);
        }
    }
    owners
}

#[derive(Clone, Debug)]
enum Step {
    /// The current object, with some leaves set and some removed.
    Update(String, Leaves, Vec<usize>),
    Apply(String, Leaves, bool),
}

fn any_leaves() -> impl Strategy<Value = Leaves> {
    let labels = prop::collection::btree_map("[k-m]", "[xy]", 0..3);
    let containers = prop::collection::btree_map("[abc]", prop::option::of("[ij]"), 0..3);
    (labels, containers, prop::option::of(1..4)).prop_map(|(labels, containers, replicas)| {
        let mut leaves: Leaves = labels.into_iter().map(|(key, value)| (format!("labels.{key}"), value)).collect();
        leaves.extend(replicas.map(|n: i32| ("replicas".to_owned(), n.to_string())));
        for (name, image) in containers {
            leaves.insert(format!("c[{name}]"), String::new());
            leaves.insert(format!("c[{name}].name"), name.clone());
            leaves.extend(image.map(|image| (format!("c[{name}].image"), image)));
        }
        with_labels(leaves)
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        ("[uv]", any_leaves(), prop::collection::vec(0..12usize, 0..3))
            .prop_map(|(m, l, gone)| Step::Update(m, l, gone)),
        ("[mn]", any_leaves(), any::<bool>()).prop_map(|(m, l, force)| Step::Apply(m, l, force)),
    ]
}

/// The leaves after an update: an item is removed as a whole, and its name stays as long as it does.
fn edited(live: &Leaves, set: &Leaves, gone: &[usize]) -> Leaves {
    let mut new = live.clone();
    for leaf in gone.iter().filter_map(|index| live.keys().nth(*index)).filter(|leaf| !leaf.ends_with(".name")) {
        new.retain(|other, _| other != leaf && !other.starts_with(&format!("{leaf}.")));
    }
    new.extend(set.clone());
    with_labels(new)
}

proptest! {
    #[test]
    fn histories_end_as_in_the_model(steps in prop::collection::vec(any_step(), 1..12)) {
        let type_ = deployment();
        let (mut model, mut live) = (Model::default(), None::<Value>);
        for (second, step) in steps.iter().enumerate() {
            let now = Time::new(jiff::Timestamp::from_second(second as i64).expect("in range"));
            let context = |manager| ManagerContext { manager, api_version: "apps/v1", subresource: "", now, reset_fields: &NO_FIELDS, versions: ONE_VERSION };
            match step {
                Step::Update(manager, set, gone) => {
                    let edited_object = edited(&model.live, set, gone);
                    let mut new = document(&edited_object);
                    if let Some(entries) = live.as_ref().and_then(|live| live["metadata"].get("managedFields")) {
                        new["metadata"]["managedFields"] = entries.clone();
                    }
                    update(live.as_ref(), &mut new, &context(manager), &type_);
                    model.update(manager, &edited_object);
                    live = Some(new);
                }
                Step::Apply(manager, patch, force) => {
                    let result = apply(live.as_ref(), &document(patch), &context(manager), *force, &type_);
                    match (result, model.apply(manager, patch, *force)) {
                        (Ok(merged), Ok(())) => live = Some(merged),
                        (Err(ApplyError::Conflicts(found)), Err(expected)) => {
                            // One conflict names all the fields of one manager.
                            let fields: usize = found.iter().map(|conflict| conflict.fields.paths().len()).sum();
                            prop_assert_eq!(fields, expected.len(), "{:?} {:?}", found, expected);
                        }
                        (found, expected) => prop_assert!(false, "{found:?}, not {expected:?}"),
                    }
                }
            }
            let object = live.clone().unwrap_or_default();
            prop_assert_eq!(leaves(&object), model.live.clone(), "after step {} {:?}", second, step);
            prop_assert_eq!(owners(&object), model.owners.clone(), "after step {} {:?}", second, step);
        }
    }
}
