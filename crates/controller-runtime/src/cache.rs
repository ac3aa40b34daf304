//! The objects of one informer: ordered by key, with secondary indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use parking_lot::RwLock;
use smallvec::SmallVec;

type IndexFn = Box<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// Shared by all users of an informer. Only the informer writes.
#[derive(Default)]
pub struct Cache(RwLock<State>);

#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    indexes: HashMap<&'static str, Index>,
    changes: u64,
}

struct Index {
    values: Values,
    entries: HashMap<Box<str>, Keys>,
}

/// The values of an object in an index.
enum Values {
    /// That of a label.
    Label(&'static str),
    Of(IndexFn),
}

impl Values {
    fn each(&self, object: &Object, mut visit: impl FnMut(&str)) {
        match self {
            Self::Label(label) => object.label(label).into_iter().for_each(visit),
            Self::Of(values) => values(object).iter().for_each(|value| visit(value)),
        }
    }

    fn are_same(&self, old: &Object, new: &Object) -> bool {
        match self {
            Self::Label(label) => old.label(label) == new.label(label),
            Self::Of(values) => values(old) == values(new),
        }
    }
}

/// The sorted keys of one value. Most values have one or two objects, for which a tree would reserve half a KiB.
enum Keys {
    Few(SmallVec<[ObjectKey; 1]>),
    Many(BTreeSet<ObjectKey>),
}

/// A list of so many keys is searched and shifted as fast as a tree.
const FEW: usize = 16;

impl Default for Keys {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Keys {
    fn insert(&mut self, key: &ObjectKey) {
        let full = match self {
            Self::Few(keys) => match keys.binary_search(key) {
                Ok(_) => return,
                Err(at) if keys.len() < FEW => {
                    keys.reserve_exact(1);
                    return keys.insert(at, key.clone());
                }
                Err(_) => std::mem::take(keys),
            },
            Self::Many(keys) => {
                keys.insert(key.clone());
                return;
            }
        };
        *self = Self::Many(full.into_iter().chain([key.clone()]).collect());
    }

    /// Returns whether no key is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::Few(keys) => {
                if let Ok(at) = keys.binary_search(key) {
                    keys.remove(at);
                }
                keys.is_empty()
            }
            Self::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(keys) => keys.len(),
            Self::Many(keys) => keys.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &ObjectKey> {
        let (few, many) = match self {
            Self::Few(keys) => (Some(keys.iter()), None),
            Self::Many(keys) => (None, Some(keys.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }
}

impl Index {
    fn replace(&mut self, key: &ObjectKey, old: &Object, new: &Object) {
        if !self.values.are_same(old, new) {
            self.remove(key, old);
            self.insert(key, new);
        }
    }

    fn insert(&mut self, key: &ObjectKey, object: &Object) {
        let Self { values, entries } = self;
        values.each(object, |value| match entries.get_mut(value) {
            Some(keys) => keys.insert(key),
            None => entries.entry(value.into()).or_default().insert(key),
        });
    }

    fn remove(&mut self, key: &ObjectKey, object: &Object) {
        let Self { values, entries } = self;
        values.each(object, |value| {
            if entries.get_mut(value).is_some_and(|keys| keys.remove(key)) {
                entries.remove(value);
            }
        });
    }
}

impl Cache {
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.read().objects.get(key).cloned()
    }

    /// The objects of a namespace, or all, in the order of their keys.
    pub fn list(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let state = self.0.read();
        match namespace {
            None => state.objects.values().cloned().collect(),
            Some(namespace) => state
                .objects
                .range(ObjectKey::namespaced(namespace, "")..)
                .take_while(|(key, _)| key.namespace() == Some(namespace))
                .map(|(_, object)| object.clone())
                .collect(),
        }
    }

    pub fn keys(&self) -> Vec<ObjectKey> {
        self.0.read().objects.keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.0.read().objects.len()
    }

    /// Increases with every change: a result computed at one number is valid until the number changes.
    pub fn changes(&self) -> u64 {
        self.0.read().changes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an index over current and future objects. An existing index of the same name is kept.
    pub fn add_index(&self, name: &'static str, values: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static) {
        self.add(name, Values::Of(Box::new(values)));
    }

    fn add(&self, name: &'static str, values: Values) {
        let mut state = self.0.write();
        if state.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values, entries: HashMap::new() };
        for (key, object) in &state.objects {
            index.insert(key, object);
        }
        state.indexes.insert(name, index);
    }

    /// An index over the value of a label, under the label's name.
    pub fn add_label_index(&self, label: &'static str) {
        self.add_label_index_as(label, label);
    }

    /// [`Cache::add_label_index`] under another name.
    pub fn add_label_index_as(&self, name: &'static str, label: &'static str) {
        self.add(name, Values::Label(label));
    }

    /// The objects with `value` in an index, in the order of their keys; empty if the index does not exist.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<Object>> {
        let state = self.0.read();
        let keys = state.indexes.get(name).and_then(|index| index.entries.get(value));
        keys.into_iter().flat_map(Keys::iter).filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// How many objects have `value` in an index.
    pub fn count(&self, name: &str, value: &str) -> usize {
        let state = self.0.read();
        state.indexes.get(name).and_then(|index| index.entries.get(value)).map_or(0, Keys::len)
    }

    /// Returns the previous object.
    pub(crate) fn insert(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut state = self.0.write();
        state.changes += 1;
        let State { objects, indexes, .. } = &mut *state;
        let key = object.key();
        if let Some(known) = objects.get_mut(&key) {
            let old = std::mem::replace(known, object.clone());
            indexes.values_mut().for_each(|index| index.replace(&key, &old, &object));
            return Some(old);
        }
        indexes.values_mut().for_each(|index| index.insert(&key, &object));
        objects.insert(key, object)
    }

    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let mut state = self.0.write();
        state.changes += 1;
        let State { objects, indexes, .. } = &mut *state;
        let old = objects.remove(key)?;
        for index in indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: &str, name: &str, label: &str) -> Arc<Object> {
        let json =
            format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","labels":{{"l":"{label}"}}}}}}"#);
        Object::parse(json).expect("a document").shared()
    }

    #[test]
    fn indexes_follow_the_objects() {
        let cache = Cache::default();
        cache.insert(object("a", "1", "x"));
        cache.add_label_index("l");
        cache.insert(object("b", "1", "x"));
        cache.insert(object("ab", "1", "y"));
        let names = |found: Vec<Arc<Object>>| found.iter().map(|o| o.key().to_string()).collect::<Vec<_>>();
        assert_eq!(names(cache.by_index("l", "x")), ["a/1", "b/1"]);
        assert_eq!(names(cache.list(Some("a"))), ["a/1"]);
        cache.insert(object("a", "1", "y"));
        cache.remove(&ObjectKey::namespaced("b", "1"));
        assert_eq!(names(cache.by_index("l", "x")), [""; 0]);
        assert_eq!(names(cache.by_index("l", "y")), ["a/1", "ab/1"]);
        assert_eq!((cache.count("l", "x"), cache.count("l", "y"), cache.count("m", "y")), (0, 2, 0));
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn an_index_holds_few_and_many_keys_of_a_value() {
        let cache = Cache::default();
        cache.add_label_index("l");
        cache.add_index("names", |object| vec![object.name().to_owned()]);
        let name = |n: usize| format!("{:02}", n * 7 % 40);
        for n in 0..40 {
            cache.insert(object("a", &name(n), "x"));
            cache.insert(object("a", &name(n), "x"));
            let found = cache.by_index("l", "x");
            assert!(found.iter().map(|it| it.name()).is_sorted() && found.len() == n + 1, "{n}");
            assert_eq!((cache.count("l", "x"), cache.count("names", &name(n))), (n + 1, 1));
        }
        for n in 0..40 {
            cache.remove(&ObjectKey::namespaced("a", name(n)));
            assert_eq!((cache.by_index("l", "x").len(), cache.count("l", "x")), (39 - n, 39 - n));
            assert_eq!(cache.count("names", &name(n)), 0);
        }
        assert!(cache.0.read().indexes.values().all(|index| index.entries.is_empty()));
    }
}
