//! The resources of the keys in a kube-apiserver's etcd. The engine has translated the keys: built-in resources have
//! their group here (`/registry/core/services/NS/NAME`).

use std::collections::HashSet;
use std::sync::OnceLock;

use apiserver::cache::keys;

/// The resource of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'k> {
    /// A built-in resource, as `GROUP/PLURAL`.
    BuiltIn(&'k str),
    /// A custom resource, as `GROUP/PLURAL`.
    Custom(&'k str),
    /// Something that only kube-apiserver uses, by its first name, and the reason why it is not needed.
    Unused(&'k str, &'static str),
    /// A key of this program that is not an object.
    Own,
}

/// Why allocations are not needed.
const ALLOCATED: &str = "addresses and node ports are allocated from the Services themselves";
const SERVERS: &str = "it is the lease of a kube-apiserver";
const NOT_SERVED: &str = "the resource is not served";

/// The keys of kube-apiservers that serve this etcd now. They expire after 15 s.
pub const SERVING: &str = "masterleases";

impl<'k> Place<'k> {
    /// The place of a store's key.
    pub fn of(key: &'k [u8]) -> Self {
        let Some(rest) = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(keys::ROOT)) else {
            return Self::Own;
        };
        let mut slashes = rest.match_indices('/').map(|(at, _)| at);
        let first = slashes.next().map_or(rest, |at| &rest[..at]);
        match first {
            "ranges" => return Self::Unused(first, ALLOCATED),
            SERVING | "peerserverleases" => return Self::Unused(first, SERVERS),
            _ => {}
        }
        let place = slashes.next().map(|at| &rest[..at]);
        match place {
            Some(place) if built_in().contains(place) => Self::BuiltIn(place),
            Some(place) if first.contains('.') => Self::Custom(place),
            _ => Self::Unused(first, NOT_SERVED),
        }
    }
}

/// The places of built-in resources.
fn built_in() -> &'static HashSet<String> {
    static PLACES: OnceLock<HashSet<String>> = OnceLock::new();
    PLACES.get_or_init(|| {
        let stored =
            kubernetes_api::resources().into_iter().filter(|it| it.info.verbs.iter().any(|verb| verb == "get"));
        let mut all: HashSet<_> =
            stored.map(|it| keys::group_resource(&it.info.resource.group, &it.info.resource.plural)).collect();
        all.insert(keys::group_resource("apiextensions.k8s.io", "customresourcedefinitions"));
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_belong_to_resources() {
        for (key, expected) in [
            ("/registry/core/services/ns/a", Place::BuiltIn("core/services")),
            ("/registry/core/events/ns/a", Place::BuiltIn("core/events")),
            ("/registry/apps/deployments/ns/a", Place::BuiltIn("apps/deployments")),
            ("/registry/rbac.authorization.k8s.io/roles/ns/a", Place::BuiltIn("rbac.authorization.k8s.io/roles")),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/a",
                Place::BuiltIn("apiextensions.k8s.io/customresourcedefinitions"),
            ),
            ("/registry/apiregistration.k8s.io/apiservices/v1.", Place::BuiltIn("apiregistration.k8s.io/apiservices")),
            ("/registry/work.karmada.io/works/ns/a", Place::Custom("work.karmada.io/works")),
            ("/registry/cluster.karmada.io/clusters/a", Place::Custom("cluster.karmada.io/clusters")),
            ("/registry/ranges/serviceips", Place::Unused("ranges", ALLOCATED)),
            ("/registry/masterleases/10.0.0.1", Place::Unused("masterleases", SERVERS)),
            ("/registry/peerserverleases/10.0.0.1", Place::Unused("peerserverleases", SERVERS)),
            ("/registry/clustertrustbundles/a", Place::Unused("clustertrustbundles", NOT_SERVED)),
            ("/registry/storageversions/a", Place::Unused("storageversions", NOT_SERVED)),
            ("/adoption/unfinished", Place::Own),
            ("", Place::Own),
        ] {
            assert_eq!(Place::of(key.as_bytes()), expected, "{key}");
        }
    }
}
