//! A resource of a member whose objects are written to a service.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use controller_runtime::Informer;
use parking_lot::RwLock;

/// The objects of a resource of a member, as far as they are known.
pub(super) trait Known: Send + Sync {
    /// The newest known state.
    fn get(&self, key: &ObjectKey) -> Option<Arc<Object>>;
    /// All known objects.
    fn all(&self) -> Vec<Arc<Object>>;
    /// Whether an object that is not known does not exist in the member.
    fn is_complete(&self) -> bool;
}

impl Known for Informer {
    fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.cache().get(key)
    }

    fn all(&self) -> Vec<Arc<Object>> {
        self.cache().list(None)
    }

    /// A cache that has lost its member may lack new objects.
    fn is_complete(&self) -> bool {
        self.has_synced() && self.trouble().is_none()
    }
}

/// A resource of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub cluster: String,
    pub resource: ApiResource,
}

/// A resource of a member, its objects, and the selected ones of them.
pub(super) struct Source {
    pub place: Place,
    pub index: String,
    pub known: Arc<dyn Known>,
    /// An empty set means all.
    namespaces: RwLock<BTreeSet<String>>,
}

impl Source {
    pub fn new(place: Place, index: String, known: Arc<dyn Known>, namespaces: BTreeSet<String>) -> Self {
        Self { place, index, known, namespaces: RwLock::new(namespaces) }
    }

    /// Returns whether the selection has changed.
    pub fn select(&self, namespaces: &BTreeSet<String>) -> bool {
        let mut selected = self.namespaces.write();
        let changed = *selected != *namespaces;
        if changed {
            selected.clone_from(namespaces);
        }
        changed
    }

    pub fn selects(&self, object: &Object) -> bool {
        let selected = self.namespaces.read();
        selected.is_empty() || selected.contains(object.namespace().unwrap_or_default())
    }
}
