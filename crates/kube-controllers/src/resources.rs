//! The resources that the controllers refer to.

use std::sync::LazyLock;

use apimachinery::ApiResource;

pub(crate) static NAMESPACES: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("", "v1", "Namespace", "namespaces"));
pub(crate) static SERVICE_ACCOUNTS: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts"));
pub(crate) static CONFIG_MAPS: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"));
pub(crate) static SECRETS: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "Secret", "secrets"));
pub(crate) static CLUSTER_ROLES: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"));
pub(crate) static CERTIFICATE_REQUESTS: LazyLock<ApiResource> = LazyLock::new(|| {
    ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
});
pub(crate) static RESOURCE_QUOTAS: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas"));
pub(crate) static JOBS: LazyLock<ApiResource> = LazyLock::new(|| ApiResource::namespaced("batch", "v1", "Job", "jobs"));
pub(crate) static PODS: LazyLock<ApiResource> = LazyLock::new(|| ApiResource::namespaced("", "v1", "Pod", "pods"));
pub(crate) static CLAIMS: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"));
pub(crate) static VOLUMES: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("", "v1", "PersistentVolume", "persistentvolumes"));
pub(crate) static FLOW_SCHEMAS: LazyLock<ApiResource> =
    LazyLock::new(|| ApiResource::cluster("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas"));
pub(crate) static PRIORITY_LEVELS: LazyLock<ApiResource> = LazyLock::new(|| {
    ApiResource::cluster(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    )
});
pub(crate) static ADMISSION_POLICIES: LazyLock<ApiResource> = LazyLock::new(|| {
    ApiResource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    )
});
pub(crate) static DEFINITIONS: LazyLock<ApiResource> = LazyLock::new(|| {
    ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
});
