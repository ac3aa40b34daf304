//! Names that several components compute independently, so they are exact to the byte.

use apimachinery::hash::{fnv1a32, safe_encode};

use crate::constants::labels::DEPENDED_BY_PREFIX;
use crate::constants::namespaces::EXECUTION_PREFIX;

/// An object's name without the colons that RBAC allows, as part of the name of a Work.
fn dotted(name: &str) -> String {
    name.replace(':', ".")
}

/// The execution namespace of a cluster.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{EXECUTION_PREFIX}{cluster}")
}

/// The cluster of an execution namespace.
pub fn cluster_of_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(EXECUTION_PREFIX).filter(|cluster| !cluster.is_empty())
}

/// The name of a template's binding.
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{}-{kind}", dotted(name)).to_lowercase()
}

/// The name of an object's Work; `namespace` is empty for cluster-scoped objects. The group is not part of the name.
pub fn work_name(kind: &str, name: &str, namespace: &str) -> String {
    let name = dotted(name).to_lowercase();
    let key = if namespace.is_empty() { format!("{name}-{kind}") } else { format!("{namespace}-{name}-{kind}") };
    let hash = safe_encode(fnv1a32(key.to_lowercase().as_bytes()));
    format!("{name}-{hash}")
}

/// The key of a binding in `depended-by` labels; `namespace` is empty for a ClusterResourceBinding.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    let key = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    safe_encode(fnv1a32(key.as_bytes()))
}

/// The name of the policy that `karmadactl apply` and `promote` create; `gvk` is `apps/v1, Kind=Deployment`.
pub fn policy_name(namespace: &str, name: &str, gvk: &str) -> String {
    let hash = safe_encode(fnv1a32(format!("{namespace}{gvk}").as_bytes()));
    format!("{}-{hash}", dotted(name)).to_lowercase()
}

const FAILOVER_HISTORY: &str = "karmada-failover-history-";

/// The name of the ConfigMap for a segment of the failover history.
pub fn failover_history(segment: usize) -> String {
    format!("{FAILOVER_HISTORY}{segment:02}")
}

/// The segment of a ConfigMap of the failover history.
pub fn segment_of_failover_history(name: &str) -> Option<usize> {
    name.strip_prefix(FAILOVER_HISTORY)?.parse().ok()
}

/// The name of a member's EndpointSlice in the control plane, for a ServiceImport.
pub fn imported_slice(cluster: &str, slice: &str) -> String {
    format!("imported-{cluster}-{slice}")
}

/// The name of a provider's EndpointSlice in the consumers of a MultiClusterService.
pub fn dispatched_slice(provider: &str, slice: &str) -> String {
    format!("{provider}-{slice}")
}

/// The name of the Service for a ServiceImport.
pub fn derived_service(service: &str) -> String {
    format!("derived-{service}")
}

/// The name of a member's impersonation ServiceAccount, ClusterRole and ClusterRoleBinding.
pub const IMPERSONATOR: &str = "karmada-impersonator";

/// The name of the control plane's ServiceAccount in a member.
pub fn member_account(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

/// The name of the ClusterRole and ClusterRoleBinding of such an account.
pub fn member_role(account: &str) -> String {
    format!("karmada-controller-manager:{account}")
}

/// The name of the Secret with a member's impersonation token; the credential Secret has the cluster's own name.
pub fn impersonator_secret(cluster: &str) -> String {
    format!("{cluster}-impersonator")
}

/// The name of the Service of a cluster's estimator; `prefix` is `--scheduler-estimator-service-prefix`.
pub fn estimator_service(prefix: &str, cluster: &str) -> String {
    format!("{prefix}-{cluster}")
}

/// The label key for a dependent binding, by its [`binding_reference_key`].
pub fn depended_by_label(key: &str) -> String {
    format!("{DEPENDED_BY_PREFIX}{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_names() {
        for (kind, name, namespace, expected) in [
            ("Deployment", "nginx", "default", "nginx-687f7fb96f"),
            ("Deployment", "Nginx", "default", "nginx-687f7fb96f"),
            ("ConfigMap", "nginx", "default", "nginx-7dcff4d6b"),
            ("ClusterRole", "system:Node", "", "system.node-799967cd8f"),
            ("ClusterRole", "system:admin", "", "system.admin-7c7568b598"),
            ("Namespace", "prod", "", "prod-f968896c4"),
            ("Namespace", "foo", "", "foo-5dbdc7b59c"),
            ("ResourceQuota", "Q", "Team-A", "q-6b68c47c65"),
            ("EndpointSlice", "imported-member1-serve-abcde", "ns", "imported-member1-serve-abcde-6bd965665c"),
            ("ClusterRole", "karmada-impersonator", "", "karmada-impersonator-7cbb6bd5c9"),
            ("CustomResourceDefinition", "foos.example.com", "", "foos.example.com-66c968c6cb"),
        ] {
            assert_eq!(work_name(kind, name, namespace), expected);
        }
    }

    #[test]
    fn other_names() {
        assert_eq!(binding_name("ClusterRole", "system:Node"), "system.node-clusterrole");
        assert_eq!(binding_reference_key("default", "nginx-deployment"), "5bdc5c4dcf");
        assert_eq!(binding_reference_key("", "foo-clusterrole"), "846f98bd4d");
        assert_eq!(binding_reference_key("", "prod-namespace"), "f968896c4");
        assert_eq!(policy_name("default", "nginx", "apps/v1, Kind=Deployment"), "nginx-6d7f8d5f5b");
        let gvk = "rbac.authorization.k8s.io/v1, Kind=ClusterRole";
        assert_eq!(policy_name("", "system:Foo", gvk), "system.foo-54499c54c");
        assert_eq!(execution_namespace("m1"), "karmada-es-m1");
        assert_eq!(cluster_of_namespace("karmada-es-m1"), Some("m1"));
        assert_eq!(cluster_of_namespace("default"), None);
        assert_eq!(imported_slice("m1", "web-x1"), "imported-m1-web-x1");
        assert_eq!(dispatched_slice("m1", "web-x1"), "m1-web-x1");
        assert_eq!(derived_service("web"), "derived-web");
        assert_eq!(member_role(&member_account("m1")), "karmada-controller-manager:karmada-m1");
        assert_eq!(impersonator_secret("m1"), "m1-impersonator");
        assert_eq!(estimator_service("karmada-scheduler-estimator", "m1"), "karmada-scheduler-estimator-m1");
        assert_eq!(depended_by_label("5bdc5c4dcf"), "resourcebinding.karmada.io/depended-by-5bdc5c4dcf");
    }
}
