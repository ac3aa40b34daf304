//! Identities of the objects that controllers and the scheduler keep in queues, maps and records. Each kind has its own
//! type, so that the key of a Work cannot be passed as the key of a binding.
//!
//! Clones share their text. `Display` and `Debug` print the key as Kubernetes prints names and keys, for logs.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ApiType;
use crate::cluster::v1alpha1::Cluster;
use crate::names::{cluster_of_namespace, execution_namespace};
use crate::work::v1alpha1::Work;

/// The name of a member cluster. Maps with such keys are searched by `&str`.
///
/// ```
/// use std::collections::BTreeMap;
/// use karmada_api::identity::ClusterName;
///
/// let ready = BTreeMap::from([(ClusterName::from("member1"), true)]);
/// assert_eq!(ready.get("member1"), Some(&true));
/// assert_eq!(ClusterName::from("member1").execution_namespace(), "karmada-es-member1");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// The name of a Cluster.
    pub fn of(cluster: &Cluster) -> Self {
        Self::from(cluster.metadata.name.as_str())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of the cluster's Works.
    pub fn execution_namespace(&self) -> String {
        execution_namespace(&self.0)
    }
}

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<&String> for ClusterName {
    fn from(name: &String) -> Self {
        Self(name.as_str().into())
    }
}

impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Deref for ClusterName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for ClusterName {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<String> for ClusterName {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<ClusterName> for String {
    fn eq(&self, other: &ClusterName) -> bool {
        **self == *other.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ClusterName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ClusterName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self(name.into()))
    }
}

/// Defines a key of one kind of object. It is accepted where any object's key is, and no other key where it is
/// required.
macro_rules! object_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(ObjectKey);

        impl Deref for $name {
            type Target = ObjectKey;

            fn deref(&self) -> &ObjectKey {
                &self.0
            }
        }

        impl Borrow<ObjectKey> for $name {
            fn borrow(&self) -> &ObjectKey {
                &self.0
            }
        }

        impl From<$name> for ObjectKey {
            fn from(key: $name) -> Self {
                key.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

object_key!(
    /// The key of a Work in the execution namespace of a cluster.
    ///
    /// ```
    /// use apimachinery::ObjectKey;
    /// use karmada_api::identity::WorkKey;
    ///
    /// let key = WorkKey::try_from(ObjectKey::namespaced("karmada-es-member1", "nginx")).expect("a Work's key");
    /// assert_eq!((key.cluster(), key.name()), ("member1", "nginx"));
    /// assert!(WorkKey::try_from(ObjectKey::namespaced("default", "nginx")).is_err());
    /// ```
    WorkKey
);

/// The key of a Work outside the execution namespaces: no member is known for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work {0} is not in an execution namespace")]
pub struct OutsideExecution(pub ObjectKey);

impl WorkKey {
    /// The Work `name` of a cluster.
    pub fn new(cluster: &ClusterName, name: impl AsRef<str>) -> Self {
        Self(ObjectKey::namespaced(cluster.execution_namespace(), name))
    }

    /// The key of a Work; `None` outside the execution namespaces.
    pub fn of(work: &Object) -> Option<Self> {
        work.namespace().and_then(cluster_of_namespace)?;
        Some(Self(work.key()))
    }

    /// The key of a decoded Work.
    ///
    /// # Errors
    /// The Work is outside the execution namespaces.
    pub fn of_work(work: &Work) -> Result<Self, OutsideExecution> {
        Self::try_from(work.key())
    }

    /// The name of the cluster, borrowed; [`ClusterName::from`] converts it to an owned name.
    pub fn cluster(&self) -> &str {
        let cluster = self.0.namespace().and_then(cluster_of_namespace);
        cluster.expect("both constructors check the namespace")
    }
}

impl TryFrom<ObjectKey> for WorkKey {
    type Error = OutsideExecution;

    fn try_from(key: ObjectKey) -> Result<Self, OutsideExecution> {
        match key.namespace().and_then(cluster_of_namespace) {
            Some(_) => Ok(Self(key)),
            None => Err(OutsideExecution(key)),
        }
    }
}

/// Defines the key types of a pair of kinds; [`crate::scope`] lists what depends on the scope of a key.
macro_rules! pair_key {
    ($(#[$doc:meta])* $name:ident) => {
        object_key!($(#[$doc])* $name);

        impl $name {
            /// The object of either kind with this namespace and name.
            pub fn new(key: ObjectKey) -> Self {
                Self(key)
            }

            /// The object of the kind with a namespace; of the other one if `namespace` is empty.
            pub fn namespaced(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
                Self::new(ObjectKey::namespaced(namespace, name))
            }

            /// The object of the kind without a namespace.
            pub fn cluster(name: impl AsRef<str>) -> Self {
                Self::new(ObjectKey::cluster(name))
            }

            /// The key of an object of either kind.
            pub fn of(object: &Object) -> Self {
                Self::new(object.key())
            }
        }
    };
}

pair_key!(
    /// The key of a ResourceBinding or a ClusterResourceBinding.
    ///
    /// ```
    /// use karmada_api::Scope;
    /// use karmada_api::identity::BindingKey;
    ///
    /// let key = BindingKey::namespaced("default", "nginx-deployment");
    /// assert_eq!((key.scope(), key.resource().kind.as_str()), (Scope::Namespaced, "ResourceBinding"));
    /// assert_eq!(key.to_string(), "default/nginx-deployment");
    /// ```
    BindingKey
);

pair_key!(
    /// The key of a PropagationPolicy or a ClusterPropagationPolicy.
    PolicyKey
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_is_in_an_execution_namespace() {
        for (namespace, cluster) in [
            ("karmada-es-m1", Some("m1")),
            ("karmada-es-karmada-es-m1", Some("karmada-es-m1")),
            ("karmada-es-", None),
            ("karmada-es", None),
            ("default", None),
            ("", None),
        ] {
            let key = ObjectKey::namespaced(namespace, "w");
            let found = WorkKey::try_from(key.clone());
            assert_eq!(found.as_ref().ok().map(WorkKey::cluster), cluster, "{namespace}");
            let text = format!(r#"{{"metadata":{{"name":"w","namespace":"{namespace}"}}}}"#);
            assert_eq!(WorkKey::of(&Object::parse(text).unwrap()), found.clone().ok(), "{namespace}");
            match found {
                Ok(found) => assert_eq!(WorkKey::new(&ClusterName::from(found.cluster()), "w"), found),
                Err(outside) => assert_eq!(outside.to_string(), format!("work {key} is not in an execution namespace")),
            }
        }
    }

    #[test]
    fn identities_print_and_encode_as_their_text() {
        let cluster = ClusterName::from("m1");
        assert_eq!((cluster.to_string(), format!("{cluster:?}")), ("m1".to_owned(), "m1".to_owned()));
        assert_eq!(serde_json::to_string(&cluster).unwrap(), r#""m1""#);
        assert_eq!(serde_json::from_str::<ClusterName>(r#""m1""#).unwrap(), cluster);
        for (key, text) in [(BindingKey::namespaced("ns", "b"), "ns/b"), (BindingKey::cluster("b"), "b")] {
            assert_eq!((key.to_string(), format!("{key:?}")), (text.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn keys_sort_as_the_store_does() {
        let mut keys =
            [("b", "a"), ("a", "b"), ("", "z"), ("a", "a")].map(|(ns, name)| BindingKey::namespaced(ns, name));
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["z", "a/a", "a/b", "b/a"]);
    }
}
