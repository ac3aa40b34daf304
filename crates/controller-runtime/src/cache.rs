//! The objects of one informer: ordered by key, with secondary indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use parking_lot::RwLock;

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
    values: IndexFn,
    entries: HashMap<String, BTreeSet<ObjectKey>>,
}

impl Index {
    fn replace(&mut self, key: &ObjectKey, old: &Object, new: &Object) {
        if (self.values)(old) != (self.values)(new) {
            self.remove(key, old);
            self.insert(key, new);
        }
    }

    fn insert(&mut self, key: &ObjectKey, object: &Object) {
        for value in (self.values)(object) {
            self.entries.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &ObjectKey, object: &Object) {
        for value in (self.values)(object) {
            if let Some(keys) = self.entries.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.entries.remove(&value);
                }
            }
        }
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
        let mut state = self.0.write();
        if state.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values: Box::new(values), entries: HashMap::new() };
        for (key, object) in &state.objects {
            index.insert(key, object);
        }
        state.indexes.insert(name, index);
    }

    /// An index over the value of a label, under the label's name.
    pub fn add_label_index(&self, label: &'static str) {
        self.add_index(label, move |object| object.label(label).map(str::to_owned).into_iter().collect());
    }

    /// The objects with `value` in an index, in the order of their keys; empty if the index does not exist.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<Object>> {
        let state = self.0.read();
        let keys = state.indexes.get(name).and_then(|index| index.entries.get(value));
        keys.into_iter().flatten().filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// How many objects have `value` in an index.
    pub fn count(&self, name: &str, value: &str) -> usize {
        let state = self.0.read();
        state.indexes.get(name).and_then(|index| index.entries.get(value)).map_or(0, BTreeSet::len)
    }

    /// Returns the previous object.
    pub(crate) fn insert(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut state = self.0.write();
        state.changes += 1;
        let State { objects, indexes, .. } = &mut *state;
        let key = object.key();
        let old = objects.insert(key.clone(), object.clone());
        for index in indexes.values_mut() {
            match &old {
                Some(old) => index.replace(&key, old, &object),
                None => index.insert(&key, &object),
            }
        }
        old
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
}
