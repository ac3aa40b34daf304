//! The key of an object: its namespace and its name.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

/// Namespace and name. An empty namespace is a cluster-scoped object's; the order is the storage order (namespace,
/// then name, bytewise).
///
/// Clones share their text: caches, indexes and queues hold the key of each object several times.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ObjectKey {
    /// The namespace, then the name.
    text: Arc<str>,
    /// Bytes of the namespace.
    namespace: u32,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    ///
    /// ```
    /// use apimachinery::ObjectKey;
    ///
    /// let key = ObjectKey::namespaced("default", "nginx");
    /// assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (Some("default"), "nginx", "default/nginx"));
    /// assert!(ObjectKey::cluster("nginx") < key);
    /// ```
    pub fn namespaced(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        let (namespace, name) = (namespace.as_ref(), name.as_ref());
        // Requests and documents are smaller than 4 GiB; a longer text would be a name without a namespace.
        let length = u32::try_from(namespace.len()).unwrap_or_default();
        let text = if namespace.is_empty() { name.into() } else { joined(namespace, name) };
        Self { text, namespace: length }
    }

    /// The key of an object without a namespace.
    pub fn cluster(name: impl AsRef<str>) -> Self {
        Self { text: name.as_ref().into(), namespace: 0 }
    }

    /// `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.parts().0).filter(|namespace| !namespace.is_empty())
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.namespace as usize)
    }
}

/// Both texts in one allocation, unless they are long.
fn joined(namespace: &str, name: &str) -> Arc<str> {
    let mut bytes = SmallVec::<[u8; 160]>::from_slice(namespace.as_bytes());
    bytes.extend_from_slice(name.as_bytes());
    std::str::from_utf8(&bytes).expect("both parts are texts").into()
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.namespace.hash(state);
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(ns) => write!(f, "{ns}/{}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectKey").field("namespace", &self.parts().0).field("name", &self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_by_namespace_then_name() {
        let texts = ["", "a", "ab", "b", "é", "a\0", "\0"];
        let all: Vec<_> = texts.iter().flat_map(|namespace| texts.map(|name| (*namespace, name))).collect();
        for (namespace, name) in &all {
            let key = ObjectKey::namespaced(namespace, name);
            assert_eq!((key.namespace().unwrap_or_default(), key.name()), (*namespace, *name));
            for (other_namespace, other_name) in &all {
                let other = ObjectKey::namespaced(other_namespace, other_name);
                assert_eq!(key.cmp(&other), (namespace, name).cmp(&(other_namespace, other_name)), "{key:?} {other:?}");
                assert_eq!(key == other, (namespace, name) == (other_namespace, other_name), "{key:?} {other:?}");
            }
        }
        assert_eq!(ObjectKey::default(), ObjectKey::cluster(""));
    }

    #[test]
    fn clones_share_their_text() {
        let key = ObjectKey::namespaced("a", "b");
        assert!(Arc::ptr_eq(&key.text, &key.clone().text));
    }
}
