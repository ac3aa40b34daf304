//! Decoded mirrors of small caches that every decision reads: policies, overrides, clusters.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use controller_runtime::{Event, Informer};
use karmada_api::identity::ClusterName;
use parking_lot::RwLock;

/// A map updated by informers; later subscribers to the same informers find it already updated.
pub(crate) struct Store<T, K = ObjectKey>(Arc<RwLock<BTreeMap<K, Arc<T>>>>);

impl<T, K> Clone for Store<T, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + Sync + 'static, K: Ord + Send + Sync + 'static> Store<T, K> {
    /// An object that cannot be decoded keeps its last valid state and is named in the log.
    fn by<E: Display + 'static>(
        informers: &[&Informer],
        identity: fn(&Object) -> K,
        decode: fn(&Object) -> Result<T, E>,
    ) -> Self {
        let store = Self(Arc::default());
        for informer in informers {
            let map = store.0.clone();
            informer.subscribe(move |event| match event {
                Event::Deleted(object) => {
                    map.write().remove(&identity(object));
                }
                Event::Added { object, .. } | Event::Updated { new: object, .. } => match decode(object) {
                    Ok(value) => {
                        map.write().insert(identity(object), Arc::new(value));
                    }
                    Err(error) => {
                        let (kind, key) = (object.kind(), object.key());
                        tracing::warn!(kind, object = %key, err = %error, "Object cannot be decoded; its last valid state is used");
                    }
                },
            });
        }
        store
    }

    /// A store without informers.
    pub(crate) fn empty() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.read().values().cloned().collect()
    }
}

impl<T: Send + Sync + 'static> Store<T, ClusterName> {
    /// Objects that have the names of clusters.
    pub(crate) fn of_clusters<E: Display + 'static>(informer: &Informer, decode: fn(&Object) -> Result<T, E>) -> Self {
        Self::by(&[informer], |object| ClusterName::from(object.name()), decode)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<T>> {
        self.0.read().get(name).cloned()
    }
}

impl<T: Send + Sync + 'static> Store<T> {
    /// [`Store::by`] their keys.
    pub(crate) fn follow<E: Display + 'static>(informers: &[&Informer], decode: fn(&Object) -> Result<T, E>) -> Self {
        Self::by(informers, Object::key, decode)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.0.read().get(key).cloned()
    }

    /// The cluster-scoped ones (`None`), or those of a namespace.
    pub(crate) fn of(&self, namespace: Option<&str>) -> Vec<Arc<T>> {
        let from = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
        let map = self.0.read();
        map.range(from..).take_while(|(key, _)| key.namespace() == namespace).map(|(_, value)| value.clone()).collect()
    }
}
