//! Objects this process wrote a moment ago, until a cache has them. What is decided next must not be compared with an older
//! state: what was undone since would be taken for what is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use controller_runtime::{Event, Informer};
use parking_lot::Mutex;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<BTreeMap<ObjectKey, Arc<Object>>>>);

impl Written {
    /// Forgets each as soon as `informer` has it.
    pub(crate) fn until_in(informer: &Informer) -> Self {
        let written = Self::default();
        let known = written.clone();
        informer.subscribe(move |event| known.seen(event));
        written
    }

    pub(crate) fn seen(&self, event: &Event) {
        let seen = event.object();
        let is_gone = matches!(event, Event::Deleted(_));
        let mut written = self.0.lock();
        let is_over = |ours: &Arc<Object>| ours.revision() <= seen.revision() || (is_gone && ours.uid() == seen.uid());
        if written.get(&seen.key()).is_some_and(is_over) {
            written.remove(&seen.key());
        }
    }

    /// The newest state that is known.
    pub(crate) fn newest(&self, informer: &Informer, key: &ObjectKey) -> Option<Arc<Object>> {
        // In this order: what is forgotten in between is in the cache.
        let ours = self.0.lock().get(key).cloned();
        informer.cache().get(key).into_iter().chain(ours).max_by_key(|object| object.revision())
    }

    /// What a cache has found, as it was written since, with what it would find among what was.
    pub(crate) fn over(&self, mut found: Vec<Arc<Object>>, wanted: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        let written = self.0.lock();
        found.retain(|cached| written.get(&cached.key()).is_none_or(|ours| ours.revision() <= cached.revision()));
        let newer = |ours: &Arc<Object>| found.iter().all(|cached| cached.key() != ours.key());
        let ours: Vec<_> = written.values().filter(|ours| newer(ours) && wanted(ours)).cloned().collect();
        found.extend(ours);
        found
    }

    pub(crate) fn note(&self, informer: &Informer, object: Arc<Object>) {
        let (key, revision) = (object.key(), object.revision());
        self.0.lock().insert(key.clone(), object);
        // The cache may have been faster.
        if informer.cache().get(&key).is_some_and(|cached| cached.revision() >= revision) {
            self.forget(&key);
        }
    }

    /// Before another write: whatever comes of that, what was written before is no longer the newest.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, version: u64) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
        Arc::new(Object::parse(text).unwrap())
    }

    #[test]
    fn how_long_it_is_remembered() {
        let added = |object| Event::Added { object, initial: false };
        for (event, forgotten) in [
            (added(object("u", 4)), false),
            (added(object("u", 5)), true),
            (added(object("v", 6)), true),
            (Event::Updated { old: object("u", 3), new: object("u", 4) }, false),
            // The last state that was seen.
            (Event::Deleted(object("u", 4)), true),
            (Event::Deleted(object("former", 4)), false),
        ] {
            let written = Written::default();
            written.0.lock().insert(ObjectKey::cluster("a"), object("u", 5));
            written.seen(&event);
            assert_eq!(written.0.lock().is_empty(), forgotten, "{event:?}");
        }
    }

    #[test]
    fn what_is_found_is_the_newest() {
        let named = |name: &str, version: u64, label: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}","labels":{{"l":"{label}"}}}}}}"#
            );
            Arc::new(Object::parse(text).unwrap())
        };
        let written = Written::default();
        for ours in [named("new", 9, "1"), named("left", 8, "2"), named("changed", 7, "1"), named("old", 2, "1")] {
            written.0.lock().insert(ours.key(), ours);
        }
        let cached =
            vec![named("left", 3, "1"), named("changed", 4, "1"), named("old", 5, "1"), named("cached", 6, "1")];
        let found = written.over(cached, |object| object.label("l") == Some("1"));
        let mut found: Vec<_> = found.iter().map(|object| (object.name(), object.revision())).collect();
        found.sort_unstable();
        assert_eq!(found, [("cached", 6), ("changed", 7), ("new", 9), ("old", 5)]);
    }
}
