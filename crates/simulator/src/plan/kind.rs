//! The kinds that a member's controllers watch and write.

use std::sync::LazyLock;

use apimachinery::ApiResource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Node,
    Pod,
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
    ControllerRevision,
    Job,
    Service,
    EndpointSlice,
    /// Written, not watched.
    PersistentVolumeClaim,
}

/// In the order of the enum.
static RESOURCES: LazyLock<[ApiResource; 11]> = LazyLock::new(|| {
    [
        ApiResource::cluster("", "v1", "Node", "nodes"),
        ApiResource::namespaced("", "v1", "Pod", "pods"),
        ApiResource::namespaced("apps", "v1", "ReplicaSet", "replicasets"),
        ApiResource::namespaced("apps", "v1", "Deployment", "deployments"),
        ApiResource::namespaced("apps", "v1", "StatefulSet", "statefulsets"),
        ApiResource::namespaced("apps", "v1", "DaemonSet", "daemonsets"),
        ApiResource::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions"),
        ApiResource::namespaced("batch", "v1", "Job", "jobs"),
        ApiResource::namespaced("", "v1", "Service", "services"),
        ApiResource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
        ApiResource::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ]
});

impl Kind {
    /// The kinds with a cache, in the order of the enum.
    pub const WATCHED: [Self; 10] = [
        Self::Node,
        Self::Pod,
        Self::ReplicaSet,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::ControllerRevision,
        Self::Job,
        Self::Service,
        Self::EndpointSlice,
    ];

    pub fn resource(self) -> &'static ApiResource {
        &RESOURCES[self as usize]
    }

    /// The kind of a controller in an owner reference.
    pub fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        Self::WATCHED.into_iter().find(|known| {
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
        for (position, kind) in Kind::WATCHED.into_iter().enumerate() {
            assert_eq!(kind as usize, position);
            assert_eq!(kind.resource().kind, format!("{kind:?}"));
        }
        assert_eq!(Kind::of_owner("apps/v1", "ReplicaSet"), Some(Kind::ReplicaSet));
        assert_eq!(Kind::of_owner("example.io/v1", "ReplicaSet"), None);
    }
}
