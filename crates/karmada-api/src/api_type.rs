//! The API properties of typed objects.

use apimachinery::gvk::ApiResource;
use apimachinery::meta::ObjectMeta;
use apimachinery::{GroupVersionKind, Object, ObjectKey};

/// A typed top-level object.
///
/// ```
/// use apimachinery::ObjectKey;
/// use karmada_api::ApiType;
/// use karmada_api::policy::v1alpha1::PropagationPolicy;
///
/// let policy = PropagationPolicy::named(&ObjectKey::namespaced("default", "nginx"));
/// assert_eq!(policy.kind, "PropagationPolicy");
/// assert_eq!(PropagationPolicy::api_resource().object_path(&policy.key()),
///     "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies/nginx");
/// ```
pub trait ApiType: Default {
    /// The API group.
    const GROUP: &'static str;
    /// The API version.
    const VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The plural name of the resource.
    const PLURAL: &'static str;
    /// Whether objects have a namespace.
    const NAMESPACED: bool;

    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// The object's metadata, to change.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// An empty object with `apiVersion`, `kind`, namespace and name.
    fn named(key: &ObjectKey) -> Self;

    /// [`apimachinery::Object::decode`], compiled once, with the type: crates that call a generic decoder compile it
    /// again for each type.
    ///
    /// # Errors
    /// When the document does not match the type.
    fn from_object(object: &Object) -> Result<Self, serde_json::Error>;

    /// Namespace and name of the object.
    fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.metadata().namespace.as_str(), self.metadata().name.as_str())
    }

    /// The resource that serves the kind.
    fn api_resource() -> ApiResource {
        ApiResource {
            group: Self::GROUP.into(),
            version: Self::VERSION.into(),
            kind: Self::KIND.into(),
            plural: Self::PLURAL.into(),
            namespaced: Self::NAMESPACED,
        }
    }

    /// Group, version and kind.
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

            fn from_object(object: &apimachinery::Object) -> Result<Self, serde_json::Error> {
                object.decode()
            }

            #[allow(clippy::needless_update, reason = "some kinds have no other fields")]
            fn named(key: &apimachinery::ObjectKey) -> Self {
                Self {
                    api_version: concat!($group, "/", $version).to_owned(),
                    kind: stringify!($type).to_owned(),
                    metadata: apimachinery::meta::ObjectMeta {
                        name: key.name().to_owned(),
                        namespace: key.namespace().unwrap_or_default().to_owned(),
                        ..Default::default()
                    },
                    ..Self::default()
                }
            }
        }
    };
}
