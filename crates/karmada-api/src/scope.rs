//! The API has pairs of kinds that differ in scope only; the program has one type for each pair, with a [`Scope`]. All
//! differences between the two kinds are in this file.

use apimachinery::gvk::ApiResource;
use apimachinery::meta::ObjectMeta;
use apimachinery::{Object, ObjectKey};
use serde::Serialize;

use crate::ApiType;
use crate::constants::{annotations, finalizers, labels};
use crate::identity::{BindingKey, PolicyKey};
use crate::policy::v1alpha1::{
    ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, OverrideSpec, PropagationPolicy, PropagationSpec,
};
use crate::work::v1alpha2::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus};

/// The scope of a kind of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The kind with a namespace, such as ResourceBinding.
    Namespaced,
    /// The kind without a namespace, such as ClusterResourceBinding.
    Cluster,
}

impl Scope {
    /// Both scopes.
    pub const ALL: [Self; 2] = [Self::Namespaced, Self::Cluster];

    /// The scope of an object by its key.
    pub fn of(key: &ObjectKey) -> Self {
        if key.namespace().is_some() { Self::Namespaced } else { Self::Cluster }
    }

    fn pick<T>(self, namespaced: T, cluster: T) -> T {
        match self {
            Self::Namespaced => namespaced,
            Self::Cluster => cluster,
        }
    }

    /// The label with a binding's permanent id, on the binding and on its Works.
    pub fn binding_id_label(self) -> &'static str {
        self.pick(labels::BINDING_ID, labels::CLUSTER_BINDING_ID)
    }

    /// The finalizer of a binding.
    pub fn binding_finalizer(self) -> &'static str {
        self.pick(finalizers::BINDING, finalizers::CLUSTER_BINDING)
    }

    /// The annotation with a binding's name, on its Works.
    pub fn binding_name_annotation(self) -> &'static str {
        self.pick(annotations::BINDING_NAME, annotations::CLUSTER_BINDING_NAME)
    }

    /// The annotation with a binding's namespace; `None` for cluster-scoped bindings.
    pub fn binding_namespace_annotation(self) -> Option<&'static str> {
        self.pick(Some(annotations::BINDING_NAMESPACE), None)
    }

    /// The label with a policy's permanent id, on the policy and on the templates it claims.
    pub fn policy_id_label(self) -> &'static str {
        self.pick(labels::POLICY_ID, labels::CLUSTER_POLICY_ID)
    }

    /// The finalizer of a policy.
    pub fn policy_finalizer(self) -> &'static str {
        self.pick(finalizers::POLICY, finalizers::CLUSTER_POLICY)
    }

    /// The annotation with the policy's name, on the templates it claims.
    pub fn policy_name_annotation(self) -> &'static str {
        self.pick(annotations::POLICY_NAME, annotations::CLUSTER_POLICY_NAME)
    }

    /// The annotation with the policy's namespace; `None` for cluster-scoped policies.
    pub fn policy_namespace_annotation(self) -> Option<&'static str> {
        self.pick(Some(annotations::POLICY_NAMESPACE), None)
    }

    /// The annotation of a Work that records applied overrides.
    pub fn applied_overrides_annotation(self) -> &'static str {
        self.pick(annotations::APPLIED_OVERRIDES, annotations::APPLIED_CLUSTER_OVERRIDES)
    }

    /// The kind in words, as events name it before `name` or `namespace/name`.
    pub fn policy_words(self) -> &'static str {
        self.pick("policy", "cluster policy")
    }
}

/// An object that cannot be decoded as a kind of the pair.
#[derive(Debug, thiserror::Error)]
#[error("decoding {kind} {key}: {source}")]
pub struct DecodeError {
    /// The kind.
    pub kind: String,
    /// Namespace and name of the object.
    pub key: ObjectKey,
    /// The decoder's error.
    pub source: serde_json::Error,
}

fn is_default_ref<T: Default + PartialEq>(value: &&T) -> bool {
    **value == T::default()
}

/// Defines a type for a pair of kinds, with decoding from and encoding to both. `$key` makes an [`ObjectKey`] theirs.
macro_rules! pair {
    ($(#[$doc:meta])* $name:ident, $key:ty = $to_key:expr, { $namespaced:ident, $cluster:ident } { $($(#[$field_doc:meta])* $field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            /// The scope, which determines the kind.
            pub scope: Scope,
            /// The object's metadata.
            pub metadata: ObjectMeta,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// An empty object; the key determines the scope.
            pub fn named(key: &ObjectKey) -> Self {
                Self {
                    scope: Scope::of(key),
                    metadata: ObjectMeta {
                        name: key.name().to_owned(),
                        namespace: key.namespace().unwrap_or_default().to_owned(),
                        ..ObjectMeta::default()
                    },
                    $($field: Default::default(),)*
                }
            }

            /// The resource that serves this scope.
            pub fn api_resource(scope: Scope) -> ApiResource {
                match scope {
                    Scope::Namespaced => $namespaced::api_resource(),
                    Scope::Cluster => $cluster::api_resource(),
                }
            }

            /// The kind of a scope.
            pub fn kind(scope: Scope) -> &'static str {
                scope.pick($namespaced::KIND, $cluster::KIND)
            }

            /// Namespace and name of the object.
            pub fn key(&self) -> $key {
                let key = ObjectKey::namespaced(self.metadata.namespace.as_str(), self.metadata.name.as_str());
                $to_key(key)
            }

            /// Decodes either kind, by the object's `kind`, or by its namespace if the kind is absent.
            pub fn decode(object: &Object) -> Result<Self, DecodeError> {
                let scope = match object.kind() {
                    kind if kind == $cluster::KIND => Scope::Cluster,
                    kind if kind == $namespaced::KIND => Scope::Namespaced,
                    _ => Scope::of(&object.key()),
                };
                let wire: $namespaced = object.decode().map_err(|source| DecodeError {
                    kind: Self::kind(scope).to_owned(),
                    key: object.key(),
                    source,
                })?;
                Ok(Self { scope, metadata: wire.metadata, $($field: wire.$field,)* })
            }

            /// Decodes a tree of either kind.
            pub fn from_value(scope: Scope, value: &serde_json::Value) -> Result<Self, serde_json::Error> {
                let wire = <$namespaced as serde::Deserialize>::deserialize(value)?;
                Ok(Self { scope, metadata: wire.metadata, $($field: wire.$field,)* })
            }

            /// Encodes the object as the kind of its scope.
            pub fn encode(&self) -> Result<Object, serde_json::Error> {
                Object::encode(self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire<'a> {
                    api_version: String,
                    kind: &'static str,
                    metadata: &'a ObjectMeta,
                    $(#[serde(skip_serializing_if = "is_default_ref")] $field: &'a $type,)*
                }
                Wire {
                    api_version: Self::api_resource(self.scope).api_version(),
                    kind: Self::kind(self.scope),
                    metadata: &self.metadata,
                    $($field: &self.$field,)*
                }
                .serialize(serializer)
            }
        }
    };
}

pair!(
    /// A ResourceBinding or a ClusterResourceBinding.
    Binding, BindingKey = BindingKey::new, { ResourceBinding, ClusterResourceBinding } {
        /// The desired state.
        spec: ResourceBindingSpec,
        /// The observed state.
        status: ResourceBindingStatus
    }
);

pair!(
    /// A PropagationPolicy or a ClusterPropagationPolicy.
    Policy, PolicyKey = PolicyKey::new, { PropagationPolicy, ClusterPropagationPolicy } {
        /// The desired state.
        spec: PropagationSpec
    }
);

pair!(
    /// An OverridePolicy or a ClusterOverridePolicy.
    Override, ObjectKey = std::convert::identity, { OverridePolicy, ClusterOverridePolicy } {
        /// The desired state.
        spec: OverrideSpec
    }
);

impl BindingKey {
    /// The scope, which determines the kind.
    pub fn scope(&self) -> Scope {
        Scope::of(self)
    }

    /// The resource that serves the kind.
    pub fn resource(&self) -> ApiResource {
        Binding::api_resource(self.scope())
    }
}

impl PolicyKey {
    /// The scope, which determines the kind.
    pub fn scope(&self) -> Scope {
        Scope::of(self)
    }

    /// The resource that serves the kind.
    pub fn resource(&self) -> ApiResource {
        Policy::api_resource(self.scope())
    }
}

impl Binding {
    /// The binding's permanent id; empty before admission sets it.
    pub fn permanent_id(&self) -> &str {
        self.metadata.labels.get(self.scope.binding_id_label()).map_or("", String::as_str)
    }

    /// Whether the template has replicas.
    pub fn is_workload(&self) -> bool {
        self.spec.replicas > 0 || self.spec.replica_requirements.is_some() || !self.spec.components.is_empty()
    }
}

impl Policy {
    /// The policy's permanent id; empty before admission sets it.
    pub fn permanent_id(&self) -> &str {
        self.metadata.labels.get(self.scope.policy_id_label()).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_of_a_key_selects_the_kind() {
        for (key, binding, policy) in [
            (ObjectKey::namespaced("ns", "a"), "ResourceBinding", "PropagationPolicy"),
            (ObjectKey::cluster("a"), "ClusterResourceBinding", "ClusterPropagationPolicy"),
        ] {
            let (of_binding, of_policy) = (BindingKey::new(key.clone()), PolicyKey::new(key.clone()));
            assert_eq!((of_binding.resource().kind, of_policy.resource().kind), (binding.into(), policy.into()));
            assert_eq!((of_binding.scope(), of_policy.scope()), (Scope::of(&key), Scope::of(&key)));
            assert_eq!(ObjectKey::from(Binding::named(&of_binding).key()), key);
        }
    }

    #[test]
    fn either_kind_is_read_and_written_back() {
        for scope in Scope::ALL {
            let key = scope.pick(ObjectKey::namespaced("ns", "a"), ObjectKey::cluster("a"));
            let mut binding = Binding::named(&key);
            binding.spec.replicas = 3;
            let object = binding.encode().unwrap();
            assert_eq!(object.kind(), Binding::kind(scope));
            assert_eq!(object.api_version(), "work.karmada.io/v1alpha2");
            assert_eq!(Binding::decode(&object).unwrap(), binding);
        }
    }
}
