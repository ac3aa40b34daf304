//! A model of strategic merge patches of a few fields by the meaning of the directives, as sets and orders of names,
//! without walking a document: it states the result of a patch field by field.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_schemas::deployment;

type Texts = BTreeMap<String, String>;

/// The stored object: labels, finalizers, a strategy (whose keys are retained), containers by name, their arguments.
#[derive(Clone, Debug, Default)]
struct Object {
    labels: Option<Texts>,
    finalizers: Option<Vec<String>>,
    strategy: Option<Texts>,
    containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Container {
    name: String,
    image: Option<String>,
    args: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
enum OfMap {
    /// None removes a key. The second field holds further keys to retain.
    Merge(BTreeMap<String, Option<String>>, Option<BTreeSet<String>>),
    Replace(Texts),
    Delete,
    Null,
}

#[derive(Clone, Debug)]
enum OfContainer {
    Merge { name: String, image: Option<Option<String>>, args: Option<Option<Vec<String>>> },
    Delete(String),
}

#[derive(Clone, Debug, Default)]
struct Patch {
    labels: Option<OfMap>,
    strategy: Option<OfMap>,
    finalizers: Option<Vec<String>>,
    gone_finalizers: Vec<String>,
    finalizer_order: Option<Vec<String>>,
    containers: Option<Vec<OfContainer>>,
    replace_containers: bool,
    container_order: Option<Vec<String>>,
}

fn map_after(live: Option<&Texts>, patch: Option<&OfMap>) -> Option<Texts> {
    let Some(patch) = patch else { return live.cloned() };
    match (patch, live) {
        (OfMap::Null, _) | (OfMap::Replace(_) | OfMap::Delete, None) => None,
        (OfMap::Replace(texts), Some(_)) => Some(texts.clone()),
        (OfMap::Delete, Some(_)) => Some(Texts::new()),
        (OfMap::Merge(changes, retained), live) => {
            let of_live = live.into_iter().flatten();
            let stays = |key: &String| retained.as_ref().is_none_or(|r| r.contains(key) || changes.contains_key(key));
            let kept = of_live.filter(|(key, _)| stays(key) && !changes.contains_key(*key));
            let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
            let set = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
            Some(kept.chain(set).collect())
        }
    }
}

fn without_repeats(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// The members in order: the stated ones in the stated order, and each other one, in its live order, right before the
/// first stated one that followed it in the live list; but never before another one's position.
fn in_order(members: &BTreeSet<String>, stated: &[String], live: &[String]) -> Vec<String> {
    let stated: Vec<&String> = stated.iter().filter(|name| members.contains(*name)).collect();
    let place = |name: &String| live.iter().position(|other| other == name);
    let mut result: Vec<String> = stated.iter().map(|name| (*name).clone()).collect();
    let mut from = 0;
    for name in live.iter().filter(|name| members.contains(*name) && !stated.contains(name)) {
        let followed = |other: &String| place(other).is_some_and(|at| Some(at) > place(name));
        let at = (from..result.len()).find(|at| followed(&result[*at])).unwrap_or(result.len());
        result.insert(at, name.clone());
        from = at + 1;
    }
    result
}

fn is_within(names: &[String], order: &[String]) -> bool {
    let mut rest = order.iter();
    names.iter().all(|name| rest.any(|other| other == name))
}

/// Whether there are lists to order, all of them empty.
fn is_void<L, P>(order: Option<&Vec<String>>, live: Option<&Vec<L>>, patch: Option<&Vec<P>>) -> bool {
    let some = live.is_some() || patch.is_some();
    order.is_some() && some && live.is_none_or(Vec::is_empty) && patch.is_none_or(Vec::is_empty)
}

impl Patch {
    fn after(&self, live: &Object) -> Option<Object> {
        let labels = map_after(live.labels.as_ref(), self.labels.as_ref());
        let strategy = map_after(live.strategy.as_ref(), self.strategy.as_ref());
        Some(Object { labels, strategy, finalizers: self.finalizers(live)?, containers: self.containers(live)? })
    }

    /// None if the patch is refused.
    fn finalizers(&self, live: &Object) -> Option<Option<Vec<String>>> {
        let patch = self.finalizers.as_ref();
        if let (Some(patch), Some(order)) = (patch, &self.finalizer_order)
            && !is_within(patch, order)
        {
            return None;
        }
        if is_void(self.finalizer_order.as_ref(), live.finalizers.as_ref(), patch) {
            return None;
        }
        let had = live.finalizers.clone();
        if had.is_none() && patch.is_none() {
            return Some(None);
        }
        let before = without_repeats(had.unwrap_or_default());
        let members: BTreeSet<String> = before.iter().chain(patch.into_iter().flatten()).cloned().collect();
        let stays = |name: &String| !self.gone_finalizers.contains(name);
        let stated = self.finalizer_order.as_ref().or(patch).cloned().unwrap_or_default();
        // `$setElementOrder` also positions removed items, and the others relative to them.
        let placed = members.into_iter().filter(|name| self.finalizer_order.is_some() || stays(name)).collect();
        Some(Some(in_order(&placed, &without_repeats(stated), &before).into_iter().filter(stays).collect()))
    }

    fn containers(&self, live: &Object) -> Option<Option<Vec<Container>>> {
        let documents = self.containers.as_ref().filter(|items| !items.is_empty() || !self.replace_containers);
        if (self.containers.is_none() || documents.is_some())
            && is_void(self.container_order.as_ref(), live.containers.as_ref(), documents)
        {
            return None;
        }
        let Some(patch) = &self.containers else {
            let order = self.container_order.clone().unwrap_or_default();
            return Some(live.containers.as_ref().map(|containers| {
                let before: Vec<String> = containers.iter().map(|c| c.name.clone()).collect();
                sorted(containers, &in_order(&before.iter().cloned().collect(), &order, &before))
            }));
        };
        let merged: Vec<String> = patch.iter().filter_map(OfContainer::merged).collect();
        if self.container_order.as_ref().is_some_and(|order| !is_within(&merged, order)) {
            return None;
        }
        let had: &[Container] = live.containers.as_deref().unwrap_or_default();
        let before: Vec<String> = had.iter().map(|c| c.name.clone()).collect();
        let is_gone =
            |name: &String| patch.iter().any(|item| matches!(item, OfContainer::Delete(gone) if gone == name));
        let stays = |c: &&Container| !self.replace_containers && !is_gone(&c.name);
        let mut containers: BTreeMap<String, Container> =
            had.iter().filter(stays).map(|c| (c.name.clone(), c.clone())).collect();
        for item in patch {
            let OfContainer::Merge { name, image, args } = item else { continue };
            let container = containers.entry(name.clone()).or_default();
            container.name.clone_from(name);
            container.image = image.clone().unwrap_or_else(|| container.image.clone());
            container.args = args.clone().unwrap_or_else(|| container.args.clone());
        }
        let members = containers.keys().cloned().collect();
        let stated = self.container_order.clone().unwrap_or(merged);
        let all: Vec<Container> = containers.into_values().collect();
        Some(Some(sorted(&all, &in_order(&members, &stated, &before))))
    }

    fn document(&self) -> Value {
        let mut patch = json!({});
        if let Some(labels) = &self.labels {
            patch["metadata"]["labels"] = labels.document();
        }
        if let Some(strategy) = &self.strategy {
            patch["spec"]["strategy"] = strategy.document();
        }
        if let Some(finalizers) = &self.finalizers {
            patch["metadata"]["finalizers"] = json!(finalizers);
        }
        if !self.gone_finalizers.is_empty() {
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(self.gone_finalizers);
        }
        if let Some(order) = &self.finalizer_order {
            patch["metadata"]["$setElementOrder/finalizers"] = json!(order);
        }
        if let Some(containers) = &self.containers {
            let items = containers.iter().map(OfContainer::document);
            let replace = self.replace_containers.then(|| json!({"$patch": "replace"}));
            patch["spec"]["template"]["spec"]["containers"] = items.chain(replace).collect();
        }
        if let Some(order) = &self.container_order {
            let order: Vec<Value> = order.iter().map(|name| json!({"name": name})).collect();
            patch["spec"]["template"]["spec"]["$setElementOrder/containers"] = json!(order);
        }
        patch
    }
}

fn sorted(containers: &[Container], names: &[String]) -> Vec<Container> {
    names.iter().filter_map(|name| containers.iter().find(|c| c.name == *name).cloned()).collect()
}

impl OfMap {
    fn document(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Delete => json!({"$patch": "delete"}),
            Self::Replace(texts) => {
                let mut document = json!(texts);
                document["$patch"] = "replace".into();
                document
            }
            Self::Merge(changes, retained) => {
                let mut document = json!(changes);
                if let Some(retained) = retained {
                    let listed: BTreeSet<&String> = retained.iter().chain(changes.keys()).collect();
                    document["$retainKeys"] = json!(listed);
                }
                document
            }
        }
    }
}

impl OfContainer {
    fn merged(&self) -> Option<String> {
        match self {
            Self::Merge { name, .. } => Some(name.clone()),
            Self::Delete(_) => None,
        }
    }

    fn document(&self) -> Value {
        match self {
            Self::Delete(name) => json!({"name": name, "$patch": "delete"}),
            Self::Merge { name, image, args } => {
                let mut document = json!({"name": name});
                if let Some(image) = image {
                    document["image"] = json!(image);
                }
                if let Some(args) = args {
                    document["args"] = json!(args);
                }
                document
            }
        }
    }
}

impl Object {
    fn document(&self) -> Value {
        let mut object = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}});
        if let Some(labels) = &self.labels {
            object["metadata"]["labels"] = json!(labels);
        }
        if let Some(finalizers) = &self.finalizers {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        if let Some(strategy) = &self.strategy {
            object["spec"]["strategy"] = json!(strategy);
        }
        if let Some(containers) = &self.containers {
            let items = containers.iter().map(|container| {
                let mut document = json!({"name": container.name});
                document.as_object_mut().into_iter().for_each(|map| {
                    map.extend(container.image.iter().map(|image| ("image".to_owned(), json!(image))));
                    map.extend(container.args.iter().map(|args| ("args".to_owned(), json!(args))));
                });
                document
            });
            object["spec"]["template"]["spec"]["containers"] = items.collect();
        }
        object
    }
}

fn texts() -> impl Strategy<Value = Texts> {
    prop::collection::btree_map("[k-n]", "[xy]", 0..4)
}

fn names() -> impl Strategy<Value = Vec<String>> {
    Just(["a", "b", "c", "d", "e"].map(str::to_owned).to_vec())
        .prop_shuffle()
        .prop_flat_map(|names| (0..=names.len()).prop_map(move |length| names[..length].to_vec()))
}

fn of_map(retaining: bool) -> impl Strategy<Value = OfMap> {
    let changes = prop::collection::btree_map("[k-n]", prop::option::of("[xy]"), 0..4);
    let retained = prop::option::of(prop::collection::btree_set("[k-n]", 0..3));
    prop_oneof![
        5 => (changes, retained).prop_map(move |(c, r)| OfMap::Merge(c, r.filter(|_| retaining))),
        1 => texts().prop_map(OfMap::Replace),
        1 => Just(OfMap::Delete),
        1 => Just(OfMap::Null),
    ]
}

fn any_object() -> impl Strategy<Value = Object> {
    let content = (prop::option::of("[ij]"), prop::option::of(prop::collection::vec("[xy]", 0..3)));
    let containers = (names(), prop::collection::vec(content, 5)).prop_map(|(names, contents)| {
        let named = names.into_iter().zip(contents);
        named.map(|(name, (image, args))| Container { name, image, args }).collect()
    });
    let option = prop::option::of::<BoxedStrategy<Texts>>;
    (option(texts().boxed()), prop::option::of(names()), option(texts().boxed()), prop::option::of(containers))
        .prop_map(|(labels, finalizers, strategy, containers)| Object { labels, finalizers, strategy, containers })
}

fn any_patch() -> impl Strategy<Value = Patch> {
    let content = (
        prop::option::of(prop::option::of("[ij]")),
        prop::option::of(prop::option::of(prop::collection::vec("[xy]", 0..3))),
        prop::bool::weighted(0.2),
    );
    let containers = (names(), prop::collection::vec(content, 5)).prop_map(|(names, contents)| {
        let named = names.into_iter().zip(contents);
        let item = |(name, (image, args, gone))| {
            if gone { OfContainer::Delete(name) } else { OfContainer::Merge { name, image, args } }
        };
        named.map(item).collect()
    });
    let maps = (prop::option::of(of_map(false)), prop::option::of(of_map(true)));
    let finalizers = (prop::option::of(names()), names(), prop::option::of(names()));
    let lists = (prop::option::of(containers), prop::bool::weighted(0.15), prop::option::of(names()));
    (maps, finalizers, lists).prop_map(|((labels, strategy), finalizers, (containers, replace, order))| Patch {
        labels,
        strategy,
        // An added item is not removed by the same patch.
        gone_finalizers: finalizers.1.into_iter().filter(|n| finalizers.0.iter().flatten().all(|f| f != n)).collect(),
        finalizers: finalizers.0,
        // An empty order is ignored.
        finalizer_order: finalizers.2.filter(|order| !order.is_empty()),
        containers,
        replace_containers: replace,
        container_order: order.filter(|order| !order.is_empty()),
    })
}

proptest! {
    #[test]
    fn patches_equal_the_model(live in any_object(), patch in any_patch()) {
        let (before, document) = (live.document(), patch.document());
        let mut result = before.clone();
        match (apply(&mut result, &document, &deployment()), patch.after(&live)) {
            (Ok(()), Some(expected)) => {
                prop_assert_eq!(result, expected.document(), "{} + {}", before, document);
            }
            (Err(_), None) => {}
            (found, expected) => prop_assert!(false, "{before} + {document}: {found:?}, not {expected:?}"),
        }
    }
}
