//! The kinds a member's controllers watch and write.

use std::sync::LazyLock;

use apimachinery::ApiResource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Node,
    Pod,
    ReplicaSet,
    Deployment,
}

/// In the order of the enum.
static RESOURCES: LazyLock<[ApiResource; 4]> = LazyLock::new(|| {
    [
        ApiResource::cluster("", "v1", "Node", "nodes"),
        ApiResource::namespaced("", "v1", "Pod", "pods"),
        ApiResource::namespaced("apps", "v1", "ReplicaSet", "replicasets"),
        ApiResource::namespaced("apps", "v1", "Deployment", "deployments"),
    ]
});

impl Kind {
    pub const ALL: [Self; 4] = [Self::Node, Self::Pod, Self::ReplicaSet, Self::Deployment];

    pub fn resource(self) -> &'static ApiResource {
        &RESOURCES[self as usize]
    }

    /// The kind of a controller that an owner reference names.
    pub fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| {
            let resource = known.resource();
            resource.kind == kind && resource.api_version() == api_version
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree() {
        for (position, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, position);
            assert_eq!(kind.resource().kind, format!("{kind:?}"));
        }
        assert_eq!(Kind::of_owner("apps/v1", "ReplicaSet"), Some(Kind::ReplicaSet));
        assert_eq!(Kind::of_owner("example.io/v1", "ReplicaSet"), None);
    }
}
