//! The resources that commands name themselves.

use std::sync::LazyLock;

use apimachinery::ApiResource;

pub static CLUSTER: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"));
pub static WORK: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("work.karmada.io", "v1alpha1", "Work", "works"));
pub static NAMESPACE: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("", "v1", "Namespace", "namespaces"));
pub static CONFIG_MAP: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"));
pub static SECRET: LazyLock<ApiResource> = LazyLock::new(|| ApiResource::namespaced("", "v1", "Secret", "secrets"));
pub static DEPLOYMENT: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("apps", "v1", "Deployment", "deployments"));
pub static SERVICE_ACCOUNT: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts"));
pub static CLUSTER_ROLE: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"));
pub static CLUSTER_ROLE_BINDING: LazyLock<ApiResource> = LazyLock::new(|| {
    ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
});
