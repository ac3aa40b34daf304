//! What every typed object of this crate knows of its kind.

use apimachinery::gvk::ApiResource;
use apimachinery::meta::ObjectMeta;
use apimachinery::{GroupVersionKind, ObjectKey};

/// A typed top-level object.
pub trait ApiType: Default {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
    const NAMESPACED: bool;

    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// An empty object with `apiVersion`, `kind`, namespace and name filled in.
    fn named(key: &ObjectKey) -> Self;

    fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.metadata().namespace.as_str(), self.metadata().name.as_str())
    }

    fn api_resource() -> ApiResource {
        ApiResource {
            group: Self::GROUP.into(),
            version: Self::VERSION.into(),
            kind: Self::KIND.into(),
            plural: Self::PLURAL.into(),
            namespaced: Self::NAMESPACED,
        }
    }

    fn gvk() -> GroupVersionKind {
        GroupVersionKind::new(Self::GROUP, Self::VERSION, Self::KIND)
    }
}

/// `api_type!(Type, group, version, plural, namespaced)`: the kind is the name of the type.
#[macro_export]
#[doc(hidden)]
macro_rules! api_type {
    ($type:ident, $group:literal, $version:literal, $plural:literal, $namespaced:literal) => {
        impl $crate::ApiType for $type {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = stringify!($type);
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $namespaced;

            fn metadata(&self) -> &apimachinery::meta::ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut apimachinery::meta::ObjectMeta {
                &mut self.metadata
            }

            #[allow(clippy::needless_update, reason = "some kinds have nothing else")]
            fn named(key: &apimachinery::ObjectKey) -> Self {
                Self {
                    api_version: concat!($group, "/", $version).to_owned(),
                    kind: stringify!($type).to_owned(),
                    metadata: apimachinery::meta::ObjectMeta {
                        name: key.name.clone(),
                        namespace: key.namespace().unwrap_or_default().to_owned(),
                        ..Default::default()
                    },
                    ..Self::default()
                }
            }
        }
    };
}
